"""What one student handed in at one exercise: to be read, and graded once more."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Literal

from textual import on
from textual.binding import Binding, BindingType
from textual.message import Message

from gpututor.app.classroom.again import AgainClient, Prepared
from gpututor.app.classroom.read_screen import ReadScreen
from gpututor.app.classroom.rows import Cell, ClassTable, title_of
from gpututor.app.grader import Grader
from gpututor.app.messages import DeviceWaitedFor, RunBroke, RunCancelled, SubmissionGraded
from gpututor.app.screens.dialogs import Answer, QuestionDialog, error_dialog
from gpututor.app.widgets.device.view import RunView, first_view
from gpututor.classroom.again import may_be_taken, same_result
from gpututor.classroom.gradebook.model import Attempt, Mark
from gpututor.errors import GradingError, TutorError
from gpututor.grading.journal import GradingKey
from gpututor.grading.recording import Recording
from gpututor.grading.report import Report
from gpututor.grading.words import outcome_line

_NOTHING = "Nothing was recorded: nothing of it ran on a device."
_AGAIN = (
    "It is graded as it was, with the same seed, device and isolation. What comes out is shown; the journal stays as it"
    " is unless you then say otherwise."
)


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


class SubmissionScreen(ReadScreen):
    """One grading at a time; Esc stops it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d,f10", "device", show=False),
        Binding("R", "again", show=False),
    ]

    def __init__(self, table: ClassTable, mark: Mark, step: Callable[[int], Cell | None], grading: AgainClient) -> None:
        super().__init__(table, mark, step, grading)
        self._grader = Grader(grading.client, self.post_message)
        self._doing: Literal["", "record", "grade", "take"] = ""
        self._number = 0
        """Of what was begun last."""
        self._part: Path | None = None
        """Where a grading that is on records."""
        self._changed = False

    def is_busy(self) -> bool:
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
        from gpututor.app.screens.device import DeviceScreen

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

    @on(DeviceWaitedFor)
    def _tell_waiting(self, message: DeviceWaitedFor) -> None:
        message.stop()
        if self._doing and not self._grader.is_over(message.run):
            self.say(f"… Another grading is on {message.device}: waiting for its end. Esc stops it.")

    @on(RunBroke)
    def _broke(self, message: RunBroke) -> None:
        message.stop()
        if self._doing and not self._grader.is_over(message.run):
            self._end("! The grader broke. The journal is as it was.")
            self.app.push_screen(error_dialog(message.error))

    @on(RunCancelled)
    def _cancelled(self, message: RunCancelled) -> None:
        message.stop()
        if self._doing and not self._grader.is_over(message.run):
            self._end("Stopped.")

    @on(SubmissionGraded)
    def _graded(self, message: SubmissionGraded) -> None:
        message.stop()
        key = self.attempt.key
        if not self._doing or self._grader.is_over(message.run) or key is None:
            return
        if self._doing == "record":
            part, self._part = self._part, None
            threading.Thread(target=self._find_recording, args=(self.attempt, key, part), daemon=True).start()
            return
        self._end("")
        try:
            before = self.grading.in_journal(key)
        except GradingError:
            before = None  # a broken file: it is kept all the same
        self._compare(before, message.report)

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
