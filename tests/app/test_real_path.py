"""The whole path with the real course, the real judge and its workers."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from textual.pilot import Pilot

from gpututor.app.app import GpututorApp
from gpututor.course.loader import load_course
from gpututor.course.workspace import make_workspace
from gpututor.grading.client import GradingClient
from gpututor.paths import builtin_course, default_workspace, progress_file
from gpututor.progress.overview import State
from gpututor.progress.store import ProgressStore
from tests.support.apps import main_screen, ready, until, until_shown
from tests.support.screens import screen_text

EXERCISE = "tensors_on_the_device/born_on_the_device"


@contextlib.asynccontextmanager
async def start() -> AsyncIterator[Pilot[None]]:
    course = load_course(builtin_course())
    progress, client = ProgressStore(progress_file()), GradingClient()
    workspace, _ = make_workspace(default_workspace(), course)
    app = GpututorApp(course=course, workspace=workspace, progress=progress, client=client)
    try:
        async with app.run_test(size=(80, 24)) as pilot:
            await ready(pilot)
            yield pilot
    finally:
        client.close()
        progress.close()


async def run_checks(pilot: Pilot[None]) -> str:
    await pilot.press("ctrl+s")
    screen = main_screen(pilot)
    await until(pilot, lambda: not screen.running, "for the verdicts", patience_s=90)
    await pilot.pause()
    return screen_text(pilot.app)


async def test_a_learner_edits_fails_passes_quits_and_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUTUTOR_HOME", str(tmp_path))
    async with start() as pilot:
        screen = main_screen(pilot)
        screen.navigator.open_exercise(screen.learner.course.find("born_on_the_device"), screen.panes.current)
        await pilot.press("e")
        wrong = next(path for path in screen.exercise.wrong_solutions if "fails: transfers" in path.read_text())
        screen.panes.editor.load_text(wrong.read_text())
        text = await run_checks(pilot)
        assert "✗ Failed" in text
        assert "(modelled)" in text
        failure = screen.panes.results.first_failure
        assert failure is not None
        assert failure.verdict.check == "transfers"
        assert failure.verdict.line is not None
        await pilot.press("enter")
        await until(pilot, lambda: screen.panes.editor.cursor_location[0] + 1 == failure.verdict.line, "for the line")
        screen.panes.editor.load_text(screen.exercise.solution)
        assert "✓ Passed" in await run_checks(pilot)
        await pilot.press("q")
    async with start() as pilot:
        screen = main_screen(pilot)
        assert screen.exercise.key == EXERCISE
        rows = {row.key: row for lesson in screen.attempts.lessons for row in lesson.exercises}
        assert (rows[EXERCISE].state, rows[EXERCISE].attempts) == (State.PASSED, 2)


@pytest.mark.long
async def test_an_endless_loop_can_be_stopped_and_the_next_run_is_graded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUTUTOR_HOME", str(tmp_path))
    async with start() as pilot:
        screen = main_screen(pilot)
        screen.navigator.open_exercise(screen.learner.course.find("born_on_the_device"), screen.panes.current)
        screen.panes.editor.load_text("def make_grid(height, width, device):\n    while True: pass\n")
        await pilot.press("ctrl+s")
        await until(pilot, lambda: "On cuda:0" in screen_text(pilot.app), "for the run to begin", patience_s=90)
        assert screen.running
        await pilot.press("escape")
        await until(pilot, lambda: not screen.running, "for the end")
        await until_shown(pilot, "Stopped. Nothing was recorded.")
        screen.panes.editor.load_text(screen.exercise.solution)
        assert "✓ Passed" in await run_checks(pilot)
