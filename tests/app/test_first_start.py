from __future__ import annotations

import pytest

from gpututor.app.commands import Pane
from gpututor.course.workspace import find_workspace, make_workspace
from tests.support.apps import Desk, main_screen, ready, until
from tests.support.screens import screen_text


async def test_a_new_learner_reads_what_this_is_and_reaches_the_first_exercise_with_one_key(desk: Desk) -> None:
    async with desk.start(first=True) as pilot:
        text = screen_text(pilot.app)
        assert "No GPU is needed" in text
        assert "~/workspace" in text
        await pilot.press("enter")
        await ready(pilot)
        assert main_screen(pilot).exercise.label == "1.1"
        assert main_screen(pilot).panes.current is Pane.TASK
        assert "twice(number)" in screen_text(pilot.app)
    assert desk.file(0).read_text() == desk.course.exercises[0].starter


async def test_a_folder_that_was_named_for_this_start_does_not_become_the_one_for_all(desk: Desk) -> None:
    usual, _ = make_workspace(desk.folder / "usual", desk.course)
    async with desk.start(first=True) as pilot:  # as `--workspace` names one
        await pilot.press("enter")
        await ready(pilot)
        assert main_screen(pilot).learner.workspace.folder == desk.workspace_folder
    assert find_workspace(course=desk.course) == usual


async def test_leaving_while_the_first_exercise_opens_does_no_harm(desk: Desk) -> None:
    async with desk.start(first=True) as pilot:
        await pilot.app.run_action("begin")
        pilot.app.exit()
    assert pilot.app.return_code == 0


OPENING = (
    "show_help",
    "reset",
    "search",
    "show_settings",
    "show_devices",
    "show_progress",
    "show_history",
    "show_glossary",
)


@pytest.mark.parametrize("command", OPENING)
async def test_leaving_while_a_screen_opens_does_no_harm(desk: Desk, command: str) -> None:
    (desk.course.folder / "glossary.md").write_text("# Glossary\n\n**host**: the CPU. (1)\n")
    async with desk.start() as pilot:
        await until(pilot, lambda: main_screen(pilot).is_ready, "for the app")
        await pilot.app.screen.run_action(f"run_command('{command}')")
        pilot.app.exit()
    assert pilot.app.return_code == 0
