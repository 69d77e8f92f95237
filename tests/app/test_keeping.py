"""The outcome is shown at once, and the attempt saved, also while another process holds the database."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from gpututor.app.commands import Pane
from gpututor.app.main.screen import MainScreen
from gpututor.app.screens.base import QuestionDialog
from gpututor.grading.recording import Recording
from gpututor.progress import database
from gpututor.progress.attempt_writer import drain_spool, spool_folder
from gpututor.progress.overview import State
from gpututor.progress.recordings import Recordings
from gpututor.progress.store import ProgressStore
from tests.support.apps import AppEnv, main_screen, until, until_shown


@contextlib.contextmanager
def held(path: Path) -> Iterator[None]:
    """Another connection writes to the database meanwhile."""
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
    await until_shown(pilot, "d shows what it did.")


async def test_an_attempt_waiting_for_the_database_is_reported_and_counts(
    env: AppEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "BUSY_TIMEOUT_S", 0.01)
    env.file().write_text("def twice(number):\n    return 2 * number\n")
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


async def test_a_locked_database_delays_neither_hints_nor_keys(env: AppEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "BUSY_TIMEOUT_S", 0.01)
    writers: set[threading.Thread] = set()
    rows = ProgressStore.rows

    def noticed(store: ProgressStore, statement: str, *values: str | int) -> list[tuple[Any, ...]]:
        if not statement.startswith("SELECT"):
            writers.add(threading.current_thread())
        return rows(store, statement, *values)

    monkeypatch.setattr(ProgressStore, "rows", noticed)
    async with env.start() as pilot:
        screen = main_screen(pilot)
        key = screen.exercise.key
        with contextlib.closing(sqlite3.connect(screen.learner.progress.path, isolation_level=None)) as holder:
            holder.execute("BEGIN IMMEDIATE")
            await pilot.press("h", "h")
            await until_shown(pilot, "Hints: 2 of 3")
            await pilot.press("s", "y", "escape", "x", "y", "n", "5")
            await until(pilot, lambda: screen.exercise.label == "1.2", "for the next exercise")
            await pilot.press("q")
            await until(pilot, lambda: not pilot.app.is_running, "for the end")
            screen.attempts.writer.wait(60)
    assert writers
    assert threading.main_thread() not in writers
    progress = env.progress()
    assert (progress.hints_used(key), progress.solutions_opened()) == (0, frozenset())
    drain_spool(progress.path)
    assert progress.hints_used(key) == 2
    assert key in progress.solutions_opened()
    assert key in progress.begun_again()
    assert progress.current_exercise() == env.course.exercises[1].key
    assert '"results"' in (progress.place() or "")
    progress.close()


async def test_an_attempt_waiting_at_the_end_is_stored_at_the_next_start(
    env: AppEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "BUSY_TIMEOUT_S", 0.01)
    async with env.start() as pilot:
        screen = main_screen(pilot)
        key, path = screen.exercise.key, screen.learner.progress.path
        with held(path):
            await pilot.press("r")
            await until_shown(pilot, "1 of 3 checks passed")
            await pilot.press("q")
            await until(pilot, lambda: not pilot.app.is_running, "for the end")
            screen.attempts.writer.wait(60)
    drain_spool(path)
    progress = env.progress()
    assert len(progress.ids(key)) == 1
    progress.close()


@pytest.mark.parametrize("key", ["d", "V", "X"])
async def test_recordings_are_read_in_threads_and_once(env: AppEnv, monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    async with env.start() as pilot:
        await pilot.press("r")
        await until_shown(pilot, "d shows what it did.")
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
