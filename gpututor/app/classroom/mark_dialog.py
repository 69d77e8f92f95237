"""A dialog for a mark by hand: a line with the mark and its reason."""

from __future__ import annotations

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Input

from gpututor.app.classroom.class_table import ClassRow, figure, title_of
from gpututor.app.commands import foot, screen_bindings
from gpututor.app.screens.base import BaseModal
from gpututor.app.widgets.base import PlainText
from gpututor.classroom.folder import ClassFolder
from gpututor.classroom.gradebook.model import ExerciseSummary, Mark
from gpututor.classroom.hand_marking import write_mark, written_words
from gpututor.classroom.history import author
from gpututor.errors import UsageError
from gpututor.text import escape_control_chars


class MarkDialog(BaseModal[str]):
    """Dismissed with a sentence about the mark that was written, or with None."""

    BINDINGS = screen_bindings("mark")

    def __init__(self, folder: ClassFolder, row: ClassRow, exercise: ExerciseSummary, mark: Mark) -> None:
        super().__init__()
        self._folder = folder
        self._exercise = exercise
        self._mark = mark
        self._title = f"{row.name} · {title_of(exercise)}"
        by_hand = escape_control_chars(mark.by_hand_words)
        now = f"By hand: {by_hand}" if by_hand else f"The mark now: {mark.shown_word}"
        clear = " Type - instead of a number to restore the computed mark." if by_hand else ""
        self._about = f"{now}\nType a mark from 0 to {figure(exercise.most)}, a space, and the reason.{clear}"
        self._line = Input(placeholder="3 The task was unclear", compact=True)
        self._problem = PlainText("", classes="text")

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield PlainText(self._title, classes="title")
            yield PlainText(self._about, classes="text")
            yield self._line
            yield self._problem
            yield PlainText(foot("mark"), classes="foot")

    def on_mount(self) -> None:
        self._line.focus()

    @on(Input.Submitted)
    def _write(self, message: Input.Submitted) -> None:
        message.stop()
        points, _, why = message.value.strip().partition(" ")
        words = None if points == "-" else points
        try:
            entry = write_mark(self._folder, self._exercise, self._mark, words, by=author(None), why=why)
        except UsageError as error:
            self._problem.update(f"! {error.title} {error.advice}".strip())
            return
        self.dismiss(written_words(entry, self._exercise, self._mark))
