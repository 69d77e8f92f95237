"""The command palette: the app has its entries, Textual its list."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

from rich.text import Text
from textual import on
from textual.app import App
from textual.command import CommandPalette, DiscoveryHit, Hit, Hits, Provider
from textual.content import Content
from textual.css.query import NoMatches
from textual.markup import escape
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Input, OptionList
from textual.worker import Worker

from gpututor.app.screens.base import BaseModal
from gpututor.app.screens.jump import JumpScreen
from gpututor.fuzzy import marks, ranked
from gpututor.settings import prepare_to_write


@dataclass(frozen=True)
class PaletteEntry:
    """An entry of the palette."""

    title: str
    sentence: str
    act: Callable[[], object]
    other_names: tuple[str, ...] = ()
    keys: str = ""
    """Keys of the same command outside the palette."""


class PaletteSource(Protocol):
    """An app with entries for the palette."""

    def palette_entries(self, screen: Screen[Any], query: str) -> Iterator[PaletteEntry]: ...


class CommandProvider(Provider):
    """Provider of the app's entries, in their order. Names are plain text, as a course may contain any characters."""

    async def discover(self) -> Hits:
        for entry in self.entries():
            yield DiscoveryHit(
                _shown(Text(entry.title), entry), entry.act, text=entry.title, help=escape(entry.sentence)
            )

    async def search(self, query: str) -> Hits:
        names = (
            (entry, name)
            for entry in self.entries(query)
            for name in (entry.title, *(f"{entry.title} ({other})" for other in entry.other_names))
        )
        listed: set[int] = set()
        for number, ((entry, name), _) in enumerate(ranked(query, names, lambda named: (named[1],))):
            if id(entry) in listed:
                continue
            listed.add(id(entry))
            title = Text(name)
            for start, end in marks(query, name):
                title.stylize(self._style, start, end)
            yield Hit(-number, _shown(title, entry), entry.act, text=name, help=escape(entry.sentence))

    def entries(self, query: str = "") -> Iterator[PaletteEntry]:
        """List the entries of the open list, or else for the screen that is shown; some depend on `query`."""
        palette = self.app.screen
        if isinstance(palette, PaletteScreen) and palette.entries is not None:
            return iter(palette.entries)
        prepare_to_write()  # the learner may choose another theme
        return cast("PaletteSource", self.app).palette_entries(self.screen, query)

    @property
    def _style(self) -> str:
        return "underline bold" if self.app.no_color else "underline"


class PaletteScreen(CommandPalette, BaseModal[None]):
    """Textual's palette, which also dims the screen below without colors, and runs one command."""

    def __init__(self, placeholder: str, entries: Sequence[PaletteEntry] | None = None) -> None:
        """`entries`: what to list instead of all commands."""
        super().__init__([CommandProvider], id="--command-palette", placeholder=placeholder)
        self.entries = entries

    def run_worker(self, work: Any, *args: Any, **options: Any) -> Worker[Any]:
        """Run a search, which finds no list if the palette is closed before it begins."""

        async def search() -> None:
            with contextlib.suppress(NoMatches):
                await work()

        return super().run_worker(search, *args, **options)

    @on(Input.Submitted)
    @on(OptionList.OptionSelected)
    def _choose_once(self, message: Message) -> None:
        """Ignore the second of two keys that arrive together."""
        if not self.is_active:
            message.stop()
            message.prevent_default()

    def _action_command_list(self, action: str) -> None:
        with contextlib.suppress(KeyError, IndexError):  # a page turned before the options are laid out
            super()._action_command_list(action)


def open_palette(app: App[Any]) -> None:
    """Open the palette unless it is open; close the jump letters, as any other key does."""
    if isinstance(app.screen, JumpScreen):
        app.screen.dismiss(None)
    if not CommandPalette.is_open(app):
        app.push_screen(PaletteScreen("Type a name"))


def open_contents(app: App[Any], entries: Sequence[PaletteEntry]) -> None:
    """Open the palette with the sections of a text alone."""
    app.push_screen(PaletteScreen("Type a section's name", entries))


def _shown(title: Text, entry: PaletteEntry) -> str:
    """Return the title and the keys as Textual's markup, which knows the theme's colors."""
    keys = (f"   {entry.keys}", "$foreground-muted") if entry.keys else ""
    return Content.assemble(Content.from_rich_text(title), keys).markup
