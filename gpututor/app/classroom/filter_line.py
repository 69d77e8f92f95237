"""Where the words are typed by which the class is narrowed."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.widgets import Input


class FilterLine(Input):
    """One line of words; the arrows move the table's cursor meanwhile."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down", "screen.move(1)", show=False),
        Binding("up", "screen.move(-1)", show=False),
    ]
