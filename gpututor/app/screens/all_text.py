"""All that a run said, where the results pane shows only the beginning of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical

from gpututor.app.commands import foot, screen_bindings
from gpututor.app.screens.base import BaseModal
from gpututor.app.widgets.base import PlainText
from gpututor.app.widgets.output import LongText, Section


class AllTextScreen(BaseModal[None]):
    """Scrolls; opens at one of the sections."""

    BINDINGS: ClassVar[list[BindingType]] = screen_bindings("all_text")

    def __init__(self, sections: Sequence[Section], first: int = 0) -> None:
        super().__init__()
        self._text = LongText(sections, first, id="all-text")

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog -tall"):
            yield PlainText("All that the run said", classes="title")
            yield self._text
            yield PlainText(foot("all_text"), classes="foot")

    def on_mount(self) -> None:
        self._text.focus()

    def action_close(self) -> None:
        self.dismiss(None)
