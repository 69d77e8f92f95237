"""An attempt is kept while the app goes on, also where another process holds the progress file."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from typing import Any

import pytest

from gpututor.app.commands import Pane
from gpututor.grading.recording import Recording
from gpututor.progress.history import begun_again, solutions_opened
from gpututor.progress.recordings import Recordings
from gpututor.progress.store import ProgressStore
from gpututor.progress.unkept import take_in
from tests.app.conftest import Desk, main_screen, until, until_shown


async def test_while_another_process_holds_the_progress_the_app_answers_and_the_attempt_is_there_afterwards(
    desk: Desk,
) -> None:
    async with desk.start() as pilot:
        screen = main_screen(pilot)
        progress, key = screen.learner.progress, screen.exercise.key
        holder = sqlite3.connect(progress.path, isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        await pilot.press("r")
        await until_shown(pilot, "Keeping the attempt")
        await pilot.press("2")
        await until(pilot, lambda: screen.panes.current is Pane.LESSON, "for the lesson")
        await pilot.press("5", "escape")
        await until(pilot, lambda: screen.panes.current is Pane.RESULTS, "for the results")
        assert screen.running, "an attempt that is being kept is not stopped"
        assert progress.ids(key) == []
        holder.execute("ROLLBACK")
        holder.close()
        await until(pilot, lambda: not screen.running, "for the report")
        assert len(progress.ids(key)) == 1
        await until_shown(pilot, "1 of 3 checks passed")


async def test_while_another_process_holds_the_progress_hints_open_and_no_key_waits_for_it(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpututor.progress.keeper._NOTE_S", 0.01)
    writers: set[threading.Thread] = set()
    rows = ProgressStore.rows

    def noticed(store: ProgressStore, statement: str, *values: str | int) -> list[tuple[Any, ...]]:
        if not statement.startswith("SELECT"):
            writers.add(threading.current_thread())
        return rows(store, statement, *values)

    monkeypatch.setattr(ProgressStore, "rows", noticed)
    async with desk.start() as pilot:
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
            screen._keeper.wait(60)
    assert writers
    assert threading.main_thread() not in writers
    progress = desk.progress()
    assert (progress.hints_used(key), solutions_opened(progress)) == (0, frozenset())
    assert take_in(progress.path) == 5
    assert progress.hints_used(key) == 2
    assert key in solutions_opened(progress)
    assert key in begun_again(progress)
    assert progress.current_exercise() == desk.course.exercises[1].key
    assert '"results"' in (progress.place() or "")
    progress.close()


async def test_who_leaves_while_an_attempt_is_being_kept_finds_it_at_the_next_start(desk: Desk) -> None:
    async with desk.start() as pilot:
        screen = main_screen(pilot)
        key, keeper = screen.exercise.key, screen._keeper
        holder = sqlite3.connect(screen.learner.progress.path, isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        await pilot.press("r")
        await until_shown(pilot, "Keeping the attempt")
        await pilot.press("q")
    holder.execute("ROLLBACK")
    holder.close()
    keeper.wait(60)
    progress = desk.progress()
    assert len(progress.ids(key)) == 1
    progress.close()


@pytest.mark.parametrize("key", ["d", "V", "X"])
async def test_what_was_recorded_is_read_aside(desk: Desk, monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    async with desk.start() as pilot:
        screen = main_screen(pilot)
        await pilot.press("r")
        await until_shown(pilot, "d shows what it did.")
        screen._last_view = None  # as after a restart
        readers: set[threading.Thread] = set()
        read = Recordings.read

        def noticed(recordings: Recordings, attempt: int) -> Recording | None:
            readers.add(threading.current_thread())
            return read(recordings, attempt)

        monkeypatch.setattr(Recordings, "read", noticed)
        await pilot.press(key)
        if key == "X":
            await until_shown(pilot, "Written: ")
        else:
            await until(pilot, lambda: pilot.app.screen is not screen, "for the other screen")
            await pilot.press("escape")
            await until(pilot, lambda: pilot.app.screen is screen, "for the way back")
            await until_shown(pilot, "✓ passed   The check called loads holds")
        assert readers
        assert threading.main_thread() not in readers
