"""The learner's whole path, with a grading client that answers at once."""

from __future__ import annotations

import pytest
from textual.pilot import Pilot

from gpututor.app.commands import Pane
from gpututor.app.main.screen import MainScreen
from gpututor.progress.overview import State
from tests.support.apps import AppEnv, main_screen, run_checks, until, until_shown
from tests.support.screens import screen_text
from tests.support.tiny_course import RIGHT


async def test_a_learner_fails_mends_passes_goes_on_and_finds_it_all_again(env: AppEnv) -> None:
    async with env.start() as pilot:
        screen = main_screen(pilot)
        await pilot.press("e", "down", "end")
        await run_checks(pilot)
        text = screen_text(pilot.app)
        assert "✗ Failed: 1 of 3 checks passed, 1 not run" in text
        assert "✓ passed   The check called loads holds" in text
        assert "○ not run  The check called parity holds" in text
        for words in ("a result on cuda:0", "a result on cpu", "raise NotImplementedError", "pass device=."):
            assert words in text
        await pilot.press("enter")
        assert screen.panes.current is Pane.CODE
        assert screen.panes.editor.cursor_location == (1, 4)
        screen.panes.editor.load_text(RIGHT)
        await run_checks(pilot)
        assert "✓ Passed: all 3 checks" in screen_text(pilot.app)
        assert "n opens 1.2 Twice 2" in screen_text(pilot.app)
        assert screen.exercise.label == "1.1", "a pass must not jump away"
        await pilot.press("n")
        assert screen.exercise.label == "1.2"
        await pilot.press("q")
    assert env.file(0).read_text() == RIGHT
    async with env.start() as pilot:
        screen = main_screen(pilot)
        assert screen.exercise.label == "1.2"
        assert screen.attempts.lessons[0].exercises[0].state is State.PASSED
        await pilot.press("1")
        await until_shown(pilot, "✓ 1.1 Twice 1")
        await pilot.press("p", "5")
        await until_shown(pilot, "This is your last run.")


async def test_the_device_stands_on_the_result_and_says_that_it_is_modelled(pilot: Pilot[None]) -> None:
    assert "virtual T4 (modelled)" in screen_text(pilot.app)
    await run_checks(pilot)
    assert "On cuda:0, virtual T4 (modelled), in 0.2 s" in screen_text(pilot.app)


async def test_finishing_a_lesson_is_noticed(pilot: Pilot[None], screen: MainScreen) -> None:
    for _ in range(2):
        screen.panes.editor.load_text(RIGHT)
        await run_checks(pilot)
        text = screen_text(pilot.app)
        await pilot.press("n")
    assert "Lesson 1 is finished: Small things. n opens 2.1 Twice 1." in text
    assert screen.panes.current is Pane.LESSON, "a new lesson begins with its text"
    assert "# Lesson 2" in screen.panes.reader.text


@pytest.mark.long
async def test_finishing_the_course_is_noticed(pilot: Pilot[None], screen: MainScreen, env: AppEnv) -> None:
    for _ in env.course.exercises:
        screen.panes.editor.load_text(RIGHT)
        await run_checks(pilot)
        text = screen_text(pilot.app)
        await pilot.press("n")
    assert "You have passed every exercise of the course." in text
    await pilot.press("escape", "n")
    await until_shown(pilot, "This is the last exercise")


async def test_the_list_opens_exercises_and_lessons(pilot: Pilot[None], screen: MainScreen) -> None:
    await pilot.press("l", "G", "enter")
    assert (screen.exercise.label, screen.panes.current) == ("2.2", Pane.TASK)
    await pilot.press("l", "g", "enter")
    assert screen.panes.current is Pane.LESSON
    assert "# Lesson 1" in screen.panes.reader.text
    assert screen.exercise.label == "2.2", "reading a lesson leaves the exercise open"


async def test_hints_come_one_by_one_and_are_counted(pilot: Pilot[None], screen: MainScreen) -> None:
    await pilot.press("h")
    await until(pilot, lambda: "Hints: 1 of 3" in screen_text(pilot.app), "for the first hint")
    assert "Look at the name." in screen_text(pilot.app)
    assert "Add it to itself." not in screen_text(pilot.app)
    await pilot.press("t", "h")
    await until(pilot, lambda: "Hints: 1 of 3" in screen_text(pilot.app), "for the hint again")
    await pilot.press("h", "h", "h", "h")
    await until(pilot, lambda: "Hints: 3 of 3" in screen_text(pilot.app), "for the last hint")
    progress = screen.learner.progress
    await until(pilot, lambda: progress.hints_used(screen.exercise.key) == 3, "for their number")


async def test_before_a_pass_the_solution_is_shown_only_after_a_yes(pilot: Pilot[None]) -> None:
    await pilot.press("s")
    await until_shown(pilot, "See the solution before you have passed?")
    await pilot.press("escape")
    assert "2 * number" not in screen_text(pilot.app)
    await pilot.press("s", "y")
    await until_shown(pilot, "-     raise NotImplementedError")
    assert "+     return 2 * number" in screen_text(pilot.app)


async def test_after_a_pass_the_solution_is_shown_at_once(pilot: Pilot[None]) -> None:
    main_screen(pilot).panes.editor.load_text(RIGHT)
    await run_checks(pilot)
    await pilot.press("s")
    await until_shown(pilot, "Both are the same.")


async def test_reset_asks_and_names_the_backup(pilot: Pilot[None], screen: MainScreen, env: AppEnv) -> None:
    screen.panes.editor.load_text("mine = 1\n")
    await pilot.press("x", "n")
    assert screen.panes.editor.text == "mine = 1\n"
    await pilot.press("x", "y")
    await pilot.pause()
    assert screen.panes.editor.text == screen.exercise.starter
    backups = list((env.workspace_folder / ".backups").iterdir())
    assert [backup.read_text() for backup in backups] == ["mine = 1\n"]
    assert backups[0].name in screen_text(pilot.app)


async def test_a_newer_starter_is_announced_and_not_forced(env: AppEnv) -> None:
    env.file(0).write_text("mine = 1\n")
    (env.course.exercises[0].folder / "starter.py").write_text("def twice(number): ...  # TODO: newer\n")
    async with env.start() as pilot:
        assert "A newer starter has come." in screen_text(pilot.app)
        assert main_screen(pilot).panes.editor.text == "mine = 1\n"
