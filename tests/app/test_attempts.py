"""Attempts: saved after the outcome is shown, recorded, exported."""

from __future__ import annotations

import contextlib
import errno
import json
import sqlite3
import threading
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import pytest
from textual.pilot import Pilot

from gpututor.app.commands import Pane
from gpututor.app.main.screen import MainScreen
from gpututor.app.screens.base import QuestionDialog
from gpututor.app.screens.trace import export
from gpututor.errors import ProgressError, WorkspaceError
from gpututor.grading.recording import Recording, read_recording
from gpututor.progress import database
from gpututor.progress.attempt_writer import drain_spool
from gpututor.progress.database import spool_folder
from gpututor.progress.overview import State
from gpututor.progress.recordings import Recordings
from gpututor.progress.store import ProgressStore
from gpututor.trace.arrays import TraceArrays
from gpututor.trace.columns import Trace
from gpututor.trace.hazards import hazards_of
from gpututor.trace.serialization import read_trace
from gpututor.trace.summary import lines_of, summary
from tests.support.apps import AppEnv, main_screen, until, until_shown
from tests.support.recorded_runs import Timed, run, see
from tests.support.recordings import make_recording, small_trace
from tests.support.screens import screen_text
from tests.support.scripted_client import ScriptedClient
from tests.support.tiny_course import RIGHT


async def test_a_run_is_recorded_with_its_text(pilot: Pilot[None], screen: MainScreen, env: AppEnv) -> None:
    await pilot.press("r")
    await until(pilot, lambda: len(screen.attempts.recordings.ids()) == 1, "for the recording")
    attempt = screen.learner.progress.latest(screen.exercise.key)
    assert attempt is not None
    assert attempt.source == screen.editor_text
    path = screen.attempts.recordings.path(attempt.id)
    assert path is not None
    assert read_recording(path).elapsed_ns == attempt.run_ns
    assert env.client.requests[0].recording_folder != str(path), "it became the attempt's in one step"


async def test_a_run_that_records_nothing_counts_all_the_same(env: AppEnv) -> None:
    env.client.records = False
    async with env.start() as pilot:
        screen = main_screen(pilot)
        await pilot.press("r")
        await until(pilot, lambda: screen.learner.progress.latest(screen.exercise.key) is not None, "for the attempt")
        screen.attempts.writer.wait(20)
        assert list(screen.attempts.recordings.folder.iterdir()) == []


@pytest.mark.parametrize("by", ["escape", "another run", "a fault"])
async def test_a_run_that_does_not_count_leaves_no_recording(env: AppEnv, by: str) -> None:
    env.client = ScriptedClient(holds=True)
    async with env.start() as pilot:
        screen = main_screen(pilot)
        await pilot.press("r")
        await until(pilot, lambda: any(screen.panes.results.rows), "for the first check")
        if by == "escape":
            await pilot.press("escape")
            await until(pilot, lambda: not screen.running, "for the end")
        else:
            env.client.holds = False
            if by == "a fault":
                env.client.breaks = ZeroDivisionError()
            await pilot.press("r")
            await until(pilot, lambda: not screen.running, "for the end")
        screen.attempts.writer.wait(20)
        expected = {str(attempt) for attempt in screen.attempts.recordings.ids()}
        assert len(expected) == (1 if by == "another run" else 0)
        await until(
            pilot, lambda: {path.name for path in screen.attempts.recordings.folder.iterdir()} == expected, "for order"
        )


@contextlib.contextmanager
def held(path: Path) -> Iterator[None]:
    """Keep the database locked by another connection during the block."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        yield
        holder.execute("ROLLBACK")


async def test_the_outcome_is_shown_while_another_process_holds_the_database(
    pilot: Pilot[None], screen: MainScreen
) -> None:
    progress, key = screen.learner.progress, screen.exercise.key
    with held(progress.path):
        await pilot.press("r")
        await until_shown(pilot, "1 of 3 checks passed")
        assert not screen.running
        assert len(list(spool_folder(progress.path).iterdir())) == 1
        await pilot.press("2")
        await until(pilot, lambda: screen.panes.current is Pane.LESSON, "for the lesson")
        assert progress.ids(key) == []
    await until(pilot, lambda: len(progress.ids(key)) == 1, "for the attempt")
    await pilot.press("5")
    await until_shown(pilot, "d shows the timeline.")


async def test_an_attempt_waiting_for_the_database_is_reported_and_counts(
    env: AppEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "BUSY_TIMEOUT_S", 0.01)
    env.file().write_text(RIGHT)
    async with env.start() as pilot:
        screen = main_screen(pilot)
        progress, key = screen.learner.progress, screen.exercise.key
        with held(progress.path):
            await pilot.press("r")
            await until_shown(pilot, "✓ passed")
            await until_shown(pilot, "The attempt is not in your progress yet.")
            assert screen.attempts.lessons[0].exercises[0].state is State.PASSED
            assert progress.ids(key) == []
        await pilot.press("r")
        await until(pilot, lambda: len(progress.ids(key)) == 2, "for both attempts")


async def test_an_attempt_that_cannot_be_stored_opens_a_dialog(env: AppEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "BUSY_TIMEOUT_S", 0.01)
    async with env.start() as pilot:
        progress = main_screen(pilot).learner.progress
        spool_folder(progress.path).rmdir()
        spool_folder(progress.path).write_text("in the way")
        with held(progress.path):
            await pilot.press("r")
            await until_shown(pilot, "database is locked")
            assert isinstance(pilot.app.screen, QuestionDialog)


async def test_a_locked_database_delays_no_keys_and_loses_nothing(env: AppEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "BUSY_TIMEOUT_S", 0.01)
    written: list[tuple[threading.Thread, str]] = []
    rows = ProgressStore.rows

    def noticed(store: ProgressStore, statement: str, *values: str | int) -> list[tuple[Any, ...]]:
        if not statement.lstrip().startswith("SELECT"):
            written.append((threading.current_thread(), statement))
        return rows(store, statement, *values)

    monkeypatch.setattr(ProgressStore, "rows", noticed)
    async with env.start() as pilot:
        screen = main_screen(pilot)
        key = screen.exercise.key
        with held(screen.learner.progress.path):
            await pilot.press("r")
            await until_shown(pilot, "1 of 3 checks passed")
            await pilot.press("h", "h")
            await until_shown(pilot, "Hints: 2 of 3")
            await pilot.press("s", "y", "escape", "x", "y", "n", "5")
            await until(pilot, lambda: screen.exercise.label == "1.2", "for the next exercise")
            await pilot.press("q")
            await until(pilot, lambda: not pilot.app.is_running, "for the end")
            screen.attempts.writer.wait(60)
    assert written
    assert [statement for thread, statement in written if thread is threading.main_thread()] == []
    progress = env.progress()
    assert (progress.hints_used(key), progress.solutions_opened()) == (0, frozenset())
    drain_spool(progress.path)
    assert (progress.hints_used(key), len(progress.ids(key))) == (2, 1)
    assert key in progress.solutions_opened()
    assert key in progress.begun_again()
    assert progress.current_exercise() == env.course.exercises[1].key
    assert '"results"' in (progress.place() or "")
    progress.close()


@pytest.mark.parametrize("key", ["d", "V", "X"])
async def test_recordings_are_read_in_threads_and_once(env: AppEnv, monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    async with env.start() as pilot:
        await pilot.press("r")
        await until_shown(pilot, "d shows the timeline.")
    reads: list[tuple[int | str, threading.Thread]] = []
    read = Recordings.read

    def noticed(recordings: Recordings, attempt: int) -> Recording | None:
        reads.append((attempt, threading.current_thread()))
        return read(recordings, attempt)

    monkeypatch.setattr(Recordings, "read", noticed)
    async with env.start() as pilot:
        screen = main_screen(pilot)
        await pilot.press(key)
        if key == "X":
            await until_shown(pilot, "Written: ")
        else:
            await until(pilot, lambda: pilot.app.screen is not screen, "for the other screen")
            await pilot.press("escape")
            await until(pilot, lambda: pilot.app.screen is screen, "for the way back")
        await until(pilot, lambda: screen.panes.editor.has_costs, "for the costs of lines")
    assert [attempt for attempt, _ in reads] == [1]
    assert reads[0][1] is not threading.main_thread()


@pytest.mark.parametrize(
    "steps",
    [
        {"d": "Attempt 1 ·"},
        {"X": "Written: "},
        {"a": "Attempt 1: ", "d": "Attempt 1 ·"},
        {"a": "Attempt 1: ", "V": "The progress cannot be read. Check the disk."},
        {"ctrl+p w h a t space i f": "Run the attempt on other models", "enter": "Enter runs on these"},
    ],
    ids=",".join,
)
async def test_an_unreadable_progress_file_hides_no_trace_and_ends_no_app(
    timed: AppEnv, monkeypatch: pytest.MonkeyPatch, steps: dict[str, str]
) -> None:
    def fail(key: str) -> None:
        raise ProgressError("The progress cannot be read.", "Check the disk.")

    async with timed.start() as pilot:
        await run(pilot, timed)
    async with timed.start() as pilot:
        monkeypatch.setattr(main_screen(pilot).learner.progress, "best", fail)
        for keys, words in steps.items():
            await pilot.press(*keys.split())
            await until_shown(pilot, words)
        while pilot.app.screen is not main_screen(pilot):
            await pilot.press("escape")
            await pilot.pause()
        assert main_screen(pilot).status.message == "The progress cannot be read."


def test_a_recording_made_by_hand_agrees_with_the_summary_of_its_trace(tmp_path: Path) -> None:
    recording = make_recording(tmp_path, small_trace(), small_trace(factor=2), baseline=small_trace(factor=3))
    (run,) = recording.runs
    path = recording.trace_path(run.calls[0])
    assert path is not None
    rows = TraceArrays(read_trace(str(path)))
    assert len(hazards_of(rows)) == 1
    by_line = {line_cost.place.line: line_cost for line_cost in lines_of(rows)}
    for cost in run.lines:
        assert cost.kernels == 2 * by_line[cost.line].kernel_count
        assert cost.copy_ns == 3 * by_line[cost.line].copy_time
        assert cost.waits == 2 * by_line[cost.line].waits
    device = summary(rows.trace).devices[0]
    assert (run.calls[0].peak_bytes, run.calls[0].peak_line) == (device.peak_bytes, device.peak_place.line)
    assert device.streams == 2
    assert run.baselines[0].calls[1].elapsed_ns == 3 * run.calls[0].elapsed_ns


def exported(env: AppEnv, ending: str) -> list[Path]:
    return sorted((env.workspace_folder / "exports").glob(f"*{ending}"))


async def files(pilot: Pilot[None], env: AppEnv, ending: str, number: int = 1) -> list[Path]:
    """Wait for `number` exported files and the message about them; return the files."""
    await until(pilot, lambda: len(exported(env, ending)) == number, "for the file")
    await until_shown(pilot, "Written:")
    return exported(env, ending)


async def test_a_trace_is_written_as_perfetto_reads_it(env: AppEnv) -> None:
    env.client = Timed()
    async with env.start((140, 40)) as pilot:
        await run(pilot, env)
        await see(pilot, "timeline")
        await pilot.press("X")
        (path,) = await files(pilot, env, ".json")
        assert path.name.startswith("1.1-attempt-1-call-1-")
        assert "ui.perfetto.dev" in screen_text(pilot.app)
    exported = json.loads(path.read_text())
    events = exported["traceEvents"]
    assert all({"ph", "name", "pid"} <= event.keys() for event in events)
    assert all(event["ts"] >= 0 and event["dur"] >= 0 for event in events if event["ph"] == "X")
    begun = {event["id"] for event in events if event["ph"] == "s"}
    ended = {event["id"] for event in events if event["ph"] == "f"}
    assert begun == ended != set()
    named = {(event["pid"], event["tid"]) for event in events if event["name"] == "thread_name"}
    assert {(event["pid"], event["tid"]) for event in events if event["ph"] in "Xsf"} <= named
    assert {event["name"] for event in events if event["ph"] == "C"} == {"allocated memory"}


async def test_the_main_screen_exports_the_newest_trace_and_failures_are_told(env: AppEnv) -> None:
    env.client = Timed()
    in_the_way = env.workspace_folder / "exports"
    async with env.start() as pilot:
        await pilot.press("X")
        await until_shown(pilot, "There is no trace to export yet")
        in_the_way.write_text("in the way")
        await pilot.press("S")
        await until_shown(pilot, "cannot be written")
        await pilot.press("escape")
        await run(pilot, env)
        await see(pilot, "timeline")
        await pilot.press("X")
        await until_shown(pilot, "Check the permissions and the free space")
        await pilot.press("escape", "escape")
        await until(pilot, lambda: main_screen(pilot).is_current, "for the main screen")
        in_the_way.unlink()
        for number in (1, 2, 3):
            await pilot.press("X")
            paths = await files(pilot, env, ".json", number)
        newest = max(paths, key=lambda path: path.stat().st_mtime_ns)
        await until_shown(pilot, f"{newest.name[-20:]}, for https://ui.perfetto.dev")
        await pilot.press("j")
        assert "perfetto" not in screen_text(pilot.app), "until the next key"
        assert all(json.loads(path.read_text())["traceEvents"] for path in paths)


async def test_an_attempt_without_device_work_is_not_exported(env: AppEnv) -> None:
    env.client.traces = lambda request: [Trace()]
    async with env.start() as pilot:
        await run(pilot, env)
        await pilot.press("X")
        await until_shown(pilot, "No device did anything in this call")
        assert "Writing the trace" not in screen_text(pilot.app)
        assert "The log is" not in screen_text(pilot.app), "gpututor is not at fault"
        await pilot.press("escape")
        await see(pilot, "timeline")
        await pilot.press("X")
        await until_shown(pilot, "nothing was written")
    assert exported(env, ".json") == []


async def test_pictures_of_each_large_screen_are_saved_with_its_text(timed: AppEnv) -> None:
    async with timed.start((100, 30)) as pilot:
        await pilot.press("S")
        await files(pilot, timed, ".svg")
        await run(pilot, timed)
        await see(pilot, "memory")
        await pilot.press("S")
        await files(pilot, timed, ".svg", 2)
        await pilot.press("V")
        await until_shown(pilot, "Attempt 1 compared with baseline.py")
        await pilot.press("S")
        paths = await files(pilot, timed, ".svg", 3)
    texts = ["".join(ElementTree.parse(path).getroot().itertext()).replace("\xa0", " ") for path in paths]
    for words in ("1.1 Twice 1", "peak", "compared with baseline.py"):
        assert any(words in text for text in texts), words


def test_exports_leave_nothing_on_a_full_disk_and_have_safe_names(tmp_path: Path) -> None:
    def write(stream: TextIO) -> None:
        stream.write("half of it")
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(WorkspaceError, match="No space left on device"):
        export(tmp_path, "1.1", ".json", write)
    assert list(tmp_path.iterdir()) == []
    path = export(tmp_path / "new", "1.1 ../two GPUs", ".svg", lambda stream: None)
    assert path.parent == tmp_path / "new"
    assert path.name.startswith("1.1-..-two-GPUs-2")
