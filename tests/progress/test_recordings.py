"""Recordings of attempts: complete or absent, and bounded in number and size."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from gpututor.errors import ProgressError
from gpututor.grading.recording import FILE, Recording, RunRecording, read_recording, write_recording
from gpututor.grading.report import Outcome
from gpututor.progress import recordings as module
from gpututor.progress.recordings import KEPT_NEWEST, Recordings, prune_recordings, store_attempt
from gpututor.progress.store import Attempt, ProgressStore
from tests.support import ROOT
from tests.support.recordings import make_recording, small_trace
from tests.support.reports import report

KEY = "tensors/born"
WRITER = """
import sys
from pathlib import Path
from gpututor.progress.recordings import Recordings, store_attempt, prune_recordings
from gpututor.progress.store import ProgressStore
from tests.support.recordings import make_recording
from tests.support.reports import report
store = ProgressStore(Path(sys.argv[1]))
recordings = Recordings.next_to(store)
while True:
    part = recordings.create_pending()
    make_recording(part)
    store_attempt(store, recordings, report(), "x = 1", part)
    prune_recordings(store, recordings, "tensors/born")
    print("one", flush=True)
"""


@pytest.fixture
def store(tmp_path: Path) -> ProgressStore:
    return ProgressStore(tmp_path / "data" / "progress.sqlite3")


@pytest.fixture
def recordings(store: ProgressStore) -> Recordings:
    return Recordings.next_to(store)


def pending(recordings: Recordings) -> Path:
    part = recordings.create_pending()
    assert part is not None
    return part


def keep(store: ProgressStore, outcome: Outcome = Outcome.FAILED, *, factor: float = 1.0, key: str = KEY) -> int:
    recordings = Recordings.next_to(store)
    part = pending(recordings)
    make_recording(part, small_trace(factor=factor))
    return store_attempt(store, recordings, report(key, outcome), "x = 1", part).id


def stored(store: ProgressStore, attempt: int) -> Attempt:
    kept = store.attempt(attempt)
    assert kept is not None
    return kept


def test_an_attempt_id_leads_to_its_recording(store: ProgressStore, recordings: Recordings) -> None:
    attempt = keep(store)
    recording = recordings.read(attempt)
    assert recording is not None
    assert recordings.path(attempt) == store.path.parent / "recordings" / str(attempt)
    kept = stored(store, attempt)
    assert (kept.source, kept.run_ns, kept.peak_bytes) == ("x = 1", recording.elapsed_ns, recording.peak_bytes)
    path = recording.trace_path(recording.runs[0].calls[0])
    assert path is not None
    assert path.is_file()
    assert [entry.name for entry in recordings.folder.iterdir()] == [str(attempt)]


def test_an_attempt_without_a_recording_or_times_is_stored(store: ProgressStore, recordings: Recordings) -> None:
    empty, broken = pending(recordings), pending(recordings)
    (broken / FILE).write_text("{}")
    make_recording(recordings.folder / "1")  # of a progress file that was set aside
    for number, part in enumerate((None, empty, broken), 1):
        attempt = store_attempt(store, recordings, report(), "x = 1", part).id
        assert (attempt, recordings.read(attempt), recordings.path(attempt)) == (number, None, None)
        assert stored(store, attempt).run_ns is None
    assert list(recordings.folder.iterdir()) == []
    part = pending(recordings)
    write_recording(Recording((RunRecording("no GPU", "no GPU, only the CPU", "", (), (), ()),)), part)
    kept = stored(store, store_attempt(store, recordings, report(), "", part).id)
    assert (kept.run_ns, kept.peak_bytes, kept.source) == (None, 0, "")


def test_pruning_keeps_the_newest_and_the_best(store: ProgressStore, recordings: Recordings) -> None:
    other = keep(store, key="other/thing")
    best = keep(store, Outcome.PASSED, factor=0.5)
    ids = [keep(store, Outcome.PASSED) for _ in range(KEPT_NEWEST + 3)]
    prune_recordings(store, recordings, KEY)
    assert recordings.ids() == [other, best, *ids[-KEPT_NEWEST:]]
    best_attempt = store.best(KEY)
    assert best_attempt is not None
    assert best_attempt.id == best


def test_total_size_is_bounded_with_priority_to_the_best_and_newest(
    store: ProgressStore, recordings: Recordings, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = keep(store, key="other/thing")
    ids = [keep(store) for _ in range(3)]
    size = sum(path.stat().st_size for path in (recordings.folder / str(other)).iterdir())
    monkeypatch.setattr(module, "MOST_BYTES", 2 * size + size // 2)
    prune_recordings(store, recordings, KEY)
    assert recordings.ids() == ids[-2:]
    monkeypatch.setattr(module, "MOST_BYTES", 1)
    prune_recordings(store, recordings, KEY)
    assert recordings.ids() == ids[-1:], "the newest recording always stays"


def test_without_a_folder_there_is_no_recording(tmp_path: Path) -> None:
    (tmp_path / "recordings").write_text("in the way")
    recordings = Recordings(tmp_path / "recordings")
    assert recordings.create_pending() is None
    assert recordings.ids() == []
    assert recordings.read(1) is None


def test_a_recording_of_an_unstorable_attempt_stays_with_the_caller(
    store: ProgressStore, recordings: Recordings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> int:
        raise ProgressError("The disk is full.")

    monkeypatch.setattr(store, "record", refuse)
    with pytest.raises(ProgressError, match="full"):
        keep(store)
    assert len(list(recordings.folder.glob(".new-*"))) == 1


def test_kills_leave_no_partial_recordings(tmp_path: Path) -> None:
    path = tmp_path / "progress.sqlite3"
    moments = random.Random(20_260_101)
    for _ in range(6):
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, cwd=ROOT)
        assert writer.stdout is not None
        for _ in range(moments.randrange(1, 8)):
            writer.stdout.readline()
        try:
            writer.wait(moments.uniform(0, 0.02))
        except subprocess.TimeoutExpired:
            writer.kill()
        writer.communicate()
        store = ProgressStore(path)
        recordings = Recordings.next_to(store)
        assert recordings.ids()
        for attempt in recordings.ids():
            assert read_recording(recordings.folder / str(attempt)).elapsed_ns == stored(store, attempt).run_ns
        part = recordings.create_pending()
        names = {entry.name for entry in recordings.folder.iterdir()}
        assert names == {*map(str, recordings.ids()), part.name if part else ""}
        recordings.discard(part)
        store.close()


def test_the_newest_recordings_are_kept_under_any_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recordings = Recordings(tmp_path)
    recordings.prune_oldest()  # nothing is there
    for age, name in enumerate(["newest", "second", "third"]):
        (tmp_path / name).mkdir()
        (tmp_path / name / FILE).write_bytes(b"x" * 100)
        os.utime(tmp_path / name, (1000 - age, 1000 - age))
    part = pending(recordings)
    for room, kept in ((300, {"newest", "second", "third"}), (250, {"newest", "second"}), (10, {"newest"})):
        monkeypatch.setattr(module, "MOST_BYTES", room)
        recordings.prune_oldest()
        assert {path.name for path in tmp_path.iterdir()} == {*kept, part.name}
