"""Entries of the learner's palette: commands, the trace screen's tabs, exercises in the order of the course."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from textual.screen import ModalScreen, Screen

from gpututor.app.commands import BY_ID, COMMANDS, DEVICE_TABS, OTHER_NAMES, Pane, shown_keys
from gpututor.app.main.screen import MainScreen
from gpututor.app.screens.palette import Entry


def learner_entries(screen: Screen[Any]) -> Iterator[Entry]:
    """List the entries of the learner's app while `screen` is shown."""
    app = screen.app
    desk = next((below for below in app.screen_stack if isinstance(below, MainScreen)), None)
    if desk is not None and screen is desk:
        yield from _of_desk(desk)
    else:
        if screen is not app.screen_stack[0]:
            yield Entry("Back", "Leave what is shown here.", partial(app.simulate_key, "escape"), (), "Esc")
        if hasattr(screen, "action_help"):
            yield Entry("Help here", "What is shown, and the keys.", partial(screen.run_action, "help"), (), "?")
        if desk is not None and not isinstance(screen, ModalScreen):
            for entry in _of_desk(desk):
                yield replace(entry, act=partial(_leave_for, desk, entry.act))
        else:
            yield Entry("Quit", BY_ID["leave"].help, app.action_quit, (), shown_keys(BY_ID["leave"]))
    yield Entry("Theme", "Choose other colours.", app.action_change_theme, ("colours",))


def _leave_for(desk: MainScreen, act: Callable[[], object]) -> None:
    """Leave the screens above the main one, then act there."""
    for screen in reversed(desk.app.screen_stack):
        if screen is desk:
            break
        screen.dismiss(None)
    desk.call_later(act)


def _of_desk(desk: MainScreen) -> Iterator[Entry]:
    for command in COMMANDS:
        act = partial(desk.run_command, command.id)
        yield Entry(command.title, command.help, act, OTHER_NAMES.get(command.id, ()), shown_keys(command))
    for tab, (title, sentence) in enumerate(DEVICE_TABS.items()):
        yield Entry(title, sentence, partial(desk.attempts.show_device, tab))
    for exercise in desk.learner.course.exercises:
        open_it = partial(desk.navigator.open_exercise, exercise, Pane.TASK)
        yield Entry(f"{exercise.label} {exercise.title}", exercise.summary, open_it)
