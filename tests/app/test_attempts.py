"""What becomes of a graded run: its text, its report and its recording are kept."""

from __future__ import annotations

import pytest
from textual.pilot import Pilot

from gpututor.app.main.screen import MainScreen
from gpututor.grading.recording import read_recording
from tests.support.apps import AppEnv, main_screen, until
from tests.support.scripted_client import ScriptedClient


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
        expected = {str(one) for one in screen.attempts.recordings.ids()}
        assert len(expected) == (1 if by == "another run" else 0)
        await until(
            pilot, lambda: {one.name for one in screen.attempts.recordings.folder.iterdir()} == expected, "for order"
        )
