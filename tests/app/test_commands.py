"""The table of commands: keys, bars, help and the palette of every screen."""

from __future__ import annotations

import importlib
import pkgutil
from operator import attrgetter
from typing import Any

import pytest
from textual.command import Command, CommandList, Hit
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Input, OptionList

import gpututor.app
from gpututor.app.app import GpututorApp
from gpututor.app.base import BaseApp
from gpututor.app.classroom.class_screen import ClassScreen
from gpututor.app.commands import (
    BY_ID,
    COMMANDS,
    SCREENS,
    WIDGETS,
    Pane,
    bar,
    bindings,
    foot,
    help_keys,
    screen_bindings,
)
from gpututor.app.main.copying import COPIES
from gpututor.app.screens.jump import JumpScreen
from gpututor.app.screens.palette import CommandProvider, PaletteScreen
from gpututor.app.screens.settings import SettingsScreen
from gpututor.app.screens.trace import TABS, DeviceScreen
from tests.support.apps import main_screen, run_checks, until, until_on, until_shown
from tests.support.parameters import mostly_long
from tests.support.random_actions import key_event
from tests.support.recorded_runs import is_read

SCREEN_CLASSES = {
    "main": "MainScreen",
    "trace": "DeviceScreen",
    "compare": "CompareScreen",
    "what_if": "WhatIfScreen",
    "history": "HistoryScreen",
    "devices": "DevicesScreen",
    "progress": "ProgressScreen",
    "search": "SearchScreen",
    "mark": "MarkDialog",
    "settings": "SettingsScreen",
    "editor": "EditorDialog",
    "themes": "ThemeDialog",
    "text": "TextScreen",
    "all_text": "AllTextScreen",
    "diff": "DiffDialog",
    "finished": "FinishedScreen",
    "welcome": "WelcomeScreen",
    "question": "QuestionDialog",
    "class": "ClassScreen",
    "submission": "SubmissionScreen",
}
WIDGET_CLASSES = {
    "chart": "Chart",
    "timeline": "Chart Timeline",
    "timelines": "Chart TimelinesPage",
    "memory": "MemoryTab",
    "list": "ListTab",
    "lines": "ListTab LinesTab",
    "scrolling": "ScrollableText",
    "attempts": "AttemptList",
    "marks": "MarksTable",
    "filter": "FilterLine",
    "course": "CourseList CoursePane",
    "course_filter": "CourseFilter",
    "reader": "Reader",
    "code": "",
    "results": "Results CheckRow",
    "long_text": "LongText",
    "submission_text": "SubmissionText",
}
"""Names of the widgets that bind the keys of a table together."""
PACKAGES = ("gpututor.app.trace_view.", "gpututor.app.screens.", "gpututor.app.classroom.", "gpututor.app.widgets.")
WITHOUT_A_TABLE = {"JumpScreen": "any key leaves it", "PaletteScreen": "Textual's own keys"}


def classes_of_the_app() -> list[type]:
    names = [module.name for module in pkgutil.walk_packages(gpututor.app.__path__, "gpututor.app.")]
    modules = [importlib.import_module(name) for name in names if "child" not in name]
    return [
        kind
        for module in modules
        for kind in vars(module).values()
        if isinstance(kind, type) and kind.__module__ == module.__name__
    ]


BY_NAME = {kind.__name__: kind for kind in classes_of_the_app()}
CLASSES: dict[str, type[Screen[Any]]] = {table: BY_NAME[name] for table, name in SCREEN_CLASSES.items()}
OWNERS: dict[str, tuple[type[Widget], ...]] = {
    table: tuple(BY_NAME[name] for name in names.split()) for table, names in WIDGET_CLASSES.items()
}


def test_every_screen_and_widget_with_keys_has_a_table() -> None:
    assert CLASSES.keys() == SCREENS.keys()
    screens = {kind.__name__ for kind in classes_of_the_app() if issubclass(kind, Screen)} - {"BaseScreen", "BaseModal"}
    assert screens == {kind.__name__ for kind in CLASSES.values()} | WITHOUT_A_TABLE.keys()
    assert OWNERS.keys() == WIDGETS.keys()
    with_keys = {
        kind
        for kind in classes_of_the_app()
        if issubclass(kind, Widget) and not issubclass(kind, Screen) and kind.__module__.startswith(PACKAGES)
        if "BINDINGS" in vars(kind)
    }
    assert with_keys == {owner for owners in OWNERS.values() for owner in owners}


@pytest.mark.parametrize("name", OWNERS)
def test_widgets_bind_the_keys_of_their_table_and_no_others(name: str) -> None:
    declared = screen_bindings(name)
    bound = [binding for owner in OWNERS[name] for binding in vars(owner)["BINDINGS"]]
    keys = [binding.key for binding in declared]  # type: ignore[union-attr]
    assert len(keys) == len(set(keys))
    assert all(binding in bound for binding in declared)
    if name != "timelines":  # it names the keys of the chart that matter there
        assert all(binding in declared for binding in bound)


@pytest.mark.parametrize("name", CLASSES)
def test_a_screen_binds_the_keys_of_its_table_and_no_others(name: str) -> None:
    declared = list(bindings()) if name == "main" else screen_bindings(name)
    assert vars(CLASSES[name])["BINDINGS"] == declared
    keys = [binding.key for binding in declared]  # type: ignore[union-attr]
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize("name", [*CLASSES, *OWNERS])
def test_each_command_has_a_title_a_sentence_and_a_handler(name: str) -> None:
    commands = (SCREENS | WIDGETS)[name]
    assert len({command.id for command in commands}) == len(commands)
    app = GpututorApp if name != "class" else BaseApp
    own: tuple[type, ...] = OWNERS[name] if name in OWNERS else (CLASSES[name],)
    owners = {"app": (app,), "screen": (ClassScreen,), "": own}
    for command in commands:
        assert command.title, command
        assert command.help.endswith("."), command
        assert command.bound or command.keys or command.bar or command.shown, "no user would know of it"
        for _, action in command.bound if name != "main" else ():
            namespace, _, method = action.partition("(")[0].rpartition(".")
            assert any(callable(getattr(owner, f"action_{method}", None)) for owner in owners[namespace]), action


async def test_each_command_of_the_main_screen_has_a_handler(pilot: Pilot[None]) -> None:
    screen = main_screen(pilot)
    assert all(callable(attrgetter(command.handler)(screen)) for command in COMMANDS)


@pytest.mark.parametrize("name", [name for name in (*CLASSES, *OWNERS) if name != "main"])
def test_bars_and_help_name_what_is_declared(name: str) -> None:
    commands = (SCREENS | WIDGETS)[name]
    assert [(hint.key, hint.title) for hint in bar(name)] == [each.bar for each in commands if each.bar]
    assert all(hint.key in foot(name) and hint.title in foot(name) for hint in bar(name))
    rows = help_keys(name)
    assert [sentence for _, sentence in rows] == [command.help for command in commands]
    assert all(keys.strip() and "_" not in keys for keys, _ in rows), rows
    assert len(help_keys(name, commands[0].id)) == len(rows) - 1


def test_titles_and_other_names_of_the_palette_are_unique() -> None:
    for commands in SCREENS.values():
        titles = [command.title for command in commands if command.palette is not None]
        assert len(titles) == len(set(titles))
    lowered = {command.title.lower() for command in BY_ID.values()} | {title.lower() for title in DEVICE_TABS}
    names = [name.lower() for names in OTHER_NAMES.values() for name in names]
    assert len(names) == len(set(names))
    assert not set(names) & lowered


DEVICE_TABS = {tab.title: tab.about for tab in TABS}
OTHER_NAMES = {id: command.palette or () for id, command in BY_ID.items()}

WANTED = {
    **{title.lower(): title for title in (*DEVICE_TABS, *COPIES)},
    **{command.title.lower(): command.title for command in BY_ID.values()},
    **{name: f"{BY_ID[id].title} ({name})" for id, names in OTHER_NAMES.items() for name in names},
    "export": "Export trace",
    "colours": "Theme (colours)",
    "dark": "Theme (dark)",
    **{title.lower(): f"Setting: {title}" for title in ("Vim keys", "Streak", "Wrap lines")},
    "vim": "Setting: Vim keys",
    "undo": "Undo",
}
"""Typed words, and the title of the best hit."""


def list_of(pilot: Pilot[None]) -> CommandList:
    """Return the list of the palette's hits."""
    return pilot.app.screen.query_one(CommandList)


async def test_everything_is_found_by_the_names_that_people_know(pilot: Pilot[None]) -> None:
    provider = CommandProvider(main_screen(pilot))
    for words, title in WANTED.items():
        hits = [hit async for hit in provider.search(words) if isinstance(hit, Hit)]
        best = max(hits, key=lambda hit: hit.score, default=None)
        assert best is not None, words
        assert best.text == title, words
        assert len({hit.command for hit in hits}) == len(hits), "one line each"


async def test_the_palette_acts_once_over_any_screen_and_names_keys(pilot: Pilot[None]) -> None:
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
    await pilot.press("semicolon")
    await until(pilot, lambda: isinstance(pilot.app.screen, JumpScreen), "for the letters")
    await pilot.press("ctrl+p", *"attempts")
    await until_shown(pilot, "See your attempts and their changes.")
    await pilot.press("escape")
    await until(pilot, lambda: pilot.app.screen is main_screen(pilot), "for the end of both")
    await pilot.press("x")
    await until_shown(pilot, "No, keep it")
    titles = [entry.title for entry in CommandProvider(pilot.app.screen).entries()]
    assert titles == ["Back", "Quit", "Theme"]
    await pilot.press("ctrl+p", *"back", "enter")
    await until(pilot, lambda: pilot.app.screen is main_screen(pilot), "for the end")
    await pilot.press("ctrl+p", *"compare")
    await until_shown(pilot, "Compare   V  Shift+F11")


async def test_a_setting_is_opened_by_its_name(pilot: Pilot[None]) -> None:
    await pilot.press("ctrl+p", *"vim")
    await until_shown(pilot, "Setting: Vim keys")
    await until(pilot, lambda: list_of(pilot).highlighted == 0, "for the list")
    await pilot.press("enter")
    await until_on(pilot, SettingsScreen)
    await until_shown(pilot, "Vim's keys in the editor")
    await pilot.press("right")
    assert main_screen(pilot).learner.settings.now.vim


async def test_undo_from_another_pane_shows_the_code(pilot: Pilot[None]) -> None:
    screen = main_screen(pilot)
    await pilot.press("e", *"# new", "escape")
    before = screen.editor_text
    assert not screen.takes_letters
    await pilot.press("ctrl+z")
    await until(pilot, lambda: "# new" not in screen.editor_text, "for the undo")
    assert screen.is_in_editor
    await pilot.press("ctrl+y")
    await until(pilot, lambda: screen.editor_text == before, "for the redo")


@pytest.mark.long
async def test_a_theme_is_chosen_by_its_name_however_often_enter_comes(pilot: Pilot[None]) -> None:
    await pilot.press("ctrl+p", *"colours")
    await until(pilot, lambda: list_of(pilot).highlighted == 0, "for the list")
    await pilot.press("enter")
    await until_shown(pilot, "↓ ↑ previews")
    await pilot.press("G", "k")
    for key in ("ctrl+p", *["enter"] * 4):
        pilot.app.post_message(key_event(key))
    await until(pilot, lambda: main_screen(pilot).is_active, "for the main screen")
    await until(pilot, lambda: pilot.app.theme == "textual-light", "for the theme")
    await pilot.pause()
    assert len(pilot.app.screen_stack) == 1


async def test_a_page_of_what_is_not_laid_out_yet_is_not_turned(pilot: Pilot[None]) -> None:
    await pilot.press("ctrl+p")
    await until(pilot, lambda: list_of(pilot).highlighted == 0, "for the list")
    palette, options = pilot.app.screen, list_of(pilot)
    assert isinstance(palette, PaletteScreen)
    for turn in ("page_down", "page_up"):
        options.display = False
        await until(pilot, lambda: not options.size, "for the list to go")
        palette._refresh_command_list(
            options, [option for option in options.options if isinstance(option, Command)], True
        )
        options.display = True
        palette._action_command_list(turn)
        assert options.highlighted == 0
    await until(pilot, lambda: bool(options.size), "for the list to be laid out")
    await pilot.press("pagedown")
    assert list_of(pilot).highlighted, "a page on"


@pytest.mark.parametrize("title", mostly_long(DEVICE_TABS, list(DEVICE_TABS)[:2]))
async def test_a_tab_of_the_device_screen_is_opened_by_its_name(pilot: Pilot[None], title: str) -> None:
    await run_checks(pilot)
    await pilot.press("ctrl+p", *title.lower())
    await until_shown(pilot, DEVICE_TABS[title])
    await pilot.press("enter")
    screen = await until_on(pilot, DeviceScreen)
    await until(pilot, lambda: is_read(screen), "for the tab")
    assert TABS[screen.tabs.number].title == title


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


async def test_a_search_without_its_list_leaves_the_app_alone(pilot: Pilot[None]) -> None:
    await pilot.press("ctrl+p")
    palette = pilot.app.screen
    await palette.query_one(OptionList).remove()
    palette.query_one(Input).value = "settings"
    await pilot.pause()
    await pilot.app.workers.wait_for_complete()
    palette.dismiss(None)
    await pilot.pause()
    assert pilot.app.is_running
    assert pilot.app.screen is main_screen(pilot)
