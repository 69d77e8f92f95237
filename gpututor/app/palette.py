"""The palette: commands first, then the device's tabs, the exercises in the order of the course, and the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from rich.text import Text
from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.markup import escape
from textual.screen import ModalScreen

from gpututor.app.commands import BY_ID, COMMANDS, DEVICE_TABS, OTHER_NAMES, Pane, shown_keys
from gpututor.app.main.screen import MainScreen
from gpututor.app.screens.once import OnceScreen
from gpututor.settings import prepare_to_write


@dataclass(frozen=True)
class Entry:
    """Something to choose."""

    title: str
    sentence: str
    act: Callable[[], object]
    other_names: tuple[str, ...] = ()
    keys: str = ""
    """Those that do it without the palette."""


class Everything(Provider):
    """Offers all that there is, in its order. Names are no markup: a course may write what it likes."""

    async def discover(self) -> Hits:
        for entry in self.entries():
            yield DiscoveryHit(
                _shown(Text(entry.title), entry), entry.act, text=entry.title, help=escape(entry.sentence)
            )

    async def search(self, query: str) -> Hits:
        match = self.matcher(query).fuzzy_search.match
        for number, entry in enumerate(self.entries_for(query)):
            names = (entry.title, *(f"{entry.title} ({name})" for name in entry.other_names))
            (score, places), name = max(((match(query, name), name) for name in names), key=lambda found: found[0][0])
            if not score:
                continue
            title = Text(name)
            for place in places:
                title.stylize(self._style, place, place + 1)
            # So little keeps equal ones in their order, and no others.
            yield Hit(score - number * 1e-9, _shown(title, entry), entry.act, text=name, help=escape(entry.sentence))

    def entries_for(self, query: str) -> Iterator[Entry]:
        """Among what to search."""
        return self.entries()

    def entries(self) -> Iterator[Entry]:
        """What there is now, in its order."""
        prepare_to_write()  # for another theme
        screen = self.screen
        desk = next((below for below in self.app.screen_stack if isinstance(below, MainScreen)), None)
        if desk is not None and screen is desk:
            yield from _of_desk(desk)
        else:
            if isinstance(screen, OnceScreen):
                yield Entry("Back", "Leave what is shown here.", partial(self.app.simulate_key, "escape"), (), "Esc")
            if "question_mark" in screen._bindings.key_to_bindings:
                yield Entry("Help here", "What is shown, and the keys.", partial(screen.run_action, "help"), (), "?")
            if desk is not None and not isinstance(screen, ModalScreen):
                for entry in _of_desk(desk):
                    yield replace(entry, act=partial(self._leave_for, desk, entry.act))
            else:
                yield Entry("Quit", BY_ID["quit"].help, self.app.action_quit, (), shown_keys(BY_ID["quit"]))
        yield Entry("Theme", "Choose other colours.", self.app.action_change_theme, ("colours",))

    def _leave_for(self, desk: MainScreen, act: Callable[[], object]) -> None:
        """Do on the main screen what a screen above it does not."""
        for screen in reversed(self.app.screen_stack):
            if screen is desk:
                break
            screen.dismiss(None)
        desk.call_later(act)

    @property
    def _style(self) -> str:
        return "underline bold" if self.app.no_color else "underline"


def _of_desk(desk: MainScreen) -> Iterator[Entry]:
    for command in COMMANDS:
        act = getattr(desk, f"action_{command.id}")
        yield Entry(command.title, command.help, act, OTHER_NAMES.get(command.id, ()), shown_keys(command))
    for tab, (title, sentence) in enumerate(DEVICE_TABS.items()):
        yield Entry(title, sentence, partial(desk.action_show_device, tab))
    for exercise in desk.learner.course.exercises:
        open_it = partial(desk.open_exercise, exercise, Pane.TASK)
        yield Entry(f"{exercise.label} {exercise.title}", exercise.summary, open_it)


def _shown(title: Text, entry: Entry) -> Text:
    return Text.assemble(title, (f"   {entry.keys}", "dim")) if entry.keys else title
