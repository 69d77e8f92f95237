"""The part of the main screen that runs the checks and shows what they say."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from textual import on

from gpututor.app.commands import Pane
from gpututor.app.grader import Client, Grader
from gpututor.app.main.attempts import AttemptsScreen
from gpututor.app.main.saving import Learner
from gpututor.app.messages import (
    AttemptKept,
    AttemptLost,
    CallBegan,
    CheckAnswered,
    DevicesFound,
    DeviceWaitedFor,
    PairTimed,
    RunBroke,
    RunCancelled,
    ScenarioStarted,
    SubmissionGraded,
)
from gpututor.app.words import planned_device, sentence
from gpututor.course.exercise import Exercise
from gpututor.errors import UsageError
from gpututor.grading.events import GradeRequest
from gpututor.grading.report import Outcome, Report
from gpututor.grading.words import outcome_line

if TYPE_CHECKING:
    from gpututor.grading.inventory import Inventory


class RunScreen(AttemptsScreen):
    """A desk whose file can be graded."""

    def __init__(self, learner: Learner, exercise: Exercise, client: Client) -> None:
        super().__init__(learner, exercise)
        self.grader = Grader(client, self.post_message)
        self.running = False
        self._parts: dict[int, Path | None] = {}
        """Where the runs that are on record what the devices do."""
        self._graded = 0
        """The number of the newest run that came to its end."""
        self._finished_before: frozenset[str] = frozenset()
        """The lessons that were finished before its attempt was kept."""
        self._submitted = ""
        self._submitted_for = exercise
        self._inventory: Inventory | None = None

    def start_run(self, *, quietly: bool = False) -> None:
        """Save, and grade what was saved. A run that is still on is stopped by the client.

        `quietly`: the learner did not ask for it, and stays where they are.
        """
        if not self.save_or_ask(partial(self.start_run, quietly=quietly)):
            return
        try:
            self.learner.course.check_has_checks()
        except UsageError as error:
            if not quietly:
                self.show_error(error)
            return
        self._submitted, self._submitted_for = self.editor_text, self.exercise
        self.panes.results.begin(self._submitted)
        self.panes.add_class("ran")
        self._set_running(True)
        self.status.show_news("Running the checks")
        if not quietly:
            self.show_pane(Pane.RESULTS)
        file_name = self.learner.workspace.path_of(self.exercise).name
        chosen = self.learner.settings.now
        part = self.recordings.begin()
        run = self.grader.start(
            GradeRequest(
                str(self.exercise.folder),
                self._submitted,
                file_name,
                device=chosen.device,
                gpu=chosen.requested_gpu,
                recording_folder=None if part is None else str(part),
            )
        )
        self._parts[run] = part

    def stop_run(self) -> None:
        """Stop the run. It is over for the learner at once, whatever the judge still has to tidy up."""
        if self._graded == self.grader.run:
            return  # there is nothing left to stop: its attempt is being kept
        self.grader.cancel()
        self._set_running(False)
        self.status.show_news("Stopped")
        if self._submitted_for.key == self.exercise.key:
            self.panes.results.stop()

    @property
    def planned_device(self) -> str:
        chosen = self.learner.settings.now
        return planned_device(self.exercise, self._inventory, chosen.device, chosen.requested_gpu)

    @on(DevicesFound)
    def _know_devices(self, message: DevicesFound) -> None:
        self._inventory = message.inventory
        self.show_standing()

    @on(ScenarioStarted)
    def _show_scenario(self, message: ScenarioStarted) -> None:
        if self._is_shown(message.run):
            self.panes.results.scenario_started(message.scenario, message.device, message.number, message.of)

    @on(CallBegan)
    def _show_call(self, message: CallBegan) -> None:
        if self._is_shown(message.run):
            self.panes.results.call_began(message.number, message.of)

    @on(DeviceWaitedFor)
    def _show_wait(self, message: DeviceWaitedFor) -> None:
        if self._is_shown(message.run):
            self.panes.results.device_waited_for()
            self.status.show_news(f"Waiting: another grading is on {message.device}")

    @on(PairTimed)
    def _show_timing(self, message: PairTimed) -> None:
        if self._is_shown(message.run):
            self.panes.results.pairs_timed(message.pairs, message.most_pairs)
            self.status.show_news(f"Timing: pair {message.pairs} of at most {message.most_pairs}")

    @on(CheckAnswered)
    def _show_verdict(self, message: CheckAnswered) -> None:
        if self._is_shown(message.run):
            self.panes.results.add_verdict(message.verdict)
            if message.verdict.status.is_finding:
                self.show_keys()

    @on(SubmissionGraded)
    def _keep_report(self, message: SubmissionGraded) -> None:
        part = self._parts.pop(message.run, None)
        if self.grader.is_over(message.run):
            self.recordings.discard(part)
            return
        self._graded = message.run
        self._finished_before = self._finished_lessons()
        self.status.show_news("Keeping the attempt")  # for a moment, or as long as another process holds the file
        self.keep_attempt(message.run, message.report, self._submitted, part)

    @on(AttemptKept)
    @on(AttemptLost)
    def _show_report(self, message: AttemptKept | AttemptLost) -> None:
        if isinstance(message, AttemptLost):
            self.show_error(message.error)
        self.show_lists()
        if self.grader.is_over(message.run):
            return  # a newer run has begun
        self._set_running(False)
        news = self._news_of(message.report)
        self.status.show_news(f"{self._submitted_for.label} {outcome_line(message.report)}")
        if self._submitted_for.key == self.exercise.key:
            self.panes.results.finish(message.report, news)
            self.panes.results.compare_with(self.editor_text)
            if self.panes.current is Pane.RESULTS:
                self.show_pane(Pane.RESULTS)
        self.show_keys()

    @on(RunCancelled)
    def _show_stop(self, message: RunCancelled) -> None:
        self.recordings.discard(self._parts.pop(message.run, None))
        if message.run == self.grader.run and self.running:  # by somebody else than the learner
            self.stop_run()

    @on(RunBroke)
    def _show_fault(self, message: RunBroke) -> None:
        self.recordings.discard(self._parts.pop(message.run, None))
        if self.grader.is_over(message.run):
            return
        self._set_running(False)
        self.status.show_news("The grader broke")
        if self._is_shown(message.run):
            self.panes.results.broke()
        self.show_error(message.error)

    def _is_shown(self, run: int) -> bool:
        return not self.grader.is_over(run) and self._submitted_for.key == self.exercise.key

    def _set_running(self, running: bool) -> None:
        self.running = running
        self.show_keys()

    def _news_of(self, report: Report) -> str:
        """What there is to say of a report beyond it."""
        course, exercise, was_finished = self.learner.course, self._submitted_for, self._finished_before
        if report.outcome is not Outcome.PASSED:
            return ""
        following = course.after(exercise)
        next_words = f"n opens {sentence(f'{following.label} {following.title}')}" if following else ""
        finished = self._finished_lessons()
        lesson = course.lesson_of(exercise)
        if finished != was_finished:
            self.lesson_finished(lesson.slug)
        if len(finished) == len(course.lessons) and finished != was_finished:
            return "You have passed every exercise of the course."
        if lesson.slug in finished - was_finished:
            return f"Lesson {lesson.number} is finished: {sentence(lesson.title)} {next_words}".rstrip()
        return next_words or "This was the last exercise of the course."

    def lesson_finished(self, slug: str) -> None:
        """The last exercise of a lesson was passed; the layer above makes something of it."""

    def _finished_lessons(self) -> frozenset[str]:
        return frozenset(lesson.slug for lesson in self.lessons if lesson.finished)

    def show_lists(self) -> None:
        """Draw what depends on progress."""
        self.panes.course.show(self.lessons, self.exercise.key)
