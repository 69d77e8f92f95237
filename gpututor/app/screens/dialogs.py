"""Dialogs: a question with few answers, an error of ours, and a comparison of two texts."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, ScrollableContainer, Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, Static

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


class QuestionDialog(ModalScreen[str]):
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


class DiffDialog(ModalScreen[None]):
    """Two texts line by line: what only the first has is marked -, what only the second has +."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter", "close", show=False),
        Binding("j", "scroll('down')", show=False),
        Binding("k", "scroll('up')", show=False),
        Binding("g", "scroll('home')", show=False),
        Binding("G", "scroll('end')", show=False),
    ]

    def __init__(self, title: str, before: str, after: str, legend: tuple[str, str]) -> None:
        super().__init__()
        self._title = title
        self._legend = legend
        self._diff = diff_content(before, after)

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog -tall"):
            yield PlainText(self._title, classes="title")
            minus, plus = self._legend
            legend = Content.assemble((f"- {minus}", "$text-error"), "    ", (f"+ {plus}", "$text-success"))
            yield Static(legend, classes="legend")
            with ScrollableContainer(id="diff"):
                yield Static(self._diff)
            yield PlainText("Esc closes", classes="foot")

    def on_mount(self) -> None:
        self.query_one("#diff").focus()

    def action_scroll(self, where: str) -> None:
        scroll = self.query_one("#diff", ScrollableContainer)
        match where:
            case "down":
                scroll.scroll_down(animate=False)
            case "up":
                scroll.scroll_up(animate=False)
            case "home":
                scroll.scroll_home(animate=False)
            case _:
                scroll.scroll_end(animate=False)

    def action_close(self) -> None:
        self.dismiss(None)


def diff_content(before: str, after: str) -> Content:
    """A comparison of two whole files: within a change, the lines that go before those that come."""
    if before == after:
        return Content("Both are the same.")
    old, new = before.splitlines(), after.splitlines()
    parts: list[Content | str | tuple[str, str]] = []
    for tag, old_from, old_to, new_from, new_to in difflib.SequenceMatcher(None, old, new, False).get_opcodes():
        if tag == "equal":
            parts += [f"  {line}\n" for line in old[old_from:old_to]]
            continue
        parts += [(f"- {line}\n", "$text-error") for line in old[old_from:old_to]]
        parts += [(f"+ {line}\n", "$text-success") for line in new[new_from:new_to]]
    return Content.assemble(*parts)
