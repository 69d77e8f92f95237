"""Progress queries: attempts, hints, notes and the history of an exercise.

The file is in WAL mode with `synchronous=FULL`: an attempt that was acknowledged survives kill -9 and loss of power;
it costs a few milliseconds of a grading that takes hundreds. A damaged file is set aside and a new one is begun.
"""

from __future__ import annotations

import contextlib
import json
import math
import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from gpututor.errors import ProgressError
from gpututor.grading.report import Outcome, Report, Status
from gpututor.progress import database

_SINCE_2: dict[str, dict[str, Any]] = {
    "verdicts": {"points": 0.0, "of": 0.0, "measured": ""},
    "runs": {"times": "", "placement": ""},
    "environment": {"driver": "", "workers": ""},
}
"""Keys that version 2 added, by the part of the report, with what stands for "nobody wrote it down"."""


def read_record(text: str) -> Report:
    """The report that was kept as `text`. Raises `ValueError` for what no gpututor up to this one wrote."""
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
"""Outcomes that are kept, but are no attempt of the learner's."""

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
"""With less free space SQLite can fail to write, and says nothing of that but `disk I/O error`."""
_SOLUTION, _REPEAT = "solution opened ", "begun again "
_FAILURES = (Status.FAILED, Status.TOO_SLOW)
_AFTER_ALL = 1 << 62
"""No attempt has an id like this."""

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Attempt:
    """One grading of a submission."""

    report: Report
    number: int
    """1 for the exercise's first counted attempt."""
    id: int = 0
    """Among all attempts of the file; later ones have larger ones."""
    source: str | None = None
    """The text that was graded; None where an older gpututor did not keep it."""
    run_ns: int | None = None
    """How long its calls took together, modelled or measured as the report's runs say; None where nobody recorded."""
    peak_bytes: int | None = None
    """The most memory that tensors held on one device; None where nobody recorded."""

    @property
    def devices(self) -> tuple[str, ...]:
        """Where it ran: times of other devices are not to be compared with its own."""
        return tuple(run.device for run in self.report.runs)


@dataclass(frozen=True)
class ExerciseProgress:
    """What a list of exercises shows of one."""

    attempts: int = 0
    passed: bool = False
    """Whether any attempt passed: once passed stays passed."""
    hints_used: int = 0


@dataclass(frozen=True)
class FailedCheck:
    """A check that failed."""

    check: str
    """Its name, such as `transfers`."""
    sentence: str


@dataclass(frozen=True)
class AttemptSummary:
    """One counted attempt, without its whole report."""

    id: int
    """Grows with time."""
    exercise: str
    passed: bool
    failed: tuple[FailedCheck, ...]
    measured: tuple[str, ...]
    """The figures of its checks, such as those of a speed check."""


class ProgressStore:
    """The learner's progress in the file at `path`. May be used from several threads and several processes at once.

    Every method raises `ProgressError`, in words, when the file cannot be read or written.
    """

    def __init__(self, path: Path, *, patience: database.Patience = database.patiently) -> None:
        self.path = path
        self.patience = patience
        self.notice: str | None = None
        """Set when a new file was begun in place of a damaged or empty one: says so, and where the damaged one is."""
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None
        with self._told():
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
        """Store `report` on the text `source`, and what was recorded, on the disk; return the attempt's id.

        `spooled_as`: its name in the spool, which no other attempt has.
        """
        counted = report.outcome not in NOT_COUNTED
        text = None if source is None else source.encode("utf-8", "replace").decode()
        content = json.dumps(report.to_json())
        row = (report.exercise, str(report.outcome), counted, content, text, run_ns, peak_bytes, spooled_as)
        return int(self._do(lambda connection: connection.execute(_RECORD, row)).lastrowid or 0)

    def id_of_entry(self, spooled_as: str) -> int | None:
        """Return the id of the attempt that had this name in the spool, if it is stored."""
        id_ = self._one("SELECT id FROM attempts WHERE spooled_as = ?", spooled_as)
        return None if id_ is None else int(id_)

    def attempts(self, key: str, *, newest: int = -1, before: int = _AFTER_ALL) -> list[Attempt]:
        """The counted attempts at the exercise, newest last; reading one takes up to a millisecond.

        `newest`: only so many, of those with an id below `before`.
        """
        return [found for id_ in reversed(self.ids(key, newest=newest, before=before)) if (found := self.attempt(id_))]

    def ids(self, key: str, *, newest: int = -1, before: int = _AFTER_ALL) -> list[int]:
        """The ids of the counted attempts at the exercise, newest first, as `attempts` picks them."""
        statement = "SELECT id FROM attempts WHERE exercise = ? AND counted AND id < ? ORDER BY id DESC LIMIT ?"
        return [id_ for (id_,) in self.rows(statement, key, before, newest)]

    def attempt(self, id: int) -> Attempt | None:
        """The attempt with this id; None where there is none, or only one that a newer gpututor wrote differently."""
        for text, *rest in self.rows(_ATTEMPT, id):
            with contextlib.suppress(ValueError):
                number, source, run_ns, peak_bytes = rest
                return Attempt(read_record(text), number, id, source, run_ns, peak_bytes)
        return None

    def latest(self, key: str) -> Attempt | None:
        """The newest counted attempt that can be read, None when there is none."""
        return next((found for id_ in self.ids(key) if (found := self.attempt(id_))), None)

    def best(self, key: str) -> Attempt | None:
        """The attempt that passed in the shortest time, None when none did.

        It is the time of its calls, on the device where one last passed; where nobody recorded any, of the grading.
        """
        timed = self.rows(f"{_PASSED} AND run_ns > 0 ORDER BY id DESC", key)
        last = next((found for id_, _ in timed if (found := self.attempt(id_))), None)
        for id_, _ in sorted(timed, key=lambda row: (row[1], row[0])) if last else ():
            if (found := self.attempt(id_)) is not None and found.devices == (last and last.devices):
                return found
        passed = self.rows("SELECT id, report FROM attempts WHERE exercise = ? AND outcome = 'passed'", key)
        by_time = sorted((_elapsed_s(text), id_) for id_, text in passed)
        return next((found for _, id_ in by_time if (found := self.attempt(id_))), None)

    def summary(self) -> dict[str, ExerciseProgress]:
        """Progress by exercise key, of those exercises of which anything is known."""
        rows = self._do(lambda connection: connection.execute(_SUMMARY).fetchall())
        return {key: ExerciseProgress(attempts, bool(passed), used) for key, attempts, passed, used in rows}

    def current_exercise(self) -> str | None:
        """The key of the exercise where the learner left off in the app."""
        key = self._one("SELECT value FROM choices WHERE name = 'current_exercise'")
        return None if key is None else str(key)

    def set_current_exercise(self, key: str) -> None:
        self._choose("current_exercise", key)

    def exercise_opened_last(self) -> str | None:
        """The key of the exercise that was opened last, in the app or by `gpututor watch`."""
        names = "('current_exercise', 'watched_exercise')"  # what is chosen anew gets the highest rowid
        key = self._one(f"SELECT value FROM choices WHERE name IN {names} ORDER BY rowid DESC LIMIT 1")
        return None if key is None else str(key)

    def set_watched_exercise(self, key: str) -> None:
        """`gpututor watch` opens one: where the app opens stays as it is."""
        self._choose("watched_exercise", key)

    def place(self) -> str | None:
        """Where in the current exercise the learner left off, as `keep_place` was told."""
        kept = self._one("SELECT value FROM choices WHERE name = 'place'")
        return None if kept is None else str(kept)

    def keep_place(self, place: str) -> None:
        self._choose("place", place)

    def hints_used(self, key: str) -> int:
        return int(self._one("SELECT used FROM hints WHERE exercise = ?", key) or 0)

    def open_hints(self, key: str, number: int) -> None:
        """So many hints of the exercise are open by now, or more."""
        statement = (
            "INSERT INTO hints (exercise, used) VALUES (?, ?) "
            "ON CONFLICT (exercise) DO UPDATE SET used = MAX(used, excluded.used)"
        )
        self.rows(statement, key, number)

    def attempt_summaries(self) -> list[AttemptSummary]:
        """Return every counted attempt at any exercise, oldest first; 50 µs each."""
        rows = self.rows("SELECT id, exercise, outcome, report FROM attempts WHERE counted ORDER BY id")
        return [_summarize(*row) for row in rows]

    def all_ids(self, key: str) -> list[int]:
        """Return the ids of all attempts at the exercise, newest first, also of those that do not count."""
        return [id_ for (id_,) in self.rows("SELECT id FROM attempts WHERE exercise = ? ORDER BY id DESC", key)]

    def mark_solution_opened(self, key: str) -> None:
        """Record that the solution was opened before a pass."""
        self._mark(_SOLUTION + key)

    def solutions_opened(self) -> frozenset[str]:
        """Return the keys of the exercises whose solution was opened before a pass."""
        return frozenset(self._marked(_SOLUTION))

    def mark_begun_again(self, key: str) -> None:
        """Record that the exercise starts anew: earlier attempts do not count against it any more."""
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
        """What one statement answers; it is its own transaction."""
        return self._do(lambda connection: connection.execute(statement, values).fetchall())

    def _mark(self, name: str) -> None:
        statement = "INSERT OR REPLACE INTO choices (name, value) SELECT ?, COALESCE(MAX(id), 0) FROM attempts"
        self.rows(statement, name)

    def _marked(self, prefix: str) -> dict[str, int]:
        rows = self.rows("SELECT name, value FROM choices WHERE substr(name, 1, ?) = ?", len(prefix), prefix)
        return {name.removeprefix(prefix): int(value) for name, value in rows if str(value).isdigit()}

    def _choose(self, name: str, value: str) -> None:
        self.rows("INSERT OR REPLACE INTO choices (name, value) VALUES (?, ?)", name, value)

    def _one(self, statement: str, *values: str) -> Any:
        """The first value of the first row, None when there is no row."""
        rows = self.rows(statement, *values)
        return rows[0][0] if rows else None

    def _do(self, work: Callable[[sqlite3.Connection], Answer]) -> Answer:
        """What `work` answers. It is one statement, and so its own transaction.

        When the file turns out to be damaged it is set aside, and `work` is done on a new one.
        """
        with self._lock, self._told():
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
        """Connect, alone among all processes: so that one of them sets a damaged file aside, or migrates it."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with database.alone(self.path, self.patience()):
            if database.is_emptied(self.path):
                self.notice = f"Your progress file {self.path} was empty, so a new one was begun."
            try:
                return database.connect(self.path, self.patience(), check_all=suspect)
            except sqlite3.DatabaseError as error:
                if not database.is_damage(error):
                    raise
                aside = database.set_aside(self.path)
                self.notice = (
                    f"Your progress file was damaged ({error}) and is now {aside}; a new one was begun. "
                    "Your solutions are not touched."
                )
                return database.connect(self.path, self.patience())

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            reason, advice = str(error), "Close other gpututors and look at the rights and the free space there"
            if _is_disk_full(self.path.parent):
                reason, advice = "the disk is full", f"Free space in {self.path.parent}"
            title = f"Progress in {self.path} cannot be read or written: {reason}."
            raise ProgressError(title, f"{advice}; GPUTUTOR_HOME moves it.") from error
        except OSError as error:
            advice = f"Give yourself the right to write in {self.path.parent}; GPUTUTOR_HOME moves it elsewhere."
            raise ProgressError(f"Progress in {self.path} cannot be kept: {error.strerror}.", advice) from error


def _summarize(id: int, exercise: str, outcome: str, report: str) -> AttemptSummary:
    """Read no more than needed: a report of a newer gpututor counts as an attempt all the same."""
    failed: list[FailedCheck] = []
    measured: list[str] = []
    for verdict in _verdicts(report):
        if verdict.get("status") in _FAILURES:
            failed.append(FailedCheck(str(verdict.get("check")), str(verdict.get("sentence"))))
        if text := verdict.get("measured"):
            measured.append(str(text))
    return AttemptSummary(id, exercise, outcome == Outcome.PASSED, tuple(failed), tuple(measured))


def _verdicts(report: str) -> list[dict[str, Any]]:
    try:
        verdicts = json.loads(report)["verdicts"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return []
    return [verdict for verdict in verdicts if isinstance(verdict, dict)] if isinstance(verdicts, list) else []


def _is_disk_full(folder: Path) -> bool:
    with contextlib.suppress(OSError):
        return shutil.disk_usage(folder).free < _LEAST_FREE_BYTES
    return False


def _elapsed_s(report: str) -> float:
    """How long a grading took, without reading the whole report, which takes twenty times as long."""
    try:
        return float(json.loads(report)["elapsed_s"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return math.inf
