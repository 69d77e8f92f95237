"""Text that others wrote, as a widget."""

from __future__ import annotations

from textual.visual import VisualType
from textual.widgets import Static

from gpututor.plain_text import visible


class PlainText(Static, can_focus=False):
    """Text from anywhere: never markup, and nothing in it reaches the terminal as a command."""

    def __init__(self, text: str, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(visible(text), markup=False, id=id, classes=classes)

    def update(self, content: VisualType = "", *, layout: bool = True) -> None:
        super().update(visible(content) if isinstance(content, str) else content, layout=layout)

    def retell(self, text: str) -> None:
        """Say something else, often: everything is laid out anew (20 ms) only where it takes more or fewer lines.

        For a text as wide as its place, whatever it says.
        """
        self.update(text, layout=False)
        self.clear_cached_dimensions()
        width, height = self.content_size
        if self.get_content_height(self.container_size, self.app.size, width) != height:
            self.refresh(layout=True)
