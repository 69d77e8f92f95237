"""The command palette: its entries come from the app, its list from Textual."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, cast

from rich.text import Text
from textual import on
from textual.app import App
from textual.command import CommandPalette, DiscoveryHit, Hit, Hits, Provider
from textual.markup import escape
from textual.message import Message
from textual.screen import Screen
from textual.theme import ThemeProvider
from textual.widgets import Input, OptionList

from gpututor.app.screens.base import BaseModal
from gpututor.app.screens.jump import JumpScreen
from gpututor.settings import prepare_to_write


@dataclass(frozen=True)
class Entry:
    """One entry of the palette."""

    title: str
    sentence: str
    act: Callable[[], object]
    other_names: tuple[str, ...] = ()
    keys: str = ""
    """Keys that do the same without the palette."""


class PaletteSource(Protocol):
    """An app with entries for the palette."""

    def palette_entries(self, screen: Screen[Any], query: str) -> Iterator[Entry]: ...


class CommandProvider(Provider):
    """Offers the entries of the app, in their order. Names are no markup: a course may write what it likes."""

    async def discover(self) -> Hits:
        for entry in self.entries():
            yield DiscoveryHit(
                _shown(Text(entry.title), entry), entry.act, text=entry.title, help=escape(entry.sentence)
            )

    async def search(self, query: str) -> Hits:
        match = self.matcher(query).fuzzy_search.match
        for number, entry in enumerate(self.entries(query)):
            names = (entry.title, *(f"{entry.title} ({name})" for name in entry.other_names))
            (score, places), name = max(((match(query, name), name) for name in names), key=lambda scored: scored[0][0])
            if not score:
                continue
            title = Text(name)
            for place in places:
                title.stylize(self._style, place, place + 1)
            # So little keeps equal ones in their order, and no others.
            yield Hit(score - number * 1e-9, _shown(title, entry), entry.act, text=name, help=escape(entry.sentence))

    def entries(self, query: str = "") -> Iterator[Entry]:
        """List the entries for the screen that is shown; some depend on `query`."""
        prepare_to_write()  # for another theme
        return cast("PaletteSource", self.app).palette_entries(self.screen, query)

    @property
    def _style(self) -> str:
        return "underline bold" if self.app.no_color else "underline"


class PaletteScreen(CommandPalette, BaseModal[None]):
    """Textual's palette, dimming the screen below also without colours. It does one thing, and goes once."""

    @on(Input.Submitted)
    @on(OptionList.OptionSelected)
    def _choose_once(self, message: Message) -> None:
        """Ignore the second of two keys that arrive in one moment."""
        if not self.is_active:
            message.stop()
            message.prevent_default()

    def _action_command_list(self, action: str) -> None:
        with contextlib.suppress(KeyError, IndexError):  # a page turned before the options are laid out
            super()._action_command_list(action)


def open_palette(app: App[Any]) -> None:
    """Open it once. Jump letters go, as with any key that is none of theirs."""
    if isinstance(app.screen, JumpScreen):
        app.screen.dismiss(None)
    if not CommandPalette.is_open(app):
        app.push_screen(PaletteScreen(id="--command-palette", placeholder="Type a name"))


def open_themes(app: App[Any]) -> None:
    """Open the palette with the names of themes only."""
    app.push_screen(PaletteScreen([ThemeProvider], placeholder="Type a theme's name"))


def _shown(title: Text, entry: Entry) -> Text:
    return Text.assemble(title, (f"   {entry.keys}", "dim")) if entry.keys else title
