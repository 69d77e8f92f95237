"""Small widgets that others are made of: plain text and rows of options."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable

from textual.visual import VisualType
from textual.widget import Widget
from textual.widgets import OptionList, Static

from gpututor.text import escape_control_chars


def turn_page(turn: Callable[[], object]) -> None:
    """Turn a page of a list of options; ignore a key that comes before the list is laid out and knows its lines."""
    with contextlib.suppress(KeyError, IndexError):
        turn()


class OptionRows(OptionList):
    """Textual's list, for keys that arrive before it is laid out."""

    def action_page_up(self) -> None:
        turn_page(super().action_page_up)

    def action_page_down(self) -> None:
        turn_page(super().action_page_down)


def restyle(widget: Widget, together: Iterable[Widget], *, animate: bool) -> None:
    """Restyle a widget's classes, focus and hover for the widgets `together` alone: an `update_node_styles`.

    Textual restyles all that is inside as well: 30 to 100 ms for a lesson's two hundred widgets, at each change of the
    focus. So no style sheet may have a rule for what is inside such a widget that depends on its state; and none has
    `:focus-within`, for which Textual restyles all that is inside whenever the focus changes.
    """
    if widget.is_attached:
        widget.app.stylesheet.update_nodes(together, animate=animate)


class PlainText(Static, can_focus=False):
    """Text from anywhere: never markup, and nothing in it reaches the terminal as a command."""

    def __init__(self, text: str, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(escape_control_chars(text), markup=False, id=id, classes=classes)

    def update(self, content: VisualType = "", *, layout: bool = True) -> None:
        super().update(escape_control_chars(content) if isinstance(content, str) else content, layout=layout)

    def retell(self, text: str) -> None:
        """Say something else, often: everything is laid out anew (20 ms) only where it takes more or fewer lines.

        For a text as wide as its place, whatever it says.
        """
        self.update(text, layout=False)
        self.clear_cached_dimensions()
        width, height = self.content_size
        if self.get_content_height(self.container_size, self.app.size, width) != height:
            self.refresh(layout=True)
