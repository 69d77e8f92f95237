"""A submission to an exercise: report, text, trace, and grading it again."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Literal

from textual import on
from textual.app import ComposeResult
from textual.containers import Container

from gpututor.app.classroom.class_table import Cell, ClassTable, attempt_words, mark_words, points_of, title_of
from gpututor.app.classroom.regrade_client import RegradeClient
from gpututor.app.commands import bar, screen_bindings
from gpututor.app.messages import GradingProgressed, LineChosen
from gpututor.app.runtime import in_thread
from gpututor.app.screens.base import Answer, BaseScreen, QuestionDialog, error_dialog
from gpututor.app.screens.help import AllTextScreen, screen_help
from gpututor.app.trace_view.model import RunView, first_view
from gpututor.app.widgets.bars import KeyBar
from gpututor.app.widgets.base import PlainText
from gpututor.app.widgets.output import SubmissionText
from gpututor.app.widgets.results import CheckRow, Results
from gpututor.classroom.gradebook.model import Mark, ScoredAttempt
from gpututor.classroom.regrade import is_acceptable, report_before, same_result
from gpututor.errors import TutorError
from gpututor.files import ordinary
from gpututor.grading.events import GradeRequest, GradingCancelled, GradingFinished, WaitingForDevice
from gpututor.grading.journal import GradingKey
from gpututor.grading.recording import Recording
from gpututor.grading.report import Report
from gpututor.grading.report_text import outcome_line
from gpututor.progress.gradings import Gradings

_BREAKPOINTS = [(0, "-below"), (110, "-beside")]
"""Widths from which the text is below the report, or to its right."""
_HELP = (
    "The report is above or on the left, the submitted text below or on the right. ✗ marks lines that a check"
    " points at.",
    "d shows what the devices did. A class is graded without recordings, so the first time the submission is"
    " graded again with the same seed, device and isolation. The journal does not change, and the recording is"
    " saved.",
    "R grades it again in the same way, and compares the results. The new report replaces the old one in the"
    " journal only if you confirm it; the old one moves to replaced/.",
)
_NOTHING = "There is no recording: the submission did not use a device."
_AGAIN = (
    "It is graded again with the same seed, device and isolation. You see the result; the journal changes only if you"
    " confirm it then."
)


class SubmissionScreen(BaseScreen[bool]):
    """A report and its text, and one grading at a time. Dismissed with True if the journal was changed."""

    BINDINGS = screen_bindings("submission")
    HORIZONTAL_BREAKPOINTS = _BREAKPOINTS
    AUTO_FOCUS = ""

    def __init__(
        self, table: ClassTable, mark: Mark, step: Callable[[int], Cell | None], grading: RegradeClient
    ) -> None:
        """`mark` has attempts. `step` goes to the next or previous student's mark; None at the end."""
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
        self._gradings = Gradings(
            grading.client.grade,
            grading.client.cancel,
            lambda number, event: self.post_message(GradingProgressed(number, event)),
        )
        self._doing: Literal["", "record", "grade", "take"] = ""
        self._number = 0
        """Number of the last grading that was started."""
        self._part: Path | None = None
        """The folder to which the current grading records."""
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

    def _show(self) -> None:
        """Show the attempt as soon as its text has been read."""
        mark, attempt = self.mark, self.attempt
        student = self.table.gradebook.student(mark.student).student
        name = f" {student.name}" if student.name not in ("", student.id) else ""
        place = mark.attempts.index(attempt) + 1
        which = f" · attempt {place} of {len(mark.attempts)}" if len(mark.attempts) > 1 else ""
        counts = " (counts)" if which and attempt is mark.counted else ""
        exercise = title_of(self.table.gradebook.exercise(mark.exercise))
        self._title.update(f"{student.id}{name} · {exercise}{which}{counts}")
        items = [f"! {item.kind.heading}: {item.why}" for item in self.table.items.get(attempt.submission, ())]
        points = f"{points_of(mark)} points" if points_of(mark) else mark_words(mark)
        reasons = [points if attempt is mark.counted else "", attempt.submission.source, attempt.reason]
        self._about.update("\n".join(filter(None, [" · ".join(filter(None, reasons)), *items])))
        self.say("")
        keys = bar("submission", *([] if len(mark.attempts) > 1 else ["attempt"]))
        self._keys.show(keys[:-2], keys[-2:])
        in_thread(self._read, attempt)

    def _read(self, attempt: ScoredAttempt) -> None:
        submission = attempt.submission
        text, fault = "", submission.refusal
        if submission.sha256:
            try:
                with open(self.grading.folder.submission(submission.sha256), "rb", opener=ordinary) as stream:
                    text = self.table.gradebook.without_names(stream.read().decode(errors="replace"))
            except OSError as error:
                fault = fault or f"Its text cannot be read: {error.strerror}"
        self.call_later(self._show_text, attempt, text, fault)

    def _show_text(self, attempt: ScoredAttempt, text: str, fault: str) -> None:
        if attempt is self.attempt:
            self.source = text
            self.show_report(attempt.report, fault)

    def show_report(self, report: Report | None, fault: str = "") -> None:
        verdicts = report.verdicts if report is not None else ()
        self.text.show(self.source, [verdict.line for verdict in verdicts if verdict.line is not None])
        if report is None:
            self.results.show_nothing(attempt_words(self.attempt), fault or self.attempt.reason)
        else:
            self.results.show_report(report, self.source, fault)
        self.results.take_focus()

    def say(self, words: str) -> None:
        """Show words in the line above the keys."""
        self._news.update(words)
        self._news.display = bool(words)

    def action_other_side(self) -> None:
        if self.text.has_focus:
            self.results.take_focus()
        else:
            self.text.focus()

    def action_open_check(self) -> None:
        if isinstance(self.focused, CheckRow):
            self.focused.action_open_or_close()

    def action_all_text(self) -> None:
        if self.results.sections:
            self.app.push_screen(AllTextScreen(self.results.sections, self.results.section))

    def action_step(self, by: int) -> None:
        """Go to the next or previous student's submission."""
        if self.is_busy():
            return
        cell = self._step(by)
        if cell is None:
            self.say("There is no submission after this one." if by > 0 else "This is the first submission.")
            return
        self.mark = cell.mark
        self.attempt = cell.mark.counted or cell.mark.attempts[-1]
        self._show()

    def action_attempt(self, by: int) -> None:
        place = self.mark.attempts.index(self.attempt) + by
        if not 0 <= place < len(self.mark.attempts):
            self.say("There is no other attempt in that direction.")
        elif not self.is_busy():
            self.attempt = self.mark.attempts[place]
            self._show()

    @on(LineChosen)
    def _go_to_line(self, message: LineChosen) -> None:
        message.stop()
        self.text.go_to(message.line)

    def action_help(self) -> None:
        self.app.push_screen(screen_help("A submission", "submission", _HELP))

    def is_busy(self) -> bool:
        """Return True during a grading of the attempt, and say so."""
        if self._doing:
            is_saving = self._doing == "take"
            self.say("The new result is being saved." if is_saving else "A grading is running: Esc stops it.")
        return bool(self._doing)

    def action_device(self) -> None:
        """Show what the devices did; grade with a recording first if there is none."""
        key = self.attempt.key
        if key is None:
            self.say("This submission was not graded, so there is nothing to record.")
        elif not self.is_busy():
            in_thread(self._find_recording, self.attempt, key)

    def _find_recording(self, attempt: ScoredAttempt, key: GradingKey, part: Path | None = None) -> None:
        """Find the recording of a grading: the new one in `part`, or a stored one. For a thread."""
        grading, recording, fault = self.grading, None, ""
        try:
            recording = grading.recordings.read(key.name) if part is None else grading.keep_recording(key, part)
        except TutorError as error:
            fault = f"! {error.title} {error.advice}"
        self.call_later(self._show_recording, attempt, recording, fault, is_new=part is not None)

    def _show_recording(self, attempt: ScoredAttempt, recording: Recording | None, fault: str, *, is_new: bool) -> None:
        if attempt is not self.attempt or self._doing != ("record" if is_new else ""):
            return
        if is_new:
            self._end("" if recording is not None else fault or _NOTHING)
        if recording is None:
            if not is_new:
                self._begin("record")
        elif self.is_current or not is_new:
            self._open(recording)
        else:
            self.say("The recording is ready: d shows it.")

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
            attempt=self.attempt.submission.attempt,
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
        """Ask, then regrade the attempt."""
        if self.attempt.submission.refusal:
            self.say("A rejected file cannot be graded.")
        elif not self.is_busy():
            answers = (Answer("grade", "g", "Grade it again"), Answer("leave", "l", "Leave it"))
            question = QuestionDialog("Grade this submission again?", _AGAIN, answers)
            self.app.push_screen(question, lambda answer: self._begin("grade") if answer == "grade" else None)

    def _begin(self, what: Literal["record", "grade"]) -> None:
        self._doing = what
        self._number += 1
        doing = "Grading again" if what == "grade" else "Grading once more, to record what the devices do"
        self.say(f"… {doing}. Esc stops it.")
        in_thread(self._prepare, self._number, self.attempt, what == "record")

    def _prepare(self, number: int, attempt: ScoredAttempt, records: bool) -> None:
        try:
            prepared = self.grading.prepare(self._with_real_id(attempt), records=records)
            self.call_later(self._start_grading, number, *prepared)
        except TutorError as error:
            self.call_later(self._show_error, number, error)

    def _with_real_id(self, attempt: ScoredAttempt) -> ScoredAttempt:
        student = self.table.gradebook.real_id(attempt.submission.student)
        return replace(attempt, submission=replace(attempt.submission, student=student))

    def _start_grading(self, number: int, request: GradeRequest, part: Path | None) -> None:
        if number == self._number and self._doing:
            self._part = part
            self._gradings.start(request)
        else:
            self.grading.recordings.discard(part)

    def _show_error(self, number: int, error: TutorError) -> None:
        if number == self._number and self._doing:
            self._end("")
            self.app.push_screen(error_dialog(error))

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
        if not self._doing or self._gradings.is_over(message.run):
            return
        match message.event:
            case WaitingForDevice(device):
                self.say(f"… Another grading is using {device}: waiting for it. Esc stops it.")
            case TutorError() as error:
                self._end("! The grader failed. The journal is unchanged.")
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
            in_thread(self._find_recording, self.attempt, key, part)
            return
        self._end("")
        self._compare(report_before(self.grading.folder, key), report)

    def _compare(self, before: Report | None, report: Report) -> None:
        """Show the new result; if it differs, ask whether to take it."""
        after = outcome_line(report)
        if not is_acceptable(report):
            why = self.table.gradebook.without_names(report.reason)
            self.say(f"It could not be graded: {after}. {why} The journal is unchanged.")
        elif before is not None and same_result(before, report):
            self.say(f"The same result again: {after}. The journal is unchanged.")
        else:
            was = outcome_line(before) if before is not None else "no readable result"
            title = "The result differs" if before is not None else "A first result"
            text = (
                f"In the journal: {was}\nNow: {after}\n\nBoth have the same key, so the journal can hold only one."
                " If you use the new result, it counts for every student who submitted this text. The old result moves"
                " to replaced/."
            )
            answers = (Answer("take", "t", "Use the new result"), Answer("keep", "k", "Keep the old result"))
            dialog = QuestionDialog(title, text, answers)
            kept = f"The journal is unchanged. The other result: {after}"
            self.app.push_screen(dialog, lambda answer: self._take(report) if answer == "take" else self.say(kept))

    def _take(self, report: Report) -> None:
        assert self.attempt.key is not None
        self._doing = "take"
        # No daemon: leaving the app waits for the journal.
        threading.Thread(target=self._write, args=(self.attempt, self.attempt.key, report)).start()

    def _write(self, attempt: ScoredAttempt, key: GradingKey, report: Report) -> None:
        """Write the report to the journal. For a thread."""
        try:
            self.call_later(self._show_taken, report, self.grading.take(self._with_real_id(attempt), key, report))
        except TutorError as error:
            self.call_later(self._show_error, self._number, error)

    def _show_taken(self, report: Report, old: Path | None) -> None:
        self._doing = ""
        self._changed = True
        self.show_report(self.table.gradebook.report_shown(report))
        where = f" The old result: replaced/{old.name}" if old is not None else ""
        self.say(f"Saved. The marks change when the class is read again, for example when you go back.{where}")

    def action_back(self) -> None:
        """Stop the current grading; without one, leave. Wait while the journal is being written."""
        if self._doing == "take":
            self.is_busy()
        elif self._doing:
            self._gradings.stop()
            self._end("Stopped.")
        else:
            self.dismiss(self._changed)
