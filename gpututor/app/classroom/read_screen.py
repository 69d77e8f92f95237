"""What one student handed in at one exercise: the report, the text, its trace, and grading it once more."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.message import Message

from gpututor.app.classroom.again import AgainClient
from gpututor.app.classroom.help import ClassHelp
from gpututor.app.classroom.rows import Cell, ClassTable, mark_words, points_of, title_of
from gpututor.app.classroom.text import SubmissionText
from gpututor.app.classroom.told import attempt_words
from gpututor.app.messages import LineChosen
from gpututor.app.screens.once import OnceScreen
from gpututor.app.widgets.device.edges import Keys
from gpututor.app.widgets.plain import PlainText
from gpututor.app.widgets.results import Results
from gpututor.app.widgets.verdict_row import VerdictRow
from gpututor.classroom.gradebook.model import Attempt, Mark
from gpututor.files import ordinary
from gpututor.grading.report import Report

BREAKPOINTS = [(0, "-below"), (110, "-beside")]
"""From which width on the text stands beside the report."""
_KEYS = [
    ("Tab", "text"),
    ("d", "device"),
    ("R", "grade again"),
    ("n p", "next, back"),
    ("v", "all"),
]


@dataclass
class TextRead(Message):
    """What was handed in."""

    attempt: Attempt
    text: str
    fault: str


class ReadScreen(OnceScreen[bool]):
    """The report and the text. Dismissed with whether the journal was changed."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "back", show=False),
        Binding("tab,shift+tab", "other_side", show=False, priority=True),
        Binding("space", "open_check", show=False),
        Binding("v", "all_text", show=False),
        Binding("n", "step(1)", show=False),
        Binding("p", "step(-1)", show=False),
        Binding("right_square_bracket", "attempt(1)", show=False),
        Binding("left_square_bracket", "attempt(-1)", show=False),
        Binding("question_mark,f1", "help", show=False),
    ]
    HORIZONTAL_BREAKPOINTS = BREAKPOINTS
    AUTO_FOCUS = ""

    def __init__(self, table: ClassTable, mark: Mark, step: Callable[[int], Cell | None], grading: AgainClient) -> None:
        """`mark`: one with attempts. `step` goes to the next one's, or the one before, where there is one."""
        super().__init__()
        self.mark = mark
        self.attempt = mark.counted or mark.attempts[-1]
        self.results = Results(id="results")
        self.text = SubmissionText(id="submission-text")
        self.source = ""
        self.table = table
        self._step = step
        self.grading = grading
        self._title = PlainText("", id="submission-title")
        self._about = PlainText("", id="submission-about")
        self._news = PlainText("", id="submission-news")
        self._keys = Keys(id="submission-keys")

    def compose(self) -> ComposeResult:
        yield self._title
        yield self._about
        with Container(id="submission-halves"):
            yield self.results
            yield self.text
        yield self._news
        yield self._keys

    def on_mount(self) -> None:
        self._show()

    # What is shown

    def _show(self) -> None:
        """Show the attempt, as soon as its text was read."""
        mark, attempt = self.mark, self.attempt
        student = self.table.gradebook.student(mark.student).student
        name = f" {student.name}" if student.name not in ("", student.id) else ""
        place = mark.attempts.index(attempt) + 1
        which = f" · attempt {place} of {len(mark.attempts)}" if len(mark.attempts) > 1 else ""
        counts = " (counts)" if which and attempt is mark.counted else ""
        exercise = title_of(self.table.gradebook.exercise(mark.exercise))
        self._title.update(f"{student.id}{name} · {exercise}{which}{counts}")
        told = [f"{item.kind.heading}: {item.why}" for item in self.table.items.get(attempt.handed_in, ())]
        points = f"{points_of(mark)} points" if points_of(mark) else mark_words(mark)
        reasons = [points if attempt is mark.counted else "", attempt.handed_in.source, attempt.reason]
        lines = [" · ".join(filter(None, reasons)), *(f"! {each}" for each in told)]
        self._about.update("\n".join(filter(None, lines)))
        self.say("")
        more = [("] [", "attempt")] if len(mark.attempts) > 1 else []
        self._keys.show([*more, *_KEYS], [("?", "help"), ("Esc", "back")])
        threading.Thread(target=self._read, args=(attempt,), daemon=True).start()

    def _read(self, attempt: Attempt) -> None:
        one = attempt.handed_in
        text, fault = "", one.refusal
        if one.sha256:
            try:
                with open(self.grading.folder.submission(one.sha256), "rb", opener=ordinary) as stream:
                    text = stream.read().decode(errors="replace")
            except OSError as error:
                fault = fault or f"Its text cannot be read: {error.strerror}"
        self.post_message(TextRead(attempt, text, fault))

    @on(TextRead)
    def _show_text(self, message: TextRead) -> None:
        message.stop()
        if message.attempt is not self.attempt:
            return
        self.source = message.text
        self.show_report(self.attempt.report, message.fault)

    def show_report(self, report: Report | None, fault: str = "") -> None:
        """Show what the checks said of the attempt, beside its text."""
        verdicts = report.verdicts if report is not None else ()
        self.text.show(self.source, [verdict.line for verdict in verdicts if verdict.line is not None])
        if report is None:
            self.results.show_nothing(attempt_words(self.attempt), fault or self.attempt.reason)
        else:
            self.results.show_report(report, self.source, fault)
        self.results.take_focus()

    def say(self, words: str) -> None:
        """Tell something in the line above the keys, until the next."""
        self._news.update(words)
        self._news.display = bool(words)

    # Keys

    def action_other_side(self) -> None:
        if self.text.has_focus:
            self.results.take_focus()
        else:
            self.text.focus()

    def action_open_check(self) -> None:
        if isinstance(self.focused, VerdictRow):
            self.focused.action_open_or_close()

    def action_all_text(self) -> None:
        from gpututor.app.screens.all_text import AllTextScreen

        if self.results.sections:
            self.app.push_screen(AllTextScreen(self.results.sections, self.results.section))

    def action_step(self, by: int) -> None:
        """Go on to the next student's, or back."""
        if self.is_busy():
            return
        cell = self._step(by)
        if cell is None:
            self.say("There is none further on." if by > 0 else "This is the first one.")
            return
        self.mark = cell.mark
        self.attempt = cell.mark.counted or cell.mark.attempts[-1]
        self._show()

    def action_attempt(self, by: int) -> None:
        """Another attempt of the same student."""
        place = self.mark.attempts.index(self.attempt) + by
        if not 0 <= place < len(self.mark.attempts):
            self.say("There is no other attempt there.")
        elif not self.is_busy():
            self.attempt = self.mark.attempts[place]
            self._show()

    @on(LineChosen)
    def _go_to_line(self, message: LineChosen) -> None:
        message.stop()
        self.text.go_to(message.line)

    def action_help(self) -> None:
        self.app.push_screen(ClassHelp("A submission"))

    def action_back(self) -> None:
        self.dismiss(False)

    def is_busy(self) -> bool:
        """Whether something is on that belongs to what is shown; then it is told."""
        return False
