"""All that a run said, where the results pane shows only the beginning of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical

from gpututor.app.screens.once import OnceModal
from gpututor.app.widgets.long_text import LongText
from gpututor.app.widgets.output import Section
from gpututor.app.widgets.plain import PlainText


class AllTextScreen(OnceModal[None]):
    """Scrolls; opens at one of the sections."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,v,enter,shift+f12,f24", "close", show=False),
    ]

    def __init__(self, sections: Sequence[Section], first: int = 0) -> None:
        super().__init__()
        self._text = LongText(sections, first, id="all-text")

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog -tall"):
            yield PlainText("All that the run said", classes="title")
            yield self._text
            yield PlainText("j k scroll   g G top and end   Esc closes", classes="foot")

    def on_mount(self) -> None:
        self._text.focus()

    def action_close(self) -> None:
        self.dismiss(None)
