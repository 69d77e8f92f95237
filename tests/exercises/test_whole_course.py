"""A learner's whole way from an empty folder: every exercise in order, in the app and on the command line."""

from __future__ import annotations

import json
import os
from contextlib import closing
from pathlib import Path

import pytest

from gpututor.app.main.screen import MainScreen
from gpututor.app.screens.welcome import FinishedScreen
from gpututor.cli.watch import CLEAR
from gpututor.course.model import Course, Exercise
from gpututor.grading.client import GradingClient
from gpututor.grading.report import Outcome
from gpututor.progress.store import ExerciseProgress
from tests.support.apps import AppEnv, main_screen, run_checks, until, until_shown
from tests.support.command_line import on_a_terminal, read_until, run_gpututor
from tests.support.shipped_course import COURSE

PATIENCE_S = 180.0
"""Longest time for one grading: compilers and several processes take their time on a busy machine."""


def starts_lesson(exercise: Exercise) -> bool:
    return exercise.number == 1


def progress_of(course: Course) -> dict[str, ExerciseProgress]:
    """Return the expected progress: a first failure and a hint in the first exercise of each lesson."""
    return {
        exercise.key: ExerciseProgress(1 + starts_lesson(exercise), True, int(starts_lesson(exercise)))
        for exercise in course.exercises
    }


@pytest.mark.long
async def test_the_app_leads_through_the_whole_course(tmp_path: Path) -> None:
    client = GradingClient()
    env = AppEnv(tmp_path, COURSE, client=client)  # type: ignore[arg-type]
    try:
        async with env.start((100, 30), first=True) as pilot:
            await until_shown(pilot, f"{len(COURSE.exercises)} exercises")
            await pilot.press("enter")
            await until(pilot, lambda: any(isinstance(each, MainScreen) for each in pilot.app.screen_stack))
            screen = main_screen(pilot)
            await until(pilot, lambda: screen.is_ready, "for the texts")
            for exercise in COURSE.exercises:
                await until(pilot, lambda key=exercise.key: screen.exercise.key == key, f"for {exercise.label}")  # type: ignore[misc]
                if starts_lesson(exercise):
                    await pilot.press("h")
                    await run_checks(pilot)
                    report = screen.panes.results.report
                    assert report is not None
                    assert report.outcome is not Outcome.PASSED
                screen.panes.editor.load_text(exercise.solution)
                await pilot.press("ctrl+s")
                await until(pilot, lambda: not screen.running, f"for {exercise.label}", patience_s=PATIENCE_S)
                await pilot.pause()
                report = screen.panes.results.report
                assert report is not None
                assert report.outcome is Outcome.PASSED, (exercise.label, report)
                if isinstance(pilot.app.screen, FinishedScreen) and COURSE.after(exercise) is None:
                    break
                await pilot.press("n")
            await until_shown(pilot, f"You have passed every exercise of the course: all {len(COURSE.exercises)}")
    finally:
        client.close()
    with closing(env.progress()) as store:
        assert store.summary() == progress_of(COURSE)


@pytest.mark.long
def test_watch_leads_through_the_whole_course(tmp_path: Path, home: Path) -> None:
    folder = tmp_path / "mine"
    assert run_gpututor("init", folder).returncode == 0
    with on_a_terminal("watch", "1.1", "--workspace", str(folder)) as (process, terminal):
        for exercise in COURSE.exercises:
            read_until(terminal, "q quit: ", PATIENCE_S)
            if starts_lesson(exercise):
                os.write(terminal, b"h\n")
                read_until(terminal, "more to come.")
            file = folder / exercise.folder.parent.name / f"{exercise.folder.name}.py"
            file.write_text(exercise.solution)
            following = COURSE.after(exercise)
            end = (
                f"Next, with n and Enter: {following.label} "
                if following
                else "This was the last exercise of the course."
            )
            assert "✓ Passed" in read_until(terminal, end, PATIENCE_S)
            os.write(terminal, b"n\n" if following else b"q\n")
            if following:
                read_until(terminal, f"{CLEAR}{following.label} {following.title}\n")
        assert process.wait(PATIENCE_S) == 0
    assert f"{len(COURSE.exercises)} of {len(COURSE.exercises)} passed" in run_gpututor("list").stdout
    listed = json.loads(run_gpututor("list", "--json").stdout)
    rows = [row for lesson in listed["lessons"] for row in lesson["exercises"]]
    assert {row["state"] for row in rows} == {"passed"}
    assert [row["hints_used"] for row in rows] == [int(starts_lesson(exercise)) for exercise in COURSE.exercises]
