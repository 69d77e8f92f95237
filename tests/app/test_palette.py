"""The palette: commands, tabs and exercises are found by the names that people know."""

from __future__ import annotations

import pytest
from textual.command import Command, CommandList, Hit
from textual.geometry import Size
from textual.pilot import Pilot

from gpututor.app.commands import BY_ID, DEVICE_TABS, Pane
from gpututor.app.screens.history import HistoryScreen
from gpututor.app.screens.jump import JumpScreen
from gpututor.app.screens.palette import CommandProvider, PaletteScreen
from gpututor.app.screens.settings import SettingsScreen
from gpututor.app.screens.trace import TABS, DeviceScreen
from tests.support.apps import AppEnv, main_screen, run_checks, until, until_shown
from tests.support.random_actions import key_event
from tests.support.recorded_runs import is_read

OTHER_NAMES = {id: command.palette or () for id, command in BY_ID.items()}

WANTED = {
    **{title.lower(): title for title in DEVICE_TABS},
    **{command.title.lower(): command.title for command in BY_ID.values()},
    **{name: f"{BY_ID[id].title} ({name})" for id, names in OTHER_NAMES.items() for name in names},
    "export": "Export trace",
    "colours": "Theme (colours)",
}
"""What people type, and what they find first."""


def list_of(pilot: Pilot[None]) -> CommandList:
    """What the palette found."""
    return pilot.app.screen.query_one(CommandList)


async def test_everything_is_found_by_the_names_that_people_know(pilot: Pilot[None]) -> None:
    provider = CommandProvider(main_screen(pilot))
    for words, title in WANTED.items():
        hits = [hit async for hit in provider.search(words) if isinstance(hit, Hit)]
        best = max(hits, key=lambda hit: hit.score, default=None)
        assert best is not None, words
        assert best.text == title, words
        assert len({hit.command for hit in hits}) == len(hits), "one line each"


async def test_enter_twice_in_one_moment_does_one_thing(pilot: Pilot[None]) -> None:
    for _ in range(2):
        await pilot.press("ctrl+p", *"settings")
        await until_shown(pilot, "Settings")
        await until(pilot, lambda: list_of(pilot).highlighted == 0, "for the list")
        for _ in range(4):
            pilot.app.post_message(key_event("enter"))
        await until(pilot, lambda: isinstance(pilot.app.screen, SettingsScreen), "for the settings")
        await pilot.pause()
        assert len(pilot.app.screen_stack) == 2
        await pilot.press("escape")
        await until(pilot, lambda: main_screen(pilot).is_active, "for the main screen")


@pytest.mark.long
async def test_a_theme_is_chosen_by_its_name_however_often_enter_comes(pilot: Pilot[None]) -> None:
    await pilot.press("ctrl+p", *"colours")
    await until(pilot, lambda: list_of(pilot).highlighted == 0, "for the list")
    await pilot.press("enter")
    await until_shown(pilot, "Type a theme's name")
    await pilot.press(*"nord")
    await until(pilot, lambda: list_of(pilot).option_count == 1, "for the theme")
    for key in ("ctrl+p", *["enter"] * 4):
        pilot.app.post_message(key_event(key))
    await until(pilot, lambda: main_screen(pilot).is_active, "for the main screen")
    await until(pilot, lambda: pilot.app.theme == "nord", "for the theme")
    await pilot.pause()
    assert len(pilot.app.screen_stack) == 1


async def test_a_page_of_what_is_not_laid_out_yet_is_not_turned(pilot: Pilot[None]) -> None:
    await pilot.press("ctrl+p")
    await until(pilot, lambda: list_of(pilot).highlighted == 0, "for the list")
    palette, found = pilot.app.screen, list_of(pilot)
    assert isinstance(palette, PaletteScreen)
    for turn in ("page_down", "page_up"):
        found.display = False
        await until(pilot, lambda: not found.size, "for the list to go")
        palette._refresh_command_list(found, [one for one in found.options if isinstance(one, Command)], True)
        found.display = True
        palette._action_command_list(turn)
        assert found.highlighted == 0
    await until(pilot, lambda: bool(found.size), "for the list to be laid out")
    await pilot.press("pagedown")
    assert list_of(pilot).highlighted, "a page on"


def test_other_names_are_of_commands_and_nobody_elses() -> None:
    titles = {command.title.lower() for command in BY_ID.values()} | {title.lower() for title in DEVICE_TABS}
    names = [name.lower() for names in OTHER_NAMES.values() for name in names]
    assert len(names) == len(set(names))
    assert not set(names) & titles


@pytest.mark.parametrize("title", DEVICE_TABS)
async def test_a_tab_of_the_device_screen_is_opened_by_its_name(pilot: Pilot[None], title: str) -> None:
    await run_checks(pilot)
    await pilot.press("ctrl+p", *title.lower())
    await until_shown(pilot, DEVICE_TABS[title])
    await pilot.press("enter")
    await until(pilot, lambda: isinstance(pilot.app.screen, DeviceScreen), "for the screen")
    screen = pilot.app.screen
    assert isinstance(screen, DeviceScreen)
    await until(pilot, lambda: is_read(screen), "for the tab")
    assert TABS[screen.tabs.number] == title


@pytest.mark.long
async def test_another_name_of_a_command_does_the_same(pilot: Pilot[None]) -> None:
    await run_checks(pilot)
    await pilot.press("ctrl+p", *"history")
    await until_shown(pilot, "Attempts (history)")
    await pilot.press("enter")
    await until(pilot, lambda: isinstance(pilot.app.screen, HistoryScreen), "for the attempts")


async def test_it_takes_the_place_of_jump_letters(pilot: Pilot[None]) -> None:
    await pilot.press("semicolon")
    await until(pilot, lambda: isinstance(pilot.app.screen, JumpScreen), "for the letters")
    await pilot.press("ctrl+p", *"attempts")
    await until_shown(pilot, "See your attempts and their changes.")
    await pilot.press("escape")
    await until(pilot, lambda: pilot.app.screen is main_screen(pilot), "for the end of both")


@pytest.mark.long
@pytest.mark.parametrize("key", ["a", "d", "V"])
async def test_on_another_screen_it_leaves_that_for_what_is_chosen(pilot: Pilot[None], key: str) -> None:
    await run_checks(pilot)
    await pilot.press(key)
    await until(pilot, lambda: pilot.app.screen is not main_screen(pilot) or key == "V", "for the screen")
    await pilot.press("ctrl+p", *"lesson")
    await until_shown(pilot, BY_ID["show_lesson"].help)
    await pilot.press("enter")
    await until(pilot, lambda: main_screen(pilot).panes.current is Pane.LESSON, "for the lesson")
    assert pilot.app.screen is main_screen(pilot)


async def test_over_a_question_it_offers_only_to_leave(pilot: Pilot[None]) -> None:
    await pilot.press("x")
    await until_shown(pilot, "No, keep it")
    titles = [entry.title for entry in CommandProvider(pilot.app.screen).entries()]
    assert titles == ["Back", "Quit", "Theme"]
    await pilot.press("ctrl+p", *"back", "enter")
    await until(pilot, lambda: pilot.app.screen is main_screen(pilot), "for the end")


async def test_keys_stand_beside_what_they_do(pilot: Pilot[None]) -> None:
    await pilot.press("ctrl+p", *"compare")
    await until_shown(pilot, "Compare   V  Shift+F11")


async def test_without_colours_what_is_below_it_is_dim(env: AppEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with env.start() as pilot:
        await pilot.press("ctrl+p")
        await until_shown(pilot, "Type a name")
        top = pilot.app.screen._compositor.render_strips(Size(*pilot.app.size))[0]
        assert all(each.style is not None and each.style.dim and not each.style.reverse for each in top)
