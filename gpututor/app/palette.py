"""The palette: commands first, then the exercises in the order of the course, then the rest."""

from __future__ import annotations

from rich.text import Text
from textual.app import SystemCommand
from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.markup import escape


class CommandsAndExercises(Provider):
    """Offers what the app says that there is, in its order. Names are no markup: a course may write what it likes."""

    async def discover(self) -> Hits:
        for command in self._offered():
            yield DiscoveryHit(Text(command.title), command.callback, text=command.title, help=escape(command.help))

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for number, command in enumerate(self._offered()):
            score, places = matcher.fuzzy_search.match(query, command.title)
            if not score:
                continue
            title = Text(command.title)
            for place in places:
                title.stylize(self._style, place, place + 1)
            # So little keeps equal ones in their order, and no others.
            yield Hit(score - number * 1e-9, title, command.callback, text=command.title, help=escape(command.help))

    def _offered(self) -> list[SystemCommand]:
        return [command for command in self.app.get_system_commands(self.screen) if command.discover]

    @property
    def _style(self) -> str:
        return "underline bold" if self.app.no_color else "underline"
