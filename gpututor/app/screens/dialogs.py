"""Dialogs: a question with few answers, and an error of ours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Button

from gpututor.app.screens.once import OnceModal
from gpututor.app.widgets.plain import PlainText
from gpututor.errors import TutorError
from gpututor.paths import log_file


@dataclass(frozen=True)
class Answer:
    """One answer of a question."""

    id: str
    key: str
    """The letter that gives it."""
    label: str


class QuestionDialog(OnceModal[str]):
    """Asks; is dismissed with the id of the answer.

    Escape gives `escape`, by default the last answer, which must then be the harmless one.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "give_up", show=False),
        Binding("left,up", "app.focus_previous", show=False),
        Binding("right,down", "app.focus_next", show=False),
    ]

    def __init__(self, title: str, text: str, answers: tuple[Answer, ...], *, escape: str = "") -> None:
        super().__init__()
        self._title = title
        self._text = text
        self._answers = answers
        self._escape = escape or answers[-1].id

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield PlainText(self._title, classes="title")
            yield PlainText(self._text, classes="text")
            with Horizontal(classes="answers"):
                for answer in self._answers:
                    label = Content.assemble((answer.key, "underline bold"), f" {answer.label}")
                    yield Button(label, name=answer.id, compact=True)

    def on_mount(self) -> None:
        for answer in self._answers:
            self._bindings.bind(answer.key, f"answer('{answer.id}')", show=False)
        self.query(Button).last().focus()

    def action_answer(self, id: str) -> None:
        self.dismiss(id)

    def action_give_up(self) -> None:
        self.dismiss(self._escape)

    def on_button_pressed(self, event: Button.Pressed) -> None:
        event.stop()
        self.dismiss(event.button.name)


def error_dialog(error: TutorError) -> QuestionDialog:
    """Says what went wrong, what to do, and where the log is."""
    advice = f"{error.advice}\n\n" if error.advice else ""
    return QuestionDialog(error.title, f"{advice}The log is {log_file()}", (Answer("close", "c", "Close"),))
