"""One check's verdict: a sentence that opens to what was expected, what came, where, why, and what to try."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical

from gpututor.app.messages import CheckOpened, LineChosen
from gpututor.app.widgets.output import DETAIL_CHARACTERS, DETAIL_LINES, bounded, details_of
from gpututor.app.widgets.plain import PlainText
from gpututor.grading.report import Verdict
from gpututor.grading.words import mark
from gpututor.plain_text import lines_of


class VerdictRow(Vertical, can_focus=True):
    """Enter goes to the line; the screen's command opens and closes."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "go_to_line", show=False),
    ]

    def __init__(self, verdict: Verdict, source: str = "") -> None:
        """`source`: the text that was graded; empty where it is not known."""
        super().__init__(classes=f"-{verdict.status.name.lower().replace('_', '-')}")
        self.verdict = verdict
        self._source = source

    @property
    def is_open(self) -> bool:
        return self.has_class("-open")

    def compose(self) -> ComposeResult:
        with Horizontal(classes="sentence"):
            yield PlainText(mark(self.verdict.status), classes="mark")
            yield PlainText(self.verdict.sentence, classes="text")
        if self.verdict.measured:
            with Horizontal(classes="figures"):
                yield PlainText("", classes="label")
                yield PlainText(self.verdict.measured, classes="text")
        lines = lines_of(self._source) if self.verdict.line is not None else []
        for label, text in details_of(self.verdict, lines):
            with Horizontal(classes="detail"):
                yield PlainText(label, classes="label")
                yield PlainText(bounded(text, DETAIL_LINES, DETAIL_CHARACTERS), classes="text")

    def open(self) -> None:
        self.add_class("-open")

    def action_open_or_close(self) -> None:
        self.toggle_class("-open")
        self.post_message(CheckOpened())
        self.call_after_refresh(self.scroll_visible)

    @property
    def place(self) -> LineChosen | None:
        """The line that the check points at, of the text that was graded; None where it points at none."""
        return None if self.verdict.line is None else LineChosen(self.verdict.line, self._source or None)

    def action_go_to_line(self) -> None:
        if self.place is not None:
            self.post_message(self.place)
        else:
            self.action_open_or_close()

    def on_click(self) -> None:
        if not self.is_open:
            self.action_open_or_close()
