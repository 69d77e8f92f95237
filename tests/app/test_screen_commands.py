"""Each key of each screen is declared once: with a title, a sentence and a handler; bars of keys and help name it."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

import pytest
from textual.screen import Screen

import gpututor.app
from gpututor.app.app import GpututorApp
from gpututor.app.base import BaseApp
from gpututor.app.classroom.class_screen import ClassScreen
from gpututor.app.classroom.submission_screen import SubmissionScreen
from gpututor.app.commands import FOOTERS, SCREENS, bar, bindings, foot, help_keys, screen_bindings
from gpututor.app.main.screen import MainScreen
from gpututor.app.screens.all_text import AllTextScreen
from gpututor.app.screens.base import QuestionDialog
from gpututor.app.screens.compare import CompareScreen
from gpututor.app.screens.devices import DevicesScreen
from gpututor.app.screens.diff import DiffDialog
from gpututor.app.screens.help import TextScreen
from gpututor.app.screens.history import HistoryScreen
from gpututor.app.screens.progress import ProgressScreen
from gpututor.app.screens.search import SearchScreen
from gpututor.app.screens.settings import SettingsScreen
from gpututor.app.screens.trace import DeviceScreen
from gpututor.app.screens.welcome import FinishedScreen, WelcomeScreen

CLASSES: dict[str, type[Screen[Any]]] = {
    "main": MainScreen,
    "trace": DeviceScreen,
    "compare": CompareScreen,
    "history": HistoryScreen,
    "devices": DevicesScreen,
    "progress": ProgressScreen,
    "search": SearchScreen,
    "settings": SettingsScreen,
    "text": TextScreen,
    "all_text": AllTextScreen,
    "diff": DiffDialog,
    "finished": FinishedScreen,
    "welcome": WelcomeScreen,
    "question": QuestionDialog,
    "class": ClassScreen,
    "submission": SubmissionScreen,
}
WITHOUT_A_TABLE = {"JumpScreen": "any key leaves it", "PaletteScreen": "Textual's own keys"}


def test_every_screen_has_a_table() -> None:
    assert CLASSES.keys() == SCREENS.keys()
    names = [module.name for module in pkgutil.walk_packages(gpututor.app.__path__, "gpututor.app.")]
    kinds = [kind for name in names if "child" not in name for kind in vars(importlib.import_module(name)).values()]
    screens = {
        kind.__name__
        for kind in kinds
        if isinstance(kind, type)
        and issubclass(kind, Screen)
        and kind.__module__.startswith("gpututor.app.")
        and kind.__name__ not in ("BaseScreen", "BaseModal")
    }
    assert screens == {kind.__name__ for kind in CLASSES.values()} | WITHOUT_A_TABLE.keys()


@pytest.mark.parametrize("name", CLASSES)
def test_a_screen_binds_the_keys_of_its_table_and_no_others(name: str) -> None:
    declared = list(bindings()) if name == "main" else screen_bindings(name)
    assert vars(CLASSES[name])["BINDINGS"] == declared
    keys = [binding.key for binding in declared]  # type: ignore[union-attr]
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize("name", CLASSES)
def test_each_command_has_a_title_a_sentence_and_a_handler(name: str) -> None:
    commands = SCREENS[name]
    assert len({command.id for command in commands}) == len(commands)
    for command in commands:
        assert command.title, command
        assert command.help.endswith("."), command
        assert command.bound or command.keys or command.bar or command.shown, "nobody would know of it"
        for _, action in command.bound if name != "main" else ():
            namespace, _, method = action.partition("(")[0].rpartition(".")
            owners: dict[str, type] = {"app": GpututorApp if name != "class" else BaseApp, "": CLASSES[name]}
            assert callable(getattr(owners[namespace], f"action_{method}")), action


@pytest.mark.parametrize("name", [name for name in CLASSES if name != "main"])
def test_bars_and_help_name_what_is_declared(name: str) -> None:
    assert [(hint.key, hint.title) for hint in bar(name)] == [each.bar for each in SCREENS[name] if each.bar]
    assert all(hint.key in foot(name) and hint.title in foot(name) for hint in bar(name))
    rows = help_keys(name)
    assert [sentence for _, sentence in rows] == [command.help for command in SCREENS[name]]
    assert all(keys.strip() and "_" not in keys for keys, _ in rows), rows
    first = SCREENS[name][0].id
    assert len(help_keys(name, first)) == len(rows) - 1


def test_footers_of_the_main_screen_name_its_commands() -> None:
    ids = {command.id for command in SCREENS["main"]}
    assert {id for footer in FOOTERS.values() for id in footer} <= ids


def test_in_the_palette_titles_are_unique() -> None:
    for commands in SCREENS.values():
        titles = [command.title for command in commands if command.palette is not None]
        assert len(titles) == len(set(titles))
