"""What a learner has done so far, in SQLite: every attempt with its report, hints used, the current exercise.

The file is in WAL mode with `synchronous=FULL`: an attempt that was acknowledged survives kill -9 and loss of power;
it costs a few milliseconds of a grading that takes hundreds. A damaged file is set aside and a new one is begun.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from gpututor.errors import ProgressError
from gpututor.grading.report import Outcome, Report
from gpututor.progress.records import read_record

NOT_COUNTED = (Outcome.NOT_GRADABLE_HERE, Outcome.INTERNAL_ERROR, Outcome.INCONCLUSIVE)
"""Outcomes that are kept, but are no attempt of the learner's."""

MIGRATIONS: list[tuple[str, ...]] = [
    (
        """CREATE TABLE attempts (
            id INTEGER PRIMARY KEY,
            exercise TEXT NOT NULL,
            outcome TEXT NOT NULL,
            counted INTEGER NOT NULL,
            report TEXT NOT NULL
        )""",
        "CREATE INDEX attempts_by_exercise ON attempts (exercise, id)",
        "CREATE TABLE hints (exercise TEXT PRIMARY KEY, used INTEGER NOT NULL)",
        "CREATE TABLE choices (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    ),
]
"""The statements that bring a file from version n (`PRAGMA user_version`) to n + 1. Only ever added to."""

BUSY_TIMEOUT_S = 10.0
"""How long to wait for another process that is writing."""

_SUMMARY = """
SELECT exercise, SUM(attempts), MAX(passed), SUM(used) FROM (
    SELECT exercise, SUM(counted) AS attempts, MAX(outcome = 'passed') AS passed, 0 AS used
    FROM attempts GROUP BY exercise
    UNION ALL SELECT exercise, 0, 0, used FROM hints
) GROUP BY exercise
"""

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Attempt:
    """One grading of a submission."""

    report: Report
    number: int
    """1 for the exercise's first counted attempt."""


@dataclass(frozen=True)
class ExerciseProgress:
    """What a list of exercises shows of one."""

    attempts: int = 0
    passed: bool = False
    """Whether any attempt passed: once passed stays passed."""
    hints_used: int = 0


class ProgressStore:
    """The learner's progress in the file at `path`. May be used from several threads and several processes at once.

    Every method raises `ProgressError`, in words, when the file cannot be read or written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.notice: str | None = None
        """Set when a damaged file was set aside: says so, and where it is."""
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None
        with self._told():
            self._connection = self._open()

    def record(self, report: Report) -> None:
        """Keep `report`. When this returns, it is on the disk."""
        counted = report.outcome not in NOT_COUNTED
        row = (report.exercise, str(report.outcome), counted, json.dumps(report.to_json()))
        statement = "INSERT INTO attempts (exercise, outcome, counted, report) VALUES (?, ?, ?, ?)"
        self._do(lambda connection: connection.execute(statement, row))

    def attempts(self, key: str) -> list[Attempt]:
        """The counted attempts at the exercise, newest last."""
        found = self._reports("SELECT report FROM attempts WHERE exercise = ? AND counted ORDER BY id", key)
        return [Attempt(report, number) for number, report in found]

    def best(self, key: str) -> Attempt | None:
        """The attempt that passed in the shortest time, None when none did."""
        passed = [attempt for attempt in self.attempts(key) if attempt.report.outcome is Outcome.PASSED]
        return min(passed, key=lambda attempt: attempt.report.elapsed_s, default=None)

    def summary(self) -> dict[str, ExerciseProgress]:
        """Progress by exercise key, of those exercises of which anything is known."""
        rows = self._do(lambda connection: connection.execute(_SUMMARY).fetchall())
        return {key: ExerciseProgress(attempts, bool(passed), used) for key, attempts, passed, used in rows}

    def current_exercise(self) -> str | None:
        """The key of the exercise where the learner left off."""
        key = self._one("SELECT value FROM choices WHERE name = 'current_exercise'")
        return None if key is None else str(key)

    def set_current_exercise(self, key: str) -> None:
        statement = "INSERT OR REPLACE INTO choices (name, value) VALUES ('current_exercise', ?)"
        self._do(lambda connection: connection.execute(statement, (key,)))

    def hints_used(self, key: str) -> int:
        return int(self._one("SELECT used FROM hints WHERE exercise = ?", key) or 0)

    def use_hint(self, key: str) -> int:
        """Count one more hint of the exercise; returns how many were used by now."""
        statement = (
            "INSERT INTO hints (exercise, used) VALUES (?, 1) "
            "ON CONFLICT (exercise) DO UPDATE SET used = used + 1 RETURNING used"
        )
        return int(self._one(statement, key))

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _reports(self, statement: str, key: str) -> Iterator[tuple[int, Report]]:
        """(position from 1, report) of the rows; one that a newer gpututor wrote in another form is left out."""
        rows = self._do(lambda connection: connection.execute(statement, (key,)).fetchall())
        for position, (text,) in enumerate(rows, 1):
            with contextlib.suppress(ValueError):
                yield position, read_record(text)

    def _one(self, statement: str, *values: str) -> Any:
        """The first value of the first row, None when there is no row."""
        rows = self._do(lambda connection: connection.execute(statement, values).fetchall())
        return rows[0][0] if rows else None

    def _do(self, work: Callable[[sqlite3.Connection], Answer]) -> Answer:
        """What `work` answers. It is one statement, and so its own transaction.

        When the file turns out to be damaged it is set aside, and `work` is done on a new one.
        """
        with self._lock, self._told():
            if self._connection is None:
                self._connection = self._open()
            try:
                return work(self._connection)
            except sqlite3.DatabaseError as error:
                if not _is_damage(error):
                    raise
                self.close()
                self._connection = self._open(suspect=True)
                return work(self._connection)

    def _open(self, *, suspect: bool = False) -> sqlite3.Connection:
        """Connect, alone among all processes: so that one of them sets a damaged file aside, or migrates it."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with _alone(self.path):
            try:
                return _connect(self.path, check_all=suspect)
            except sqlite3.DatabaseError as error:
                if not _is_damage(error):
                    raise
                aside = _set_aside(self.path)
                self.notice = (
                    f"Your progress file was damaged ({error}) and is now {aside}; a new one was begun. "
                    "Your solutions are not touched."
                )
                return _connect(self.path)

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            advice = "Close other gpututors and look at the rights and the free space there; GPUTUTOR_HOME moves it."
            raise ProgressError(f"Progress in {self.path} cannot be read or written: {error}.", advice) from error
        except OSError as error:
            advice = f"Give yourself the right to write in {self.path.parent}; GPUTUTOR_HOME moves it elsewhere."
            raise ProgressError(f"Progress in {self.path} cannot be kept: {error.strerror}.", advice) from error


def _connect(path: Path, *, check_all: bool = False) -> sqlite3.Connection:
    """A connection to the file in its newest version. Raises `sqlite3.DatabaseError` when it is damaged."""
    connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
    connection.text_factory = lambda content: content.decode("utf-8", "replace")  # a flipped bit costs a letter
    try:
        version = _version(connection)
        if version > len(MIGRATIONS):
            raise ProgressError(
                f"{path} was written by a newer gpututor (version {version}; this one knows {len(MIGRATIONS)}).",
                "Install the newer gpututor, or keep another progress with GPUTUTOR_HOME=FOLDER. Nothing was changed.",
            )
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        for number in range(version, len(MIGRATIONS)):
            _migrate(connection, number)
        if check_all:
            _check(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _migrate(connection: sqlite3.Connection, number: int) -> None:
    """Bring the file from version `number` to the next one: wholly or not at all."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        for statement in MIGRATIONS[number]:
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {number + 1}")
        connection.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise


def _version(connection: sqlite3.Connection) -> int:
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if version < 0:
        raise sqlite3.DatabaseError(f"version {version} was never written")
    return version


def _check(connection: sqlite3.Connection) -> None:
    """Raise `sqlite3.DatabaseError` when a page is broken or one of our tables is not there."""
    if (found := connection.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
        raise sqlite3.DatabaseError(found)
    for statement in ("SELECT exercise, outcome, counted, report FROM attempts", "SELECT exercise, used FROM hints"):
        connection.execute(f"{statement} LIMIT 0")
    connection.execute("SELECT name, value FROM choices LIMIT 0")


def _is_damage(error: sqlite3.DatabaseError) -> bool:
    """Whether the file is no database, or a broken one, or lacks our tables; not when it is locked, full, read-only."""
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:  # raised by `_check` and `_version`
        return type(error) is sqlite3.DatabaseError
    return code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)


def _set_aside(path: Path) -> Path:
    """Move the file, and what SQLite keeps beside it, to a dated name that is free; returns it."""
    stamp = datetime.now().strftime("%Y-%m-%dT%H-%M-%S")
    number = 0
    while True:
        suffix = f".{number}" if number else ""
        aside = path.with_name(f"{path.stem}.damaged-{stamp}{suffix}{path.suffix}")
        if not aside.exists():
            break
        number += 1
    for ending in ("-wal", "-shm", ""):
        with contextlib.suppress(FileNotFoundError):
            path.with_name(path.name + ending).rename(aside.with_name(aside.name + ending))
    return aside


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Hold off other processes that want to open the same progress file."""
    import fcntl

    with path.with_name(f"{path.name}.lock").open("ab") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield
