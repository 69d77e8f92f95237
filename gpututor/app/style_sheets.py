"""The style sheets of `styles`, one a room: which are read before the first paint, and which after it."""

from __future__ import annotations

from pathlib import Path

from textual.css.stylesheet import Stylesheet

FIRST = ("panes", "course", "reader", "search", "results", "dialogs", "themes")
"""What is on the screen at the first paint, or may come at once; of equal rules the later one holds."""
LATER = ("editor", "welcome", "settings", "around", "device", "figures", "history")
"""Of what comes after it: 12 ms of reading."""
CLASSROOM = "classroom"
"""Of the instructor's screens alone."""


def path_of(name: str) -> Path:
    return Path(__file__).with_name("styles") / f"{name}.tcss"


def read_later(sheet: Stylesheet) -> None:
    """Know all sheets. What is on the screen already needs none of these."""
    if not sheet.has_source(str(path_of(LATER[0]))):
        sheet.read_all([path_of(name) for name in LATER])
        sheet.parse()
