"""The progress file as an SQLite database: migrations, locking, detecting damage and setting damaged files aside."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from itertools import chain, count
from pathlib import Path

from gpututor.errors import ProgressError

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
    (
        "ALTER TABLE attempts ADD COLUMN source TEXT",
        "ALTER TABLE attempts ADD COLUMN run_ns INTEGER",
        "ALTER TABLE attempts ADD COLUMN peak_bytes INTEGER",
    ),
    (
        "ALTER TABLE attempts ADD COLUMN spooled_as TEXT",
        "CREATE UNIQUE INDEX attempts_by_spool_entry ON attempts (spooled_as)",
    ),
]
"""Statements that bring a file from version n (`PRAGMA user_version`) to n + 1. Only add to them."""

BUSY_TIMEOUT_S = 10.0
"""Seconds to wait for another process that is writing."""
BRIEFLY_S = 0.2
"""Seconds to wait while the learner waits for work that can be done later."""
_POLL_S = 0.01

Patience = Callable[[], float]
"""Returns the seconds, from now on, to wait for another process that is writing."""


def patiently() -> float:
    return BUSY_TIMEOUT_S


def briefly() -> float:
    return BRIEFLY_S


_TABLES = {
    "attempts": "exercise, outcome, counted, report, source, run_ns, peak_bytes, spooled_as",
    "hints": "exercise, used",
    "choices": "name, value",
}
"""Columns, by table, of the newest version."""


def connect(path: Path, wait_s: float, *, check_all: bool = False) -> sqlite3.Connection:
    """Connect and migrate the file; wait up to `wait_s` for a writer. Raises `sqlite3.DatabaseError` for damage."""
    connection = sqlite3.connect(path, timeout=wait_s, isolation_level=None, check_same_thread=False)
    connection.text_factory = lambda content: content.decode("utf-8", "replace")  # a flipped bit spoils only a letter
    try:
        version = _version(connection)
        if version > len(MIGRATIONS):
            raise ProgressError(
                f"{path} was written by a newer gpututor (version {version}; this one knows {len(MIGRATIONS)}).",
                "Install it, or use another progress file with GPUTUTOR_HOME=FOLDER. Nothing was changed.",
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
    """Migrate the file from version `number` to the next version, in one transaction."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        for statement in MIGRATIONS[number]:
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {number + 1}")
        connection.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(sqlite3.Error):  # SQLite may have rolled back already
            connection.execute("ROLLBACK")
        raise


def _version(connection: sqlite3.Connection) -> int:
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if version < 0:
        raise sqlite3.DatabaseError(f"unknown version {version}")
    return version


def _check(connection: sqlite3.Connection) -> None:
    """Raise `sqlite3.DatabaseError` if a page is broken or one of our tables is missing."""
    if (result := connection.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
        raise sqlite3.DatabaseError(result)
    for table, columns in _TABLES.items():
        connection.execute(f"SELECT {columns} FROM {table} LIMIT 0")


def is_damage(error: sqlite3.DatabaseError) -> bool:
    """Return True if the file is not a database, is broken or lacks our tables; False if locked, full or read-only."""
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:  # raised by `_check` and `_version`
        return type(error) is sqlite3.DatabaseError
    return code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)


def is_emptied(path: Path) -> bool:
    """Return True for an empty file without a write-ahead log."""
    with contextlib.suppress(FileNotFoundError):
        return path.stat().st_size == 0 and not path.with_name(f"{path.name}-wal").exists()
    return False


def set_aside(path: Path) -> Path:
    """Move the file, and SQLite's files next to it, to a free dated name; return that."""
    stamp = datetime.now().strftime("%Y-%m-%dT%H-%M-%S")
    names = (f"{path.stem}.damaged-{stamp}{suffix}{path.suffix}" for suffix in chain([""], map(".{}".format, count(1))))
    aside = next(path.with_name(name) for name in names if not path.with_name(name).exists())
    for ending in ("-wal", "-shm", ""):
        with contextlib.suppress(FileNotFoundError):  # a closed database has no such files
            path.with_name(path.name + ending).rename(aside.with_name(aside.name + ending))
    return aside


def spool_folder(path: Path) -> Path:
    """Return the folder of the entries that wait for the file."""
    return path.with_name("spool")


def spooled(path: Path) -> list[str]:
    """Return the names of the entries in the spool, the oldest first."""
    try:
        return sorted(name for name in os.listdir(spool_folder(path)) if not name.startswith("."))
    except OSError:  # there is no spool yet; saving to a folder without permission fails, and is reported
        return []


@contextlib.contextmanager
def exclusive_lock(path: Path, wait_s: float) -> Iterator[None]:
    """Keep other processes from opening the file. Raises `sqlite3.OperationalError` after `wait_s` seconds."""
    import fcntl

    end = time.monotonic() + wait_s
    with path.with_name(f"{path.name}.lock").open("ab") as stream:
        while True:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            if time.monotonic() >= end:
                raise sqlite3.OperationalError("another program is opening it")
            time.sleep(_POLL_S)
        yield
