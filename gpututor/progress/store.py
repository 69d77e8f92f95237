"""Progress queries: attempts, hints, choices and the history of an exercise.

The file is in WAL mode with `synchronous=FULL`: an acknowledged attempt survives kill -9 and loss of power. That costs
a few milliseconds of a grading that takes hundreds. A damaged file is set aside, and a new file is created.
"""

from __future__ import annotations

import contextlib
import json
import math
import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from gpututor.errors import ProgressError
from gpututor.grading.outcome import Outcome, Status
from gpututor.progress import database

if TYPE_CHECKING:
    from gpututor.grading.report import Report

_SINCE_2: dict[str, dict[str, Any]] = {
    "verdicts": {"points": 0.0, "of": 0.0, "measured": ""},
    "runs": {"times": "", "placement": ""},
    "environment": {"driver": "", "workers": ""},
}
"""Keys that version 2 added to each part of the report, with the value that means "unknown"."""


def read_record(text: str) -> Report:
    """Return the report in `text`. Raises `ValueError` if neither this version nor an older one wrote it."""
    from gpututor.grading.report import Report  # 4 ms, and a list of exercises needs no report

    data = json.loads(text)
    if isinstance(data, dict) and data.get("schema_version") == 1:
        data = _from_version_1(data)
    return Report.from_json(data)


def _from_version_1(data: dict[str, Any]) -> dict[str, Any]:
    def widened(part: Any, name: str) -> Any:
        return {**_SINCE_2[name], **part} if isinstance(part, dict) else part

    parts = {name: data.get(name) for name in _SINCE_2}
    for name, part in parts.items():
        parts[name] = [widened(item, name) for item in part] if isinstance(part, list) else widened(part, name)
    outcome = data.get("outcome")
    final = outcome in list(Outcome) and Outcome(outcome).is_of_the_submission
    since = {"schema_version": 2, "waited_s": 0.0, "suspicions": [], "points": 0.0, "of": 0.0}
    return {**data, **parts, **since, "final": final}


NOT_COUNTED = (Outcome.NOT_GRADABLE_HERE, Outcome.INTERNAL_ERROR, Outcome.INCONCLUSIVE)
"""Outcomes that are stored, but are not an attempt of the learner."""

_SUMMARY = """
SELECT exercise, SUM(attempts), MAX(passed), SUM(used) FROM (
    SELECT exercise, SUM(counted) AS attempts, MAX(outcome = 'passed') AS passed, 0 AS used
    FROM attempts GROUP BY exercise
    UNION ALL SELECT exercise, 0, 0, used FROM hints
) GROUP BY exercise
"""

_RECORD = """
INSERT INTO attempts (exercise, outcome, counted, report, source, run_ns, peak_bytes, spooled_as)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""
_ATTEMPT = """
SELECT report, (SELECT COUNT(*) FROM attempts AS other WHERE other.exercise = own.exercise AND other.counted
                AND other.id <= own.id), source, run_ns, peak_bytes
FROM attempts AS own WHERE id = ? AND counted
"""
_PASSED = "SELECT id, run_ns FROM attempts WHERE exercise = ? AND outcome = 'passed'"
_LEAST_FREE_BYTES = 64 << 10
"""Free space below which SQLite can fail to write with no more explanation than `disk I/O error`."""
_SOLUTION, _REPEAT = "solution opened ", "begun again "
_FAILURES = (Status.FAILED, Status.TOO_SLOW)
_AFTER_ALL = 1 << 62
"""An id above the ids of all attempts."""

Result = TypeVar("Result")


@dataclass(frozen=True)
class Attempt:
    """A stored grading of a submission."""

    report: Report
    number: int
    """1 for the exercise's first counted attempt."""
    id: int = 0
    """A number that grows with time, unique in the file."""
    source: str | None = None
    """The text that was graded; None if an older gpututor did not store it."""
    run_ns: int | None = None
    """Nanoseconds of all calls, modelled or measured as the report's runs say; None without a recording."""
    peak_bytes: int | None = None
    """Largest memory of tensors on one device; None without a recording."""

    @property
    def devices(self) -> tuple[str, ...]:
        """Devices of the runs: times of different devices must not be compared."""
        return tuple(run.device for run in self.report.runs)


@dataclass(frozen=True)
class ExerciseProgress:
    """Progress in one exercise, as a list of exercises shows it."""

    attempts: int = 0
    passed: bool = False
    """True if any attempt passed."""
    hints_used: int = 0


@dataclass(frozen=True)
class FailedCheck:
    """Name and sentence of a check that failed."""

    check: str
    sentence: str


@dataclass(frozen=True)
class AttemptSummary:
    """A counted attempt, without its whole report."""

    id: int
    exercise: str
    passed: bool
    failed: tuple[FailedCheck, ...]
    measured: tuple[str, ...]
    """Figures of its checks, such as those of a speed check."""
    started_at: str = ""
    """ISO time of the grading; empty if a newer gpututor wrote it differently."""


class ProgressStore:
    """The learner's progress in the file at `path`. Safe for several threads and several processes at once.

    Every method raises `ProgressError` if the file cannot be read or written.
    """

    def __init__(self, path: Path, *, patience: database.Patience = database.patiently) -> None:
        self.path = path
        self.patience = patience
        self.notice: str | None = None
        """Message about a new file in place of a damaged or empty one; None if the file was sound."""
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None
        with self._errors_converted():
            self._connection = self._open()

    def record(
        self,
        report: Report,
        source: str | None = None,
        *,
        run_ns: int | None = None,
        peak_bytes: int | None = None,
        spooled_as: str | None = None,
    ) -> int:
        """Store the report on the text `source`, figures of its recording and its entry in the spool; return the id."""
        counted = report.outcome not in NOT_COUNTED
        text = None if source is None else source.encode("utf-8", "replace").decode()
        content = json.dumps(report.to_json())
        row = (report.exercise, str(report.outcome), counted, content, text, run_ns, peak_bytes, spooled_as)
        return int(self._do(lambda connection: connection.execute(_RECORD, row)).lastrowid or 0)

    def id_of_entry(self, spooled_as: str) -> int | None:
        """Return the id of the attempt that had this name in the spool, if it is stored."""
        id_: int | None = self._value("SELECT id FROM attempts WHERE spooled_as = ?", spooled_as)
        return id_

    def attempts(self, key: str, *, newest: int = -1, before: int = _AFTER_ALL) -> list[Attempt]:
        """Return counted attempts at an exercise, newest last: `newest` at most, with ids below `before`; 1 ms each."""
        ids = reversed(self.ids(key, newest=newest, before=before))
        return [attempt for id_ in ids if (attempt := self.attempt(id_))]

    def ids(self, key: str, *, newest: int = -1, before: int = _AFTER_ALL) -> list[int]:
        """Return the ids of the counted attempts at the exercise, newest first."""
        statement = "SELECT id FROM attempts WHERE exercise = ? AND counted AND id < ? ORDER BY id DESC LIMIT ?"
        return [id_ for (id_,) in self.rows(statement, key, before, newest)]

    def attempt(self, id: int) -> Attempt | None:
        """Return the attempt with this id; None if it is not counted, or a newer gpututor wrote it differently."""
        for text, *rest in self.rows(_ATTEMPT, id):
            with contextlib.suppress(ValueError):
                number, source, run_ns, peak_bytes = rest
                return Attempt(read_record(text), number, id, source, run_ns, peak_bytes)
        return None

    def latest(self, key: str) -> Attempt | None:
        """Return the newest counted attempt that can be read."""
        return self._first_readable(self.ids(key))

    def best(self, key: str) -> Attempt | None:
        """Return the attempt that passed in the shortest time.

        That is the time of its calls, on the device of the last pass; without any recording, of the grading.
        """
        timed = self.rows(f"{_PASSED} AND run_ns > 0 ORDER BY id DESC", key)
        last = self._first_readable(id_ for id_, _ in timed)
        for id_, _ in sorted(timed, key=lambda row: (row[1], row[0])) if last else ():
            if (attempt := self.attempt(id_)) is not None and attempt.devices == (last and last.devices):
                return attempt
        passed = self.rows("SELECT id, report FROM attempts WHERE exercise = ? AND outcome = 'passed'", key)
        return self._first_readable(id_ for _, id_ in sorted((_elapsed_s(text), id_) for id_, text in passed))

    def summary(self) -> dict[str, ExerciseProgress]:
        """Return progress by exercise key, for exercises with any progress."""
        rows = self.rows(_SUMMARY)
        return {key: ExerciseProgress(attempts, bool(passed), used) for key, attempts, passed, used in rows}

    def current_exercise(self) -> str | None:
        """Return the key of the exercise where the learner left off in the app."""
        return self._last_chosen("current_exercise")

    def set_current_exercise(self, key: str) -> None:
        self._choose("current_exercise", key)

    def exercise_opened_last(self) -> str | None:
        """Return the key of the exercise that was opened last, in the app or by `gpututor watch`."""
        return self._last_chosen("current_exercise", "watched_exercise")

    def set_watched_exercise(self, key: str) -> None:
        """Store the exercise that `gpututor watch` opened; the app's current exercise stays."""
        self._choose("watched_exercise", key)

    def place(self) -> str | None:
        """Return where in the current exercise the learner left off, as `set_place` stored it."""
        return self._last_chosen("place")

    def set_place(self, place: str) -> None:
        self._choose("place", place)

    def hints_used(self, key: str) -> int:
        return int(self._value("SELECT used FROM hints WHERE exercise = ?", key) or 0)

    def open_hints(self, key: str, number: int) -> None:
        """Store that at least `number` hints of the exercise are open."""
        statement = "INSERT INTO hints (exercise, used) VALUES (?, ?)"
        self.rows(f"{statement} ON CONFLICT (exercise) DO UPDATE SET used = MAX(used, excluded.used)", key, number)

    def attempt_summaries(self) -> list[AttemptSummary]:
        """Return every counted attempt at any exercise, oldest first; takes 50 µs an attempt."""
        rows = self.rows("SELECT id, exercise, outcome, report FROM attempts WHERE counted ORDER BY id")
        return [_summarize(*row) for row in rows]

    def all_ids(self, key: str) -> list[int]:
        """Return the ids of all attempts at the exercise, newest first, also of those that do not count."""
        return [id_ for (id_,) in self.rows("SELECT id FROM attempts WHERE exercise = ? ORDER BY id DESC", key)]

    def mark_solution_opened(self, key: str) -> None:
        self._mark(_SOLUTION + key)

    def solutions_opened(self) -> frozenset[str]:
        """Return the keys of the exercises whose solution was opened before a pass."""
        return frozenset(self._marked(_SOLUTION))

    def mark_begun_again(self, key: str) -> None:
        """Record that the learner starts the exercise anew: earlier attempts stop counting once there is a new one."""
        self._mark(_REPEAT + key)

    def begun_again(self) -> dict[str, int]:
        """Return by exercise key the id of the last attempt before the learner started it anew."""
        return self._marked(_REPEAT)

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def rows(self, statement: str, *values: str | int) -> list[tuple[Any, ...]]:
        """Return the rows of one statement, which is its own transaction."""
        return self._do(lambda connection: connection.execute(statement, values).fetchall())

    def _mark(self, name: str) -> None:
        statement = "INSERT OR REPLACE INTO choices (name, value) SELECT ?, COALESCE(MAX(id), 0) FROM attempts"
        self.rows(statement, name)

    def _marked(self, prefix: str) -> dict[str, int]:
        rows = self.rows("SELECT name, value FROM choices WHERE substr(name, 1, ?) = ?", len(prefix), prefix)
        return {name.removeprefix(prefix): int(value) for name, value in rows if str(value).isdigit()}

    def _choose(self, name: str, value: str) -> None:
        self.rows("INSERT OR REPLACE INTO choices (name, value) VALUES (?, ?)", name, value)

    def _last_chosen(self, *names: str) -> str | None:
        """Return the newest value among the choices of these names."""
        # A new choice gets the highest rowid.
        marks = ", ".join("?" * len(names))
        value = self._value(f"SELECT value FROM choices WHERE name IN ({marks}) ORDER BY rowid DESC LIMIT 1", *names)
        return None if value is None else str(value)

    def _value(self, statement: str, *values: str) -> Any:
        """Return the first value of the first row; None without rows."""
        return next((row[0] for row in self.rows(statement, *values)), None)

    def _first_readable(self, ids: Iterable[int]) -> Attempt | None:
        return next((attempt for id_ in ids if (attempt := self.attempt(id_))), None)

    def _do(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        """Return the result of `work`, which executes one statement, its own transaction.

        A file that turns out to be damaged is set aside, and `work` is done on a new file.
        """
        with self._lock, self._errors_converted():
            if self._connection is None:
                self._connection = self._open()
            try:
                self._connection.execute(f"PRAGMA busy_timeout = {int(self.patience() * 1000)}")
                return work(self._connection)
            except sqlite3.DatabaseError as error:
                if not database.is_damage(error):
                    raise
                self.close()
                self._connection = self._open(suspect=True)
                return work(self._connection)

    def _open(self, *, suspect: bool = False) -> sqlite3.Connection:
        """Connect while no other process does: only one of them may migrate a file, or set a damaged file aside."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with database.exclusive_lock(self.path, self.patience()):
            if database.is_emptied(self.path):
                self.notice = f"Your progress file {self.path} was empty, so a new one was started."
            try:
                return database.connect(self.path, self.patience(), check_all=suspect)
            except sqlite3.DatabaseError as error:
                if not database.is_damage(error):
                    raise
                aside = database.set_aside(self.path)
                self.notice = (
                    f"Your progress file was damaged ({error}) and is now {aside}; a new one was started. "
                    "Your solutions are unchanged."
                )
                return database.connect(self.path, self.patience())

    @contextlib.contextmanager
    def _errors_converted(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            reason, advice = str(error), "Close other gpututor processes, and check permissions and free space there"
            if _is_disk_full(self.path.parent):
                reason, advice = "the disk is full", f"Free space in {self.path.parent}"
            title = f"Progress in {self.path} cannot be read or written: {reason}."
            raise ProgressError(title, f"{advice}; GPUTUTOR_HOME moves it.") from error
        except OSError as error:
            advice = f"Give yourself write permission for {self.path.parent}, or set GPUTUTOR_HOME to another folder."
            raise ProgressError(f"Progress in {self.path} cannot be stored: {error.strerror}.", advice) from error


def _summarize(id: int, exercise: str, outcome: str, report: str) -> AttemptSummary:
    """Read no more of a report than needed: a report of a newer gpututor counts as an attempt, too."""
    failed: list[FailedCheck] = []
    measured: list[str] = []
    content = _content(report)
    verdicts = content.get("verdicts")
    for verdict in verdicts if isinstance(verdicts, list) else ():
        if not isinstance(verdict, dict):
            continue
        if verdict.get("status") in _FAILURES:
            failed.append(FailedCheck(str(verdict.get("check")), str(verdict.get("sentence"))))
        if text := verdict.get("measured"):
            measured.append(str(text))
    return AttemptSummary(
        id, exercise, outcome == Outcome.PASSED, tuple(failed), tuple(measured), str(content.get("started_at", ""))
    )


def _content(report: str) -> dict[str, Any]:
    with contextlib.suppress(ValueError, RecursionError):  # a damaged report still counts as an attempt
        content = json.loads(report)
        return content if isinstance(content, dict) else {}
    return {}


def _is_disk_full(folder: Path) -> bool:
    with contextlib.suppress(OSError):  # unknown, so the error keeps SQLite's own words
        return shutil.disk_usage(folder).free < _LEAST_FREE_BYTES
    return False


def _elapsed_s(report: str) -> float:
    """Return the seconds of a grading, without validating the whole report, which takes twenty times as long."""
    with contextlib.suppress(ValueError, KeyError, TypeError, RecursionError):
        return float(json.loads(report)["elapsed_s"])
    return math.inf
