"""Widgets with much in them, none of which changes its looks when the widget itself does."""

from __future__ import annotations

from collections.abc import Iterable

from textual.widget import Widget


class OwnStyle(Widget):
    """Its classes, its focus and the pointer over it are restyled for itself alone.

    Textual restyles all that is inside as well: 30 to 100 ms for a lesson's two hundred widgets, at each change of the
    focus. So no style sheet may have a rule for what is inside one of these that depends on its state; and none has
    `:focus-within`, for which Textual restyles all that is inside whenever the focus changes.

    It comes after the container among a class's bases: a widget has the default style of its first base alone.
    """

    def update_node_styles(self, animate: bool = True) -> None:
        if self.is_attached:
            self.app.stylesheet.update_nodes(self.styled_together(), animate=animate)

    def styled_together(self) -> Iterable[Widget]:
        """The widgets whose styles depend on this one's state."""
        return (self,)
