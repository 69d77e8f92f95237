from __future__ import annotations

import pytest

from gpututor.app.commands import Pane
from gpututor.course.workspace import find_workspace, make_workspace
from tests.support.apps import AppEnv, main_screen, ready, until
from tests.support.screens import screen_text


async def test_one_key_leads_from_the_welcome_to_the_first_exercise(
    env: AppEnv,
) -> None:
    async with env.start(first=True) as pilot:
        text = screen_text(pilot.app)
        assert "No GPU is needed" in text
        assert "~/workspace" in text
        await pilot.press("enter")
        await ready(pilot)
        assert main_screen(pilot).exercise.label == "1.1"
        assert main_screen(pilot).panes.current is Pane.TASK
        assert "twice(number)" in screen_text(pilot.app)
    assert env.file(0).read_text() == env.course.exercises[0].starter


async def test_a_folder_named_for_one_start_is_not_remembered(env: AppEnv) -> None:
    usual, _ = make_workspace(env.folder / "usual", env.course)
    async with env.start(first=True) as pilot:  # as `--workspace` names one
        await pilot.press("enter")
        await ready(pilot)
        assert main_screen(pilot).learner.workspace.folder == env.workspace_folder
    assert find_workspace(course=env.course) == usual


async def test_leaving_while_the_first_exercise_opens_does_no_harm(env: AppEnv) -> None:
    async with env.start(first=True) as pilot:
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
async def test_leaving_while_a_screen_opens_does_no_harm(env: AppEnv, command: str) -> None:
    (env.course.folder / "glossary.md").write_text("# Glossary\n\n**host**: the CPU. (1)\n")
    async with env.start() as pilot:
        await until(pilot, lambda: main_screen(pilot).is_ready, "for the app")
        await pilot.app.screen.run_action(f"run_command('{command}')")
        pilot.app.exit()
    assert pilot.app.return_code == 0
