"""The screen of the palette."""

from __future__ import annotations

import contextlib
from typing import Any

from textual import on
from textual.app import App
from textual.command import CommandPalette
from textual.message import Message
from textual.theme import ThemeProvider
from textual.widgets import Input, OptionList

from gpututor.app.screens.jump import JumpScreen
from gpututor.app.screens.once import DimBelow, OnceScreen


class PaletteScreen(CommandPalette, DimBelow[None], OnceScreen[None]):
    """Textual's, with what is below it behind it, also without colours. It does one thing, and goes once."""

    @on(Input.Submitted)
    @on(OptionList.OptionSelected)
    def _choose_once(self, message: Message) -> None:
        """Of keys that arrive in one moment, the second finds it gone."""
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
    """The same for the names of themes only."""
    app.push_screen(PaletteScreen([ThemeProvider], placeholder="Type a theme's name"))
