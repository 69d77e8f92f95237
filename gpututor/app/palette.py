"""Entries of the learner's palette: commands, the trace screen's tabs, exercises in the order of the course."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from textual.screen import ModalScreen, Screen

from gpututor.app.commands import BY_ID, COMMANDS, DEVICE_TABS, Pane, shown_keys
from gpututor.app.main.screen import MainScreen
from gpututor.app.screens.palette import Entry


def learner_entries(screen: Screen[Any]) -> Iterator[Entry]:
    """Yield the entries of the learner's app while `screen` is shown."""
    app = screen.app
    main = next((below for below in app.screen_stack if isinstance(below, MainScreen)), None)
    if main is not None and screen is main:
        yield from _main_entries(main)
    else:
        if screen is not app.screen_stack[0]:
            yield Entry("Back", "Leave what is shown here.", partial(app.simulate_key, "escape"), (), "Esc")
        if hasattr(screen, "action_help"):
            yield Entry("Help here", "What is shown, and the keys.", partial(screen.run_action, "help"), (), "?")
        if main is not None and not isinstance(screen, ModalScreen):
            for entry in _main_entries(main):
                yield replace(entry, act=partial(_leave_for, main, entry.act))
        else:
            yield Entry("Quit", BY_ID["leave"].help, app.action_quit, (), shown_keys(BY_ID["leave"]))
    yield Entry("Theme", "Choose other colours.", app.action_change_theme, ("colours",))


def _leave_for(main: MainScreen, act: Callable[[], object]) -> None:
    """Leave the screens above the main one, then act there."""
    for screen in reversed(main.app.screen_stack):
        if screen is main:
            break
        screen.dismiss(None)
    main.call_later(act)


def _main_entries(main: MainScreen) -> Iterator[Entry]:
    for command in COMMANDS:
        act = partial(main.action_run_command, command.id)
        yield Entry(command.title, command.help, act, command.palette or (), shown_keys(command))
    for tab, (title, sentence) in enumerate(DEVICE_TABS.items()):
        yield Entry(title, sentence, partial(main.attempts.show_device, tab))
    for exercise in main.learner.course.exercises:
        open_it = partial(main.navigator.open_exercise, exercise, Pane.TASK)
        yield Entry(f"{exercise.label} {exercise.title}", exercise.summary, open_it)
