"""One submission at one exercise: report, text, trace, and grading it again."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Literal

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container
from textual.message import Message

from gpututor.app.classroom.class_table import Cell, ClassTable, mark_words, points_of, title_of
from gpututor.app.classroom.help import class_help
from gpututor.app.classroom.regrade_client import Prepared, RegradeClient
from gpututor.app.classroom.wording import attempt_words
from gpututor.app.main.runs import Grader
from gpututor.app.messages import GradingProgressed, LineChosen
from gpututor.app.screen_commands import bar, screen_bindings
from gpututor.app.screens.base import Answer, BaseScreen, QuestionDialog, error_dialog
from gpututor.app.trace_view.model import RunView, first_view
from gpututor.app.widgets.bars import KeyBar
from gpututor.app.widgets.base import PlainText
from gpututor.app.widgets.output import SubmissionText
from gpututor.app.widgets.results import CheckRow, Results
from gpututor.classroom.gradebook.model import Attempt, Mark
from gpututor.classroom.regrade import may_be_taken, same_result
from gpututor.errors import GradingError, TutorError
from gpututor.files import ordinary
from gpututor.grading.events import GradingCancelled, GradingFinished, WaitingForDevice
from gpututor.grading.journal import GradingKey
from gpututor.grading.recording import Recording
from gpututor.grading.report import Report
from gpututor.grading.report_text import outcome_line

BREAKPOINTS = [(0, "-below"), (110, "-beside")]
"""From which width on the text stands beside the report."""
_NOTHING = "Nothing was recorded: nothing of it ran on a device."
_AGAIN = (
    "It is graded as it was, with the same seed, device and isolation. What comes out is shown; the journal stays as it"
    " is unless you then say otherwise."
)


@dataclass
class TextRead(Message):
    """What was handed in."""

    attempt: Attempt
    text: str
    fault: str


@dataclass
class RecordingRead(Message):
    """What the devices did; None where that is not known yet."""

    attempt: Attempt
    recording: Recording | None
    is_new: bool
    fault: str = ""
    """Why it could not be kept."""


@dataclass
class Taken(Message):
    """The new result is in the journal, or why it is not."""

    report: Report
    kept: Path | None
    error: TutorError | None


class SubmissionScreen(BaseScreen[bool]):
    """The report and the text. Dismissed with True where the journal was changed.

    One grading at a time; Esc stops it.
    """

    BINDINGS: ClassVar[list[BindingType]] = screen_bindings("submission")
    HORIZONTAL_BREAKPOINTS = BREAKPOINTS
    AUTO_FOCUS = ""

    def __init__(
        self, table: ClassTable, mark: Mark, step: Callable[[int], Cell | None], grading: RegradeClient
    ) -> None:
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
        self._keys = KeyBar(id="submission-keys")
        self._grader = Grader(grading.client, self.post_message)
        self._doing: Literal["", "record", "grade", "take"] = ""
        self._number = 0
        """Number of the last thing begun."""
        self._part: Path | None = None
        """Folder in which a grading that is on records."""
        self._changed = False

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
        keys = bar("submission", *([] if len(mark.attempts) > 1 else ["attempt"]))
        self._keys.show(keys[:-2], keys[-2:])
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
        if isinstance(self.focused, CheckRow):
            self.focused.action_open_or_close()

    def action_all_text(self) -> None:
        from gpututor.app.screens.help import AllTextScreen

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
        self.app.push_screen(class_help("submission"))

    # Grading

    def is_busy(self) -> bool:
        """Say where something is on that belongs to what is shown."""
        if self._doing:
            self.say("It is being written." if self._doing == "take" else "It is being graded: Esc stops it.")
        return bool(self._doing)

    def action_device(self) -> None:
        """Show what the devices did; it is recorded first where it was not yet."""
        key = self.attempt.key
        if key is None:
            self.say("It was not graded, so there is nothing to record.")
        elif not self.is_busy():
            threading.Thread(target=self._find_recording, args=(self.attempt, key), daemon=True).start()

    def _find_recording(self, attempt: Attempt, key: GradingKey, part: Path | None = None) -> None:
        """What was recorded, in `part` just now or before; in a thread."""
        grading, found, fault = self.grading, None, ""
        try:
            found = grading.recording_of(key) if part is None else grading.keep_recording(key, part)
        except TutorError as error:
            fault = f"! {error.title} {error.advice}"
        self.post_message(RecordingRead(attempt, found, part is not None, fault))

    @on(RecordingRead)
    def _see(self, message: RecordingRead) -> None:
        message.stop()
        if message.attempt is not self.attempt:
            return
        if not message.is_new:
            if not self._doing and message.recording is None:
                self._begin("record")
            elif not self._doing and message.recording is not None:
                self._open(message.recording)
        elif self._doing == "record":
            self._end("" if message.recording is not None else message.fault or _NOTHING)
            if message.recording is not None and self.is_current:
                self._open(message.recording)
            elif message.recording is not None:
                self.say("It is recorded: d shows it.")

    def _open(self, recording: Recording) -> None:
        from gpututor.app.screens.trace import DeviceScreen

        view = self._view(recording)
        if view is None:
            self.say(_NOTHING)
        else:
            self.app.push_screen(DeviceScreen(view, running=True), self._after_device)

    def _view(self, recording: Recording) -> RunView | None:
        exercise = self.table.gradebook.exercise(self.mark.exercise)
        view = first_view(
            recording,
            attempt=self.attempt.handed_in.attempt,
            title=f"{self.mark.student} · {title_of(exercise)}",
            file_name=f"{self.mark.exercise.rpartition('/')[2]}.py",
            source=self.source,
        )
        report = self.attempt.report
        if view is None or report is None:
            return view
        return replace(view, verdicts=report.verdicts, outcome=outcome_line(report))

    def _after_device(self, answer: int | str | None) -> None:
        if isinstance(answer, int):
            self.text.go_to(answer)
            self.text.focus()

    def action_again(self) -> None:
        """Ask, then grade it again."""
        if self.attempt.handed_in.refusal:
            self.say("A refused file cannot be graded.")
        elif not self.is_busy():
            answers = (Answer("grade", "g", "Grade it again"), Answer("leave", "l", "Leave it"))
            question = QuestionDialog("Grade this submission again?", _AGAIN, answers)
            self.app.push_screen(question, lambda answer: self._begin("grade") if answer == "grade" else None)

    def _begin(self, what: Literal["record", "grade"]) -> None:
        self._doing = what
        self._number += 1
        doing = "Grading again" if what == "grade" else "Grading once more, to record what the devices do"
        self.say(f"… {doing}. Esc stops it.")
        self.grading.prepare(self._number, self.attempt, self.post_message, records=what == "record")

    @on(Prepared)
    def _ask_judge(self, message: Prepared) -> None:
        message.stop()
        if message.number != self._number or not self._doing:
            self.grading.recordings.discard(message.part)
            return
        if isinstance(message.request, TutorError):
            self._end("")
            self.app.push_screen(error_dialog(message.request))
            return
        self._part = message.part
        self._grader.start(message.request)

    def _end(self, words: str) -> None:
        self._doing = ""
        self._number += 1
        if self._part is not None:
            self.grading.recordings.discard(self._part)
            self._part = None
        self.say(words)

    @on(GradingProgressed)
    def _follow(self, message: GradingProgressed) -> None:
        message.stop()
        if not self._doing or self._grader.is_over(message.run):
            return
        match message.event:
            case WaitingForDevice(device):
                self.say(f"… Another grading is on {device}: waiting for its end. Esc stops it.")
            case TutorError() as error:
                self._end("! The grader broke. The journal is as it was.")
                self.app.push_screen(error_dialog(error))
            case GradingCancelled():
                self._end("Stopped.")
            case GradingFinished(report) if self.attempt.key is not None:
                self._graded(self.attempt.key, report)
            case _:
                return

    def _graded(self, key: GradingKey, report: Report) -> None:
        if self._doing == "record":
            part, self._part = self._part, None
            threading.Thread(target=self._find_recording, args=(self.attempt, key, part), daemon=True).start()
            return
        self._end("")
        try:
            before = self.grading.in_journal(key)
        except GradingError:
            before = None  # a broken file: it is kept all the same
        self._compare(before, report)

    def _compare(self, before: Report | None, report: Report) -> None:
        """Say what came out, and ask whether it is to be taken, where it is another result."""
        after = outcome_line(report)
        if not may_be_taken(report):
            self.say(f"It could not be graded: {after}. {report.reason} The journal is as it was.")
        elif before is not None and same_result(before, report):
            self.say(f"The same result again: {after}. The journal is as it was.")
        else:
            was = outcome_line(before) if before is not None else "no result, or one that cannot be read"
            title = "Another result than before" if before is not None else "A result, where there was none"
            text = (
                f"In the journal: {was}\nNow: {after}\n\nBoth have the same key, so the journal holds one of them. If"
                " you take the new one, it counts for everybody who handed in this text; what was there is kept in"
                " replaced/."
            )
            answers = (Answer("take", "t", "Take the new one"), Answer("keep", "k", "Keep the old one"))
            dialog = QuestionDialog(title, text, answers)
            self.app.push_screen(dialog, lambda answer: self._take(report) if answer == "take" else self._keep(after))

    def _keep(self, after: str) -> None:
        self.say(f"The journal is as it was. The other result: {after}")

    def _take(self, report: Report) -> None:
        assert self.attempt.key is not None
        self._doing = "take"
        threading.Thread(target=self._write, args=(self.attempt.key, report)).start()  # no daemon: it ends well

    def _write(self, key: GradingKey, report: Report) -> None:
        """Put it into the journal; in a thread."""
        try:
            self.post_message(Taken(report, self.grading.take(key, report), None))
        except TutorError as error:
            self.post_message(Taken(report, None, error))

    @on(Taken)
    def _tell_taken(self, message: Taken) -> None:
        message.stop()
        self._doing = ""
        if message.error is not None:
            self.app.push_screen(error_dialog(message.error))
            return
        self._changed = True
        self.show_report(message.report)
        where = f" The old one: replaced/{message.kept.name}" if message.kept is not None else ""
        self.say(f"Taken. Marks follow it when the class is read again, as on going back.{where}")

    def action_back(self) -> None:
        """Stop a grading that is on; else leave. What is written to the journal is waited for."""
        if self._doing == "take":
            self.is_busy()
        elif self._doing:
            self._grader.cancel()
            self._end("Stopped.")
        else:
            self.dismiss(self._changed)
