"""Whatever is pressed, clicked, pasted, resized and changed on disk: the app goes on, and no text is lost."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpututor.app.main.files import FileController
from gpututor.app.main.screen import MainScreen
from tests.support.apps import AppEnv, main_screen, ready, until
from tests.support.random_actions import ACTIONS, LEAVING, Action, blow, key_event
from tests.support.screens import SIZES

STORMS = {
    "size": st.sampled_from(SIZES),
    "actions": st.lists(ACTIONS, min_size=15, max_size=45),
    "leaving": st.sampled_from(LEAVING),
    "first": st.sampled_from([False, False, True]),
}
RULES = settings(deadline=None, suppress_health_check=list(HealthCheck), database=None)


def storm(size: tuple[int, int], actions: list[Action], leaving: str, first: bool) -> None:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        asyncio.run(blow(Path(folder), size, actions, leaving, first=first))


@settings(RULES, max_examples=3, derandomize=True)
@given(**STORMS)
def test_a_storm_neither_crashes_the_app_nor_loses_text(
    size: tuple[int, int], actions: list[Action], leaving: str, first: bool
) -> None:
    storm(size, actions, leaving, first)


@pytest.mark.long
@pytest.mark.parametrize("part", range(5))  # so that all cores take part
@settings(RULES, max_examples=50, print_blob=True)
@given(**STORMS)
def test_250_storms_neither_crash_the_app_nor_lose_text(
    part: int, size: tuple[int, int], actions: list[Action], leaving: str, first: bool
) -> None:
    storm(size, actions, leaving, first)


SCREENS = {
    "help": "f1",
    "reset": "x",
    "solution": "s",
    "search": "slash",
    "jump": "semicolon",
    "settings": "comma",
    "devices": "D",
    "progress": "w",
    "attempts": "a",
    "device": "d",
    "everything that was said": "v",
    "palette": "ctrl+p",
}


@pytest.mark.long
async def test_esc_twice_in_one_moment_closes_one_screen(env: AppEnv) -> None:
    """Both reach the screen that was there when they came, and Textual would take the main screen away with it."""
    async with env.start((100, 30)) as pilot:
        await pilot.press("r")
        await until(pilot, lambda: not main_screen(pilot).running, "for the verdicts")
        for name, key in SCREENS.items():
            await pilot.press(key)
            await until(pilot, lambda: not main_screen(pilot).is_active, f"for {name}")
            for _ in range(3):
                pilot.app.post_message(key_event("escape"))
            await until(pilot, lambda: main_screen(pilot).is_active, f"for the end of {name}")
            assert len(pilot.app.screen_stack) == 1, name


@pytest.mark.long
async def test_opening_and_closing_a_screen_in_one_moment_does_no_harm(env: AppEnv) -> None:
    async with env.start((100, 30)) as pilot:
        for _ in range(3):
            for key in SCREENS.values():
                pilot.app.post_message(key_event(key))
                pilot.app.post_message(key_event("escape"))
            await pilot.pause()
            await pilot.press("escape", "escape", "escape")
        await until(pilot, lambda: main_screen(pilot).is_active, "for the main screen")


async def test_enter_twice_at_the_welcome_begins_once(env: AppEnv) -> None:
    async with env.start(first=True) as pilot:
        pilot.app.post_message(key_event("enter"))
        pilot.app.post_message(key_event("enter"))
        await ready(pilot)
        assert sum(isinstance(screen, MainScreen) for screen in pilot.app.screen_stack) == 1


class Unforeseen(Exception):
    pass


async def break_while_typing(env: AppEnv) -> None:
    def fail() -> None:
        raise Unforeseen("[/red] in our code")

    async with env.start() as pilot:
        await pilot.press("e", "m", "i", "n", "e")
        main_screen(pilot).call_later(fail)
        await until(pilot, lambda: not pilot.app.is_running, "for the end")


async def test_a_crash_saves_the_open_file_and_names_the_log(env: AppEnv, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Unforeseen):
        await break_while_typing(env)
    assert env.file().read_text().startswith("mine")
    log = (env.folder / "home" / "cache" / "gpututor.log").read_text()
    assert "Unforeseen: [/red] in our code" in log
    assert "in fail" in log
    said = capsys.readouterr().err
    assert "gpututor stopped in an unexpected way: Unforeseen('[/red] in our code')" in said
    assert "Your file is saved" in said
    assert "Traceback" not in said


async def test_a_crash_reports_a_file_that_cannot_be_saved(
    env: AppEnv, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: FileController) -> None:
        raise OSError("full")

    monkeypatch.setattr(FileController, "rescue", refuse)
    with pytest.raises(Unforeseen):
        await break_while_typing(env)
    assert "Your last edits could not be kept." in capsys.readouterr().err
