"""The screen of the palette."""

from __future__ import annotations

from typing import Any

from textual.app import App
from textual.command import CommandPalette

from gpututor.app.screens.jump import JumpScreen
from gpututor.app.screens.once import DimBelow


class PaletteScreen(CommandPalette, DimBelow[None]):
    """Textual's, with what is below it behind it, also without colours."""


def open_palette(app: App[Any]) -> None:
    """Open it once. Jump letters go, as with any key that is none of theirs."""
    if isinstance(app.screen, JumpScreen):
        app.screen.dismiss(None)
    if not CommandPalette.is_open(app):
        app.push_screen(PaletteScreen(id="--command-palette", placeholder="Type a name"))
