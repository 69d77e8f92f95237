"""The progress file as a database: opened in its newest version, damage told apart, a damaged file set aside."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Callable, Iterator
from datetime import datetime
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
"""The statements that bring a file from version n (`PRAGMA user_version`) to n + 1. Only ever added to."""

BUSY_TIMEOUT_S = 10.0
"""How long to wait for another process that is writing."""
BRIEFLY_S = 0.2
"""How long, where somebody waits for us meanwhile and it can be done later."""
_LOOK_EVERY_S = 0.01

Patience = Callable[[], float]
"""How many seconds, from now on, another process that is writing is waited for."""


def patiently() -> float:
    return BUSY_TIMEOUT_S


def briefly() -> float:
    return BRIEFLY_S


def until(moment: float) -> Patience:
    """Until a moment of the monotonic clock."""
    return lambda: max(0.0, moment - time.monotonic())


_TABLES = {
    "exercise, outcome, counted, report, source, run_ns, peak_bytes, spooled_as": "attempts",
    "exercise, used": "hints",
    "name, value": "choices",
}
"""What has to be there in the newest version: columns, table."""


def connect(path: Path, wait_s: float, *, check_all: bool = False) -> sqlite3.Connection:
    """A connection to the file in its newest version. Raises `sqlite3.DatabaseError` when it is damaged.

    `wait_s`: how long it waits for another process that is writing.
    """
    connection = sqlite3.connect(path, timeout=wait_s, isolation_level=None, check_same_thread=False)
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
    for columns, table in _TABLES.items():
        connection.execute(f"SELECT {columns} FROM {table} LIMIT 0")


def is_damage(error: sqlite3.DatabaseError) -> bool:
    """Whether the file is no database, or a broken one, or lacks our tables; not when it is locked, full, read-only."""
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:  # raised by `_check` and `_version`
        return type(error) is sqlite3.DatabaseError
    return code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)


def is_emptied(path: Path) -> bool:
    """Return True for a file without a byte, next to which SQLite keeps none either."""
    with contextlib.suppress(FileNotFoundError):
        return path.stat().st_size == 0 and not path.with_name(f"{path.name}-wal").exists()
    return False


def set_aside(path: Path) -> Path:
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
def alone(path: Path, wait_s: float) -> Iterator[None]:
    """Hold off other processes that want to open the same progress file.

    Raises `sqlite3.OperationalError` when one of them is still at it after `wait_s`.
    """
    import fcntl

    end = time.monotonic() + wait_s
    with path.with_name(f"{path.name}.lock").open("ab") as stream:
        while True:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            if time.monotonic() >= end:
                raise sqlite3.OperationalError("another program is opening it")
            time.sleep(_LOOK_EVERY_S)
        yield
