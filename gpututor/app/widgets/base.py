"""Small widgets that others use: plain text and rows of options."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

from textual.content import Content
from textual.visual import VisualType
from textual.widget import Widget
from textual.widgets import OptionList, Static

from gpututor.text import escape_control_chars


def marked(content: Content, spans: Iterable[tuple[int, int]], *, no_color: bool) -> Content:
    """Return a text with its parts that fit a query marked."""
    for start, end in spans:
        content = content.stylize("underline" if no_color else "$text-accent bold", start, end)
    return content


class OptionRows(OptionList):
    """Option list that ignores page keys before it is laid out."""

    def action_page_up(self) -> None:
        with contextlib.suppress(KeyError, IndexError):
            super().action_page_up()  # type: ignore[no-untyped-call]  # as Textual has it

    def action_page_down(self) -> None:
        with contextlib.suppress(KeyError, IndexError):
            super().action_page_down()  # type: ignore[no-untyped-call]


def restyle(widget: Widget, together: Iterable[Widget], *, animate: bool) -> None:
    """Update the styles of the widgets `together` after a change of a widget's state, in its `update_node_styles`.

    Textual restyles all descendants: 30 to 100 ms for a lesson's two hundred widgets, at each change of the focus. So
    no style sheet may have a rule for descendants of such a widget that depends on its state, nor `:focus-within`.
    """
    if widget.is_attached:
        widget.app.stylesheet.update_nodes(together, animate=animate)


class PlainText(Static, can_focus=False):
    """Text from any source: never markup, and without control characters."""

    def __init__(self, text: str, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(escape_control_chars(text), markup=False, id=id, classes=classes)

    def update(self, content: VisualType = "", *, layout: bool = True) -> None:
        super().update(escape_control_chars(content) if isinstance(content, str) else content, layout=layout)

    def update_often(self, text: str) -> None:
        """Show another text of the same width, and lay everything out again (20 ms) only if its height changes."""
        self.update(text, layout=False)
        self.clear_cached_dimensions()
        width, height = self.content_size
        if self.get_content_height(self.container_size, self.app.size, width) != height:
            self.refresh(layout=True)
