"""Each key of each screen is declared once: with a title, a sentence and a handler; bars of keys and help name it."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

import pytest
from textual.screen import Screen
from textual.widget import Widget

import gpututor.app
from gpututor.app.app import GpututorApp
from gpututor.app.base import BaseApp
from gpututor.app.classroom.class_screen import ClassScreen, FilterLine
from gpututor.app.classroom.marks_table import MarksTable
from gpututor.app.classroom.submission_screen import SubmissionScreen
from gpututor.app.commands import FOOTERS, SCREENS, WIDGETS, bar, bindings, foot, help_keys, screen_bindings
from gpututor.app.main.screen import MainScreen
from gpututor.app.screens.base import QuestionDialog
from gpututor.app.screens.compare import CompareScreen
from gpututor.app.screens.devices import DevicesScreen
from gpututor.app.screens.diff import DiffDialog
from gpututor.app.screens.help import AllTextScreen, TextScreen
from gpututor.app.screens.history import AttemptList, HistoryScreen
from gpututor.app.screens.progress import ProgressScreen
from gpututor.app.screens.search import SearchScreen
from gpututor.app.screens.settings import SettingsScreen
from gpututor.app.screens.trace import DeviceScreen
from gpututor.app.screens.welcome import FinishedScreen, WelcomeScreen
from gpututor.app.trace_view.chart import Chart
from gpututor.app.trace_view.comparison import TimelinesPage
from gpututor.app.trace_view.lines_tab import LinesTab
from gpututor.app.trace_view.memory_tab import MemoryTab
from gpututor.app.trace_view.tabs import ListTab
from gpututor.app.trace_view.timeline_tab import Timeline
from gpututor.app.trace_view.times_tab import ScrollableText
from gpututor.app.widgets.course_list import CourseFilter, CourseList, CoursePane
from gpututor.app.widgets.output import LongText, SubmissionText
from gpututor.app.widgets.reader import Reader
from gpututor.app.widgets.results import CheckRow, Results

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
OWNERS: dict[str, tuple[type[Widget], ...]] = {
    "chart": (Chart,),
    "timeline": (Chart, Timeline),
    "timelines": (Chart, TimelinesPage),
    "memory": (MemoryTab,),
    "list": (ListTab,),
    "lines": (ListTab, LinesTab),
    "scrolling": (ScrollableText,),
    "attempts": (AttemptList,),
    "marks": (MarksTable,),
    "filter": (FilterLine,),
    "course": (CourseList, CoursePane),
    "course_filter": (CourseFilter,),
    "reader": (Reader,),
    "code": (),
    "results": (Results, CheckRow),
    "long_text": (LongText,),
    "submission_text": (SubmissionText,),
}
"""The widgets that bind the keys of a table together."""
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


def test_every_screen_has_a_table() -> None:
    assert CLASSES.keys() == SCREENS.keys()
    screens = {kind.__name__ for kind in classes_of_the_app() if issubclass(kind, Screen)} - {"BaseScreen", "BaseModal"}
    assert screens == {kind.__name__ for kind in CLASSES.values()} | WITHOUT_A_TABLE.keys()


def test_every_widget_with_keys_has_a_table() -> None:
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


@pytest.mark.parametrize("name", OWNERS)
def test_widget_commands_have_a_title_a_sentence_and_a_handler(name: str) -> None:
    assert len({command.id for command in WIDGETS[name]}) == len(WIDGETS[name])
    for command in WIDGETS[name]:
        assert command.title, command
        assert command.help.endswith("."), command
        for _, action in command.bound:
            namespace, _, method = action.partition("(")[0].rpartition(".")
            owners: tuple[type, ...] = (ClassScreen,) if namespace == "screen" else OWNERS[name]
            assert any(callable(getattr(owner, f"action_{method}", None)) for owner in owners), action
    assert [(hint.key, hint.title) for hint in bar(name)] == [each.bar for each in WIDGETS[name] if each.bar]
    assert all(keys.strip() and "_" not in keys for keys, _ in help_keys(name)), help_keys(name)


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
