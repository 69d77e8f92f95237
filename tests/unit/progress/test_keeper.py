"""Attempts are kept in their order, in a thread, whoever holds the file meanwhile."""

from __future__ import annotations

import contextlib
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpututor.errors import TutorError
from gpututor.progress import database
from gpututor.progress.keeper import Graded, Keeper
from gpututor.progress.recordings import Recordings
from gpututor.progress.store import ProgressStore
from tests.app.recordings import make_recording
from tests.unit.progress.reports import report

ROOT = Path(__file__).resolve().parents[3]
KEY = "tensors/born"
LEAVER = """
import sqlite3, sys
from pathlib import Path
from gpututor.progress.keeper import Graded, Keeper
from gpututor.progress.recordings import Recordings
from gpututor.progress.store import ProgressStore
from tests.unit.progress.reports import report
store = ProgressStore(Path(sys.argv[1]))
holder = sqlite3.connect(store.path, isolation_level=None, check_same_thread=False)
holder.execute("BEGIN IMMEDIATE")
Keeper(store.path, Recordings.beside(store)).keep(Graded(report(), "x = 1", None), lambda kept: print(kept))
store.close()
print("leaving", flush=True)
holder.execute("ROLLBACK")
"""


@contextlib.contextmanager
def held(store: ProgressStore) -> Iterator[None]:
    """Another process is writing."""
    connection = sqlite3.connect(store.path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    yield
    connection.execute("ROLLBACK")
    connection.close()


@pytest.fixture
def store(tmp_path: Path) -> ProgressStore:
    return ProgressStore(tmp_path / "data" / "progress.sqlite3")


def test_while_the_file_is_held_attempts_wait_in_their_order_and_reading_does_not(store: ProgressStore) -> None:
    recordings = Recordings.beside(store)
    keeper = Keeper(store.path, recordings)
    kept: list[int | TutorError] = []
    with held(store):
        for number in range(3):
            part = recordings.begin()
            assert part is not None
            make_recording(part)
            keeper.keep(Graded(report(), f"x = {number}", part), kept.append)
        assert store.summary() == {}
        assert kept == []
    keeper.wait(20)
    assert kept == store.ids(KEY)[::-1] == recordings.ids()
    assert [one.source for one in store.attempts(KEY)] == ["x = 0", "x = 1", "x = 2"]


def test_an_attempt_that_cannot_be_kept_is_told_and_the_next_one_is_tried(
    store: ProgressStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "BUSY_TIMEOUT_S", 0.01)
    recordings = Recordings.beside(store)
    keeper = Keeper(store.path, recordings)
    kept: list[int | TutorError] = []
    part = recordings.begin()
    with held(store):
        keeper.keep(Graded(report(), "x = 0", part), kept.append)
        keeper.wait(20)
    keeper.keep(Graded(report(), "x = 1", None), kept.append)
    keeper.wait(20)
    assert [type(one).__name__ for one in kept] == ["ProgressError", "int"]
    assert [one.source for one in store.attempts(KEY)] == ["x = 1"]
    assert part is not None
    assert not part.exists()


def test_a_process_ends_only_when_its_attempts_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "data" / "progress.sqlite3"
    done = subprocess.run(
        [sys.executable, "-c", LEAVER, str(path)], capture_output=True, text=True, cwd=ROOT, timeout=60
    )
    assert done.stdout.split() == ["leaving", "1"], done.stderr
    assert [one.source for one in ProgressStore(path).attempts(KEY)] == ["x = 1"]
