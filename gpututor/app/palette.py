"""The palette: commands first, then the device's tabs, the exercises in the order of the course, and the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from rich.text import Text
from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.markup import escape

from gpututor.app.commands import COMMANDS, DEVICE_TABS, OTHER_NAMES, Pane
from gpututor.app.main.screen import MainScreen
from gpututor.settings import prepare_to_write


@dataclass(frozen=True)
class Entry:
    """Something to choose."""

    title: str
    sentence: str
    act: Callable[[], object]
    other_names: tuple[str, ...] = ()


class Everything(Provider):
    """Offers all that there is, in its order. Names are no markup: a course may write what it likes."""

    async def discover(self) -> Hits:
        for entry in self.entries():
            yield DiscoveryHit(Text(entry.title), entry.act, text=entry.title, help=escape(entry.sentence))

    async def search(self, query: str) -> Hits:
        match = self.matcher(query).fuzzy_search.match
        for number, entry in enumerate(self.entries()):
            names = (entry.title, *(f"{entry.title} ({name})" for name in entry.other_names))
            (score, places), name = max(((match(query, name), name) for name in names), key=lambda found: found[0][0])
            if not score:
                continue
            title = Text(name)
            for place in places:
                title.stylize(self._style, place, place + 1)
            # So little keeps equal ones in their order, and no others.
            yield Hit(score - number * 1e-9, title, entry.act, text=name, help=escape(entry.sentence))

    def entries(self) -> Iterator[Entry]:
        """What there is now, in its order."""
        screen = self.screen
        if not isinstance(screen, MainScreen):
            return
        prepare_to_write()  # for another theme
        for command in COMMANDS:
            act = getattr(screen, f"action_{command.id}")
            yield Entry(command.title, command.help, act, OTHER_NAMES.get(command.id, ()))
        for tab, (title, sentence) in enumerate(DEVICE_TABS.items()):
            yield Entry(title, sentence, partial(screen.action_show_device, tab))
        for exercise in screen.learner.course.exercises:
            open_it = partial(screen.open_exercise, exercise, Pane.TASK)
            yield Entry(f"{exercise.label} {exercise.title}", exercise.summary, open_it)
        yield Entry("Theme", "Choose other colours.", self.app.action_change_theme, ("colours",))

    @property
    def _style(self) -> str:
        return "underline bold" if self.app.no_color else "underline"
