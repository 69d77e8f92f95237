"""Attempts reach the database in order, despite locks, damage, full disks and kills."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpututor.errors import TutorError
from gpututor.progress import database
from gpututor.progress.attempt_writer import (
    AttemptWriter,
    EventKind,
    FinishedRun,
    NotYetStored,
    ProgressEvent,
    drain_spool,
    new_entry,
    spool_attempt,
    spool_event,
)
from gpututor.progress.database import spool_folder
from gpututor.progress.recordings import Recordings, StoredAttempt
from gpututor.progress.store import ProgressStore
from tests.support import ROOT
from tests.support.parameters import mostly_long
from tests.support.recordings import make_recording
from tests.support.reports import report

KEY = "tensors/born"
Outcomes = list[StoredAttempt | TutorError]
PYTHON = [sys.executable, "-c"]

HOLDER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.read()
"""
LEAVER = """
import sys
from pathlib import Path
from gpututor.progress.attempt_writer import AttemptWriter, FinishedRun
from tests.support.reports import report
AttemptWriter(Path(sys.argv[1])).save(FinishedRun(report(), "x = 1"), print)
"""
SAVER = """
import sys
from pathlib import Path
from gpututor.progress.attempt_writer import AttemptWriter, FinishedRun
from tests.support.recordings import make_recording
from tests.support.reports import report
writer = AttemptWriter(Path(sys.argv[1]))
start = int(sys.argv[2])
for number in range(start, start + 100_000):
    pending = writer.recordings.create_pending() if number % 2 else None
    if pending is not None:
        make_recording(pending)
    writer.save(FinishedRun(report(seed=number), f"x = {number}", pending), lambda _: None)
    print(number, flush=True)
    if number % 5 == 0:
        writer.wait(1.0)
"""
DRAINER = """
import sys
from pathlib import Path
from gpututor.progress.attempt_writer import drain_spool
while True:
    drain_spool(Path(sys.argv[1]))
    print("drained", flush=True)
"""
FULL_DISK = """
import contextlib, json, resource, sys
from pathlib import Path
from gpututor.progress.attempt_writer import AttemptWriter, FinishedRun
from gpututor.progress.store import ProgressStore
from tests.support.reports import report

path, how, ending = Path(sys.argv[1]) / "progress.sqlite3", sys.argv[2], sys.argv[3]
store, writer, outcomes = ProgressStore(path), AttemptWriter(path), []

def sources():
    return [attempt.source for attempt in store.attempts("tensors/born")]

def save(number):
    writer.save(FinishedRun(report(seed=number), f"x = {number}"), outcomes.append)
    writer.wait()

@contextlib.contextmanager
def full_disk():
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    filler = path.with_name("filler")
    if how == "limit":
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    else:
        with filler.open("wb", buffering=0) as stream, contextlib.suppress(OSError):
            while stream.write(bytes(512)):
                pass
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    filler.unlink(missing_ok=True)

save(0)
with full_disk():
    save(1)
    while_full = sources()
    if ending == "leaves":
        print(json.dumps(while_full), flush=True)
        sys.exit()
save(2)
kinds = [type(each).__name__ for each in outcomes]
print(json.dumps([while_full, sources(), kinds, outcomes[1].title, outcomes[1].advice]))
"""


@contextlib.contextmanager
def held(store: ProgressStore) -> Iterator[None]:
    """Lock the database from another process."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(store.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    yield
    holder.communicate()


@pytest.fixture
def store(tmp_path: Path) -> ProgressStore:
    return ProgressStore(tmp_path / "data" / "progress.sqlite3")


@pytest.fixture
def writer(store: ProgressStore) -> AttemptWriter:
    return AttemptWriter(store.path)


def fail(error: TutorError) -> None:
    raise AssertionError(error)


def ignore(_: object) -> None:
    """Ignore the outcome of an attempt."""


def sources(store: ProgressStore) -> list[str | None]:
    return [attempt.source for attempt in store.attempts(KEY)]


def recorded(writer: AttemptWriter) -> Path:
    pending = writer.recordings.create_pending()
    assert pending is not None
    make_recording(pending)
    return pending


def run_alone(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=60)


def test_an_attempt_waits_in_the_spool_for_a_free_database(store: ProgressStore, writer: AttemptWriter) -> None:
    outcomes: Outcomes = []
    with held(store):
        for number in range(3):
            writer.save(FinishedRun(report(), f"x = {number}", recorded(writer)), outcomes.append)
        assert len(list(spool_folder(store.path).iterdir())) == 3
        assert store.summary() == {}
        assert outcomes == []
    writer.wait(60)
    assert sources(store) == ["x = 0", "x = 1", "x = 2"]
    assert list(spool_folder(store.path).iterdir()) == []
    assert writer.recordings.ids() == store.ids(KEY)[::-1]
    for outcome, attempt in zip(outcomes, store.attempts(KEY), strict=True):
        assert isinstance(outcome, StoredAttempt)
        assert (outcome.attempt, outcome.recording) == (attempt, writer.recordings.read(attempt.id))


def test_a_locked_database_is_reported_once_and_retried(
    store: ProgressStore, writer: AttemptWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "BUSY_TIMEOUT_S", 0.01)
    outcomes: list[tuple[str, object]] = []
    with held(store):
        writer.save(FinishedRun(report(), "x = 0", recorded(writer)), lambda stored: outcomes.append(("0", stored)))
        writer.wait(60)
        writer.record(ProgressEvent(EventKind.PLACE, "here"), fail)
        writer.wait(60)
        [(_, error)] = outcomes
        assert isinstance(error, NotYetStored)
        assert "is locked" in error.title
        assert str(spool_folder(store.path)) in (error.advice or "")
    writer.save(FinishedRun(report(), "x = 1"), lambda stored: outcomes.append(("1", stored)))
    writer.wait(60)
    assert [(which, type(stored)) for which, stored in outcomes[1:]] == [("0", StoredAttempt), ("1", StoredAttempt)]
    assert sources(store) == ["x = 0", "x = 1"]
    assert writer.recordings.ids() == store.ids(KEY)[1:]
    assert store.place() == "here"


def test_events_and_attempts_keep_their_order(store: ProgressStore, writer: AttemptWriter) -> None:
    with held(store):
        writer.save(FinishedRun(report(), "x = 0"), ignore)
        for number in range(1, 4):
            writer.record(ProgressEvent(EventKind.HINTS, KEY, number), fail)
            writer.record(ProgressEvent(EventKind.PLACE, f"line {number}"), fail)
            writer.record(ProgressEvent(EventKind.CURRENT_EXERCISE, f"a/{number}"), fail)
        writer.record(ProgressEvent(EventKind.BEGUN_AGAIN, KEY), fail)
        writer.record(ProgressEvent(EventKind.SOLUTION_OPENED, KEY), fail)
        writer.save(FinishedRun(report(), "x = 1"), ignore)
    writer.wait(60)
    first, _ = store.ids(KEY)[::-1]
    assert (store.hints_used(KEY), store.place(), store.current_exercise()) == (3, "line 3", "a/3")
    assert (store.begun_again(), store.solutions_opened()) == ({KEY: first}, frozenset({KEY}))


def test_a_damaged_database_is_set_aside_without_losing_the_attempt(
    store: ProgressStore, writer: AttemptWriter
) -> None:
    store.record(report())
    store.close()
    store.path.write_bytes(b"no database at all" * 1000)
    writer.save(FinishedRun(report(), "x = 0", recorded(writer)), ignore)
    writer.wait(60)
    assert sources(store) == ["x = 0"]
    assert "damaged" in (writer.take_notice() or "")
    assert writer.take_notice() is None


def test_without_a_spool_the_database_is_written_directly(store: ProgressStore, writer: AttemptWriter) -> None:
    spool_folder(store.path).write_text("in the way")
    writer.save(FinishedRun(report(), "x = 0", recorded(writer)), ignore)
    writer.record(ProgressEvent(EventKind.HINTS, KEY, 1), fail)
    writer.wait(60)
    assert sources(store) == ["x = 0"]
    assert writer.recordings.ids() == store.ids(KEY)
    assert store.hints_used(KEY) == 1


def test_an_unstorable_attempt_is_reported_and_retried(
    store: ProgressStore, writer: AttemptWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "BUSY_TIMEOUT_S", 0.01)
    spool_folder(store.path).write_text("in the way")
    errors: list[TutorError] = []
    outcomes: Outcomes = []
    with held(store):
        writer.record(ProgressEvent(EventKind.HINTS, KEY, 1), errors.append)
        writer.save(FinishedRun(report(), "x = 0", recorded(writer)), outcomes.append)
        writer.wait(60)
    [error], [outcome] = errors, outcomes
    assert isinstance(outcome, TutorError)
    assert not isinstance(outcome, NotYetStored)
    assert isinstance(error, TutorError)
    writer.save(FinishedRun(report(), "x = 1"), outcomes.append)
    writer.wait(60)
    assert sources(store) == ["x = 0", "x = 1"]
    assert writer.recordings.ids() == store.ids(KEY)[1:]
    assert store.hints_used(KEY) == 1


def test_draining_an_entry_twice_stores_it_once(store: ProgressStore, writer: AttemptWriter) -> None:
    spool_event(new_entry(store.path), ProgressEvent(EventKind.HINTS, KEY, 1))
    for number in range(2):
        spool_attempt(new_entry(store.path), FinishedRun(report(), f"x = {number}", recorded(writer)))
    as_left = store.path.with_name("as_left")
    shutil.copytree(spool_folder(store.path), as_left)
    assert drain_spool(store.path) == 3
    shutil.rmtree(writer.recordings.folder)  # as if the process had ended right after it had written the rows
    shutil.copytree(as_left, spool_folder(store.path), dirs_exist_ok=True)
    assert drain_spool(store.path) == 3
    assert sources(store) == ["x = 0", "x = 1"]
    assert writer.recordings.ids() == store.ids(KEY)[::-1]
    assert list(spool_folder(store.path).iterdir()) == []
    assert drain_spool(store.path) == 0


def test_an_attempt_drained_elsewhere_is_reported_with_its_recording(
    store: ProgressStore, writer: AttemptWriter
) -> None:
    outcomes: Outcomes = []
    with database.exclusive_lock(spool_folder(store.path), 0.0):
        writer.save(FinishedRun(report(), "x = 0", recorded(writer)), outcomes.append)
        spooled = spool_folder(store.path)
        elsewhere = store.path.parent / "elsewhere"
        spooled.rename(elsewhere)
        spooled.mkdir()
        [entry] = elsewhere.iterdir()
        pending = recorded(writer)
        store.record(report(), "x = 0", spooled_as=entry.name)
        writer.recordings.adopt(pending, store.ids(KEY)[0])
    writer.wait(60)
    [outcome] = outcomes
    assert isinstance(outcome, StoredAttempt)
    assert outcome.recording is not None
    assert sources(store) == ["x = 0"]


@pytest.mark.parametrize("content", ["{", '{"event": {"kind": "of a newer version", "value": "", "number": 0}}', "[]"])
def test_an_unreadable_entry_does_not_block_others(store: ProgressStore, content: str) -> None:
    entry = spool_folder(store.path) / "0-1-0"
    entry.parent.mkdir()
    entry.write_text(content)
    spool_event(new_entry(store.path), ProgressEvent(EventKind.HINTS, KEY, 2))
    assert drain_spool(store.path) == 1
    assert store.hints_used(KEY) == 2
    assert entry.read_text() == content


def test_unfinished_entries_of_dead_processes_are_removed(store: ProgressStore) -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    spool_event(new_entry(store.path), ProgressEvent(EventKind.HINTS, KEY, 2))
    for pid in (process.pid, os.getpid()):
        (spool_folder(store.path) / f".1-{pid}-0.{pid}-abc.part").write_text("{")
    assert drain_spool(store.path) == 1
    assert [part.name for part in spool_folder(store.path).iterdir()] == [f".1-{os.getpid()}-0.{os.getpid()}-abc.part"]


def test_a_failing_callback_does_not_stop_later_attempts(store: ProgressStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("Event loop is closed")

    faults: list[BaseException] = []
    writer = AttemptWriter(store.path, log=faults.append)
    writer.save(FinishedRun(report(), "x = 0"), broken)
    writer.wait(60)
    monkeypatch.setattr("gpututor.progress.recordings.prune_recordings", broken)
    for number in (1, 2):
        writer.save(FinishedRun(report(), f"x = {number}"), ignore)
        writer.wait(60)
    assert sources(store) == ["x = 0", "x = 1", "x = 2"]
    assert [str(fault) for fault in faults] == ["Event loop is closed"] * 3


def test_an_ending_process_names_an_unsaved_attempt_and_else_is_silent(store: ProgressStore) -> None:
    leaver = [*PYTHON, LEAVER, str(store.path)]
    with held(store):
        assert "gpututor: 1 attempt is in " in run_alone(leaver).stderr
    assert drain_spool(store.path) == 1
    assert sources(store) == ["x = 1"]
    assert run_alone(leaver).stderr == ""
    assert sources(store) == ["x = 1"] * 2


def run_on_full_disk(folder: Path, how: str, ending: str) -> subprocess.CompletedProcess[str]:
    folder.mkdir()
    script = [*PYTHON, FULL_DISK, str(folder), how, ending]
    if how == "tmpfs":
        mounting = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
        mount = 'mount -t tmpfs -o size=512k tmpfs "$0"'
        if shutil.which("unshare") is None or subprocess.run([*mounting, mount, folder], check=False).returncode:
            pytest.skip("no file system can be mounted here")
        script = [*mounting, f'{mount} && exec "$@"', str(folder), *script]
    return run_alone(script)


@pytest.mark.parametrize("how", ["tmpfs", "limit"])
def test_a_full_disk_keeps_attempts_in_memory_and_reports_a_loss(tmp_path: Path, how: str) -> None:
    done = run_on_full_disk(tmp_path / "continues", how, "continues")
    assert done.returncode == 0, done.stderr
    while_full, at_the_end, outcomes, title, advice = json.loads(done.stdout)
    assert while_full == ["x = 0"]
    assert at_the_end == ["x = 0", "x = 1", "x = 2"]
    assert outcomes == ["StoredAttempt", "ProgressError", "StoredAttempt", "StoredAttempt"]
    assert str(tmp_path / "continues") in title
    assert "full" in title
    assert "ree space" in advice
    assert done.stderr == ""
    done = run_on_full_disk(tmp_path / "leaves", how, "leaves")
    assert json.loads(done.stdout) == ["x = 0"]
    assert "gpututor: 1 attempt is lost: " in done.stderr


def kill_savers(path: Path, kills: int) -> None:
    """Kill saving processes; each printed attempt must be stored once, in order."""
    moments = random.Random(20_261_123)
    saved = 0
    for _ in range(kills):
        saver = subprocess.Popen([sys.executable, "-c", SAVER, str(path), str(saved)], stdout=subprocess.PIPE, cwd=ROOT)
        assert saver.stdout is not None
        shown = [saver.stdout.readline() for _ in range(moments.randrange(0, 12))]
        with contextlib.suppress(subprocess.TimeoutExpired):
            saver.wait(moments.uniform(0, 0.03))
        saver.kill()
        shown += saver.communicate()[0].splitlines(keepends=True)
        drain_spool(path)
        with contextlib.closing(ProgressStore(path)) as store:
            seeds = [attempt.report.environment.seed for attempt in store.attempts(KEY)]
            assert seeds == list(range(len(seeds)))
            last = max([int(line) for line in shown if line.endswith(b"\n")], default=-1)
            assert len(seeds) >= max(saved, last + 1)
            recordings = Recordings.next_to(store)
            newest = {id_ for id_, seed in zip(store.ids(KEY), reversed(seeds), strict=True) if seed % 2}
            assert sorted(newest)[-2:] == recordings.ids()[-2:]
            saved = len(seeds)
        assert list(spool_folder(path).glob("[0-9]*")) == []


@pytest.mark.parametrize("kills", mostly_long([4, 200], [4]))
def test_kills_neither_lose_nor_duplicate_attempts(tmp_path: Path, kills: int) -> None:
    kill_savers(tmp_path / "progress.sqlite3", kills)


def test_killed_concurrent_drains_neither_lose_nor_duplicate_attempts(tmp_path: Path) -> None:
    path = tmp_path / "progress.sqlite3"
    drainers = [
        subprocess.Popen([sys.executable, "-c", DRAINER, str(path)], stdout=subprocess.PIPE, cwd=ROOT) for _ in range(2)
    ]
    try:
        for drainer in drainers:
            assert drainer.stdout is not None
            drainer.stdout.readline()
        kill_savers(path, kills=2)
    finally:
        for drainer in drainers:
            drainer.kill()
            drainer.communicate()
