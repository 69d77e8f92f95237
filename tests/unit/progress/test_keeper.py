"""Attempts are kept in their order, in a thread, whoever holds the file meanwhile."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpututor.errors import TutorError
from gpututor.progress import database
from gpututor.progress.history import begun_again, solutions_opened
from gpututor.progress.keeper import Graded, Keeper
from gpututor.progress.notes import Kind, Note
from gpututor.progress.recordings import Recordings
from gpututor.progress.store import ProgressStore
from gpututor.progress.unkept import put_note_aside, take_in
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
NOTER = """
import sys
from pathlib import Path
from gpututor.progress import keeper
from gpututor.progress.notes import Kind, Note
from gpututor.progress.recordings import Recordings
keeper._NOTE_S = 0.01
path = Path(sys.argv[1])
keeper.Keeper(path, Recordings(path.with_name("recordings"))).note(Note(Kind.PLACE, "here"), print)
"""
SHORT = """
import gpututor.progress.database
gpututor.progress.database.BUSY_TIMEOUT_S = 1.0
import sqlite3"""


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
    keeper.wait(60)
    assert kept == store.ids(KEY)[::-1] == recordings.ids()
    assert [one.source for one in store.attempts(KEY)] == ["x = 0", "x = 1", "x = 2"]


def test_an_attempt_that_cannot_be_kept_is_told_and_put_into_the_file_before_the_next_one(
    store: ProgressStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "BUSY_TIMEOUT_S", 0.01)
    recordings = Recordings.beside(store)
    keeper = Keeper(store.path, recordings)
    kept: list[int | TutorError] = []
    part = recordings.begin()
    with held(store):
        keeper.keep(Graded(report(), "x = 0", part), kept.append)
        keeper.wait(60)
    keeper.keep(Graded(report(), "x = 1", None), kept.append)
    keeper.wait(60)
    assert [type(one).__name__ for one in kept] == ["ProgressError", "int"]
    assert [one.source for one in store.attempts(KEY)] == ["x = 0", "x = 1"], "in their order"
    assert part is not None
    assert not part.exists()
    assert list(store.path.with_name("unkept").iterdir()) == []


def test_notes_are_kept_in_their_order_among_the_attempts_and_only_the_newest_of_a_name(store: ProgressStore) -> None:
    keeper = Keeper(store.path, Recordings.beside(store))
    store.record(report())
    with held(store):
        keeper.keep(Graded(report(), "x = 0", None), lambda _: None)
        for number in range(1, 4):
            keeper.note(Note(Kind.HINTS, KEY, number), fail)
            keeper.note(Note(Kind.PLACE, f"line {number}"), fail)
            keeper.note(Note(Kind.CURRENT_EXERCISE, f"a/{number}"), fail)
        keeper.note(Note(Kind.BEGUN_AGAIN, KEY), fail)
        keeper.note(Note(Kind.SOLUTION_OPENED, KEY), fail)
        assert len(keeper._waiting) == 6
    keeper.wait(60)
    assert (store.hints_used(KEY), store.place(), store.current_exercise()) == (3, "line 3", "a/3")
    assert (begun_again(store), solutions_opened(store)) == ({KEY: 2}, frozenset({KEY}))


def fail(error: TutorError) -> None:
    raise AssertionError(error)


def test_a_note_that_cannot_be_kept_is_put_beside_and_taken_in_before_what_comes_later(
    store: ProgressStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpututor.progress.keeper._NOTE_S", 0.01)
    keeper = Keeper(store.path, Recordings.beside(store))
    with held(store):
        for line in range(3):
            keeper.note(Note(Kind.PLACE, f"line {line}"), fail)
            keeper.wait(60)
        keeper.note(Note(Kind.HINTS, KEY, 1), fail)
        keeper.wait(60)
    left = store.path.with_name("unkept")
    assert len(list(left.iterdir())) == 2, "of each name the newest"
    as_left = store.path.with_name("as_left")
    shutil.copytree(left, as_left)
    keeper.note(Note(Kind.PLACE, "the end"), fail)
    keeper.wait(60)
    assert (store.hints_used(KEY), store.place(), list(left.iterdir())) == (1, "the end", [])
    shutil.copytree(as_left, left, dirs_exist_ok=True)  # as an app that ended would leave it
    assert take_in(store.path) == 2
    assert (store.hints_used(KEY), store.place(), list(left.iterdir())) == (1, "line 2", [])


def test_a_note_that_can_be_kept_nowhere_is_told(store: ProgressStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpututor.progress.keeper._NOTE_S", 0.01)
    store.path.with_name("unkept").write_text("in the way")
    faults: list[BaseException] = []
    told: list[TutorError] = []
    keeper = Keeper(store.path, Recordings.beside(store), log=faults.append)
    with held(store):
        keeper.note(Note(Kind.HINTS, KEY, 1), told.append)
        keeper.wait(60)
    assert "is locked" in told[0].title
    assert isinstance(faults[0], OSError)


def test_what_a_killed_process_began_to_put_beside_is_taken_in_or_swept_and_nothing_of_a_running_one(
    store: ProgressStore,
) -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    left = store.path.with_name("unkept")
    for pid, number, content in (
        (process.pid, 0, Note(Kind.HINTS, KEY, 1)),
        (process.pid, 1, None),
        (os.getpid(), 2, None),
        (os.getpid(), 3, Note(Kind.HINTS, KEY, 2)),
    ):
        folder = left / f"{number}-{pid}-{number}-attempt.new"
        folder.mkdir(parents=True)
        (folder / ".note.json.x.part").write_text("{")
        if content is not None:
            (folder / "note.json").write_text(json.dumps(content.to_json()))
    assert take_in(store.path) == 1
    assert store.hints_used(KEY) == 1
    assert sorted(folder.name.split("-")[0] for folder in left.iterdir()) == ["2", "3"]


@pytest.mark.parametrize("content", ["{", '{"kind": "of a newer one", "value": "", "number": 0}', "[]"])
def test_a_note_that_nobody_understands_is_left_and_the_others_are_taken_in(store: ProgressStore, content: str) -> None:
    folder = store.path.with_name("unkept") / "0-1-0-note"
    folder.mkdir(parents=True)
    (folder / "note.json").write_text(content)
    put_note_aside(store.path, Note(Kind.HINTS, KEY, 2))
    assert take_in(store.path) == 1
    assert store.hints_used(KEY) == 2
    assert (folder / "note.json").read_text() == content


def test_what_cannot_be_kept_is_taken_in_once_by_the_next_start_with_its_recording(
    store: ProgressStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "BUSY_TIMEOUT_S", 0.01)
    recordings = Recordings.beside(store)
    keeper = Keeper(store.path, recordings)
    for number in range(2):
        part = recordings.begin()
        assert part is not None
        make_recording(part)
        with held(store):
            keeper.keep(Graded(report(seed=number), f"x = {number}", part), lambda _: None)
            keeper.wait(60)
            assert take_in(store.path) == 0
    left = store.path.with_name("unkept")
    as_left = store.path.with_name("as_left")
    shutil.copytree(left, as_left)
    assert take_in(store.path) == 2
    assert [one.source for one in store.attempts(KEY)] == ["x = 0", "x = 1"]
    assert recordings.ids() == store.ids(KEY)[::-1]
    assert list(left.iterdir()) == []
    shutil.copytree(as_left, left, dirs_exist_ok=True)  # as if the process had ended before they were gone
    assert take_in(store.path) == 0
    assert len(store.ids(KEY)) == 2
    assert list(left.iterdir()) == []


def test_a_fault_of_who_is_told_does_not_keep_the_next_attempts_from_being_kept(
    store: ProgressStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("Event loop is closed")

    faults: list[BaseException] = []
    keeper = Keeper(store.path, Recordings.beside(store), log=faults.append)
    keeper.keep(Graded(report(), "x = 0", None), broken)
    keeper.wait(60)
    monkeypatch.setattr("gpututor.progress.keeper.prune_recordings", broken)
    for number in (1, 2):
        keeper.keep(Graded(report(), f"x = {number}", None), lambda _: None)
    keeper.wait(60)
    assert [one.source for one in store.attempts(KEY)] == ["x = 0", "x = 1", "x = 2"]
    assert [str(fault) for fault in faults] == ["Event loop is closed"] * 3


def test_who_leaves_while_the_file_is_held_waits_once_and_is_told(tmp_path: Path) -> None:
    path = tmp_path / "data" / "progress.sqlite3"
    script = LEAVER.replace('holder.execute("ROLLBACK")', "").replace("import sqlite3", SHORT, 1)
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)], capture_output=True, text=True, cwd=ROOT, timeout=60
    )
    assert "gpututor: 1 attempt is being kept: another program holds " in done.stderr
    assert "gpututor: 1 attempt is kept beside your progress, and put into it at the next start." in done.stderr
    assert take_in(path) == 1
    assert [one.source for one in ProgressStore(path).attempts(KEY)] == ["x = 1"]


def test_who_leaves_while_another_opens_the_file_does_not_wait_for_that(tmp_path: Path) -> None:
    path = tmp_path / "data" / "progress.sqlite3"
    path.parent.mkdir()
    with database.alone(path, 0.0):
        done = subprocess.run(
            [sys.executable, "-c", NOTER, str(path)], capture_output=True, text=True, cwd=ROOT, timeout=60
        )
    assert (done.stdout, done.stderr) == ("", "")
    assert take_in(path) == 1
    assert ProgressStore(path).place() == "here"


def test_a_process_ends_only_when_its_attempts_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "data" / "progress.sqlite3"
    done = subprocess.run(
        [sys.executable, "-c", LEAVER, str(path)], capture_output=True, text=True, cwd=ROOT, timeout=60
    )
    assert done.stdout.split() == ["leaving", "1"], done.stderr
    assert [one.source for one in ProgressStore(path).attempts(KEY)] == ["x = 1"]
