"""Runs of the checks: starting, stopping and showing them, and runs that start by themselves."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import cached_property, partial
from typing import TYPE_CHECKING

from gpututor.app.commands import Pane
from gpututor.app.main.attempts import AttemptController
from gpututor.app.main.files import FileController
from gpututor.app.main.host import Host
from gpututor.app.messages import GradingProgressed
from gpututor.app.runtime import in_thread, write_log
from gpututor.app.wording import planned_device, sentence
from gpututor.errors import TutorError, UsageError
from gpututor.grading.outcome import Outcome
from gpututor.grading.report_text import RunProgress, line_after_pass, outcome_line

if TYPE_CHECKING:  # at run time they are imported after the first paint
    from gpututor.grading.client import GradingService
    from gpututor.grading.events import GradingEvent
    from gpututor.grading.report import Report
    from gpututor.hardware.inventory import Inventory
    from gpututor.progress.gradings import Gradings


class RunController:
    """Starts and stops runs, and shows what they report."""

    def __init__(self, host: Host, files: FileController, attempts: AttemptController, client: GradingService) -> None:
        self._host = host
        self._files = files
        self._attempts = attempts
        self._client = client
        self.running = False
        self._graded = 0
        """Number of the newest run that was graded."""
        self._submitted, self._submitted_for = "", host.exercise
        self._progress = RunProgress()
        """Progress of the newest run."""
        self._events: list[GradingEvent] = []
        """Events of the newest run so far."""
        self._inventory: Inventory | None = None
        self._seen_text = ""
        """The editor's text when it was last considered for an automatic run."""
        self._others_text: str | None = None
        """Text that another program wrote, until it is considered for an automatic run."""
        self._is_quiet = False
        """True if the newest run started by itself."""

    @cached_property
    def gradings(self) -> Gradings:
        """Gradings of the open files."""
        from gpututor.progress.gradings import Gradings

        return Gradings(
            self._client.grade,
            self._client.cancel,
            lambda run, event: self._host.post_message(GradingProgressed(run, event)),
            lambda: self._attempts.recordings,
            write_log,
        )

    # Starting and stopping

    def warm(self) -> None:
        """Start the judge while the learner reads."""
        in_thread(self._warm)

    def _warm(self) -> None:
        # A run meets the same error again, and shows its dialog.
        with contextlib.suppress(TutorError):
            self._client.warm()

    def run_checks(self, *, quietly: bool = False) -> None:
        """Save, and grade what was saved. `quietly`: an automatic run, which leaves the learner where they are."""
        if self._files.save_or_ask(partial(self.run_checks, quietly=quietly)):
            try:
                self._host.learner.course.check_has_checks(self._host.exercise)
            except UsageError as error:
                if not quietly:
                    self._host.show_error(error)
            else:
                self._start(quietly)
        self._seen_text = self._host.editor_text

    def _start(self, quietly: bool) -> None:
        """Grade the editor's text. The client stops an earlier run."""
        from gpututor.grading.events import GradeRequest

        host = self._host
        stopped = self._submitted_for.label if self.running and not self._is_for_open_exercise else ""
        self._submitted, self._submitted_for = host.editor_text, host.exercise
        self._is_quiet = quietly
        self._progress, self._events = RunProgress(limit_s=host.exercise.limits.wall_s), []
        self.running = True
        self.show_run()
        if stopped:
            host.status.show_reply(f"Stopped the run of {stopped}. Running the checks")
        # Where the results are seen below the code, a learner who types goes on typing.
        if not quietly and not (host.is_in_editor and host.panes.are_side_by_side):
            host.show_pane(Pane.RESULTS)
        settings = host.learner.settings.now
        folder, name = str(host.exercise.folder), host.learner.workspace.path_of(host.exercise).name
        self.gradings.start(GradeRequest(folder, self._submitted, name, settings.device, settings.requested_gpu))

    def show_run(self) -> bool:
        """Show the run of the open exercise from its beginning; return False if none is under way."""
        host = self._host
        if not (self.running and self._is_for_open_exercise):
            return False
        host.panes.results.begin(self._submitted, self._progress, self._events)
        host.panes.run_begins()
        self._set_running(True)
        host.status.show_message("Running the checks")
        return True

    def stop(self) -> None:
        """Stop the run. It is over for the learner at once, whatever the judge still has to tidy up."""
        if self._graded == self.gradings.newest:
            return  # there is nothing left to stop
        self.gradings.stop()
        self._set_running(False)
        self._host.status.show_message("Stopped")
        if self._is_for_open_exercise:
            self._host.panes.results.stop()

    def _set_running(self, running: bool) -> None:
        self.running = running
        self._host.status.show_run("")
        self._host.show_keys()

    def show_progress(self, words: str) -> None:
        if self.running:
            self._host.status.show_run(words)

    @property
    def _is_for_open_exercise(self) -> bool:
        return self._submitted_for.key == self._host.exercise.key

    # Progress of a grading

    def follow(self, run: int, event: GradingEvent | TutorError) -> None:
        """Show one event of a run, or end it."""
        from gpututor.grading.events import GradingCancelled, GradingFinished

        match event:
            case GradingFinished(report):
                self._end(run, report)
            case GradingCancelled():
                if run == self.gradings.newest and self.running:  # the learner did not cancel it
                    self.stop()
            case TutorError():
                self._fail(run, event)
            case _:
                if not self.gradings.is_over(run):
                    self._events.append(event)
                    if self._is_for_open_exercise:
                        self._show(event)

    def _show(self, event: GradingEvent) -> None:
        from gpututor.grading.events import CheckFinished, TimingProgressed, WaitingForDevice

        status = self._host.status
        self._host.panes.results.show_event(event)
        match event:
            case WaitingForDevice(device):
                status.show_message(f"Waiting: another grading is using {device}")
            case TimingProgressed(_, pairs, most_pairs):
                status.show_message(f"Timing: pair {pairs} of at most {most_pairs}")
            case CheckFinished(verdict) if verdict.status.is_finding:
                self._host.show_keys()

    def _fail(self, run: int, error: TutorError) -> None:
        if self.gradings.is_over(run):
            return
        self._set_running(False)
        self._host.status.show_message("The grader failed")
        if self._is_for_open_exercise:
            self._host.panes.results.fail()
        self._host.show_error(error)

    def _end(self, run: int, report: Report) -> None:
        """Save the attempt to the spool, then show the outcome: the database comes later."""
        if self.gradings.is_over(run):
            self.gradings.discard(run)
            return
        host = self._host
        self._graded = run
        finished_before = self._finished_lessons()
        self._attempts.save(self.gradings.finished(run, report, self._submitted))
        host.show_lists()
        self._set_running(False)
        host.status.show_message(f"{self._submitted_for.label} {outcome_line(report)}")
        news = self._news_of(report, finished_before)
        if self._is_for_open_exercise:
            host.panes.results.finish(report, news)
            host.panes.results.compare_with(host.editor_text)
            # A failure of a run that started by itself comes forward, but never in the way of typing.
            is_wanted = self._is_quiet and report.outcome is not Outcome.PASSED and not host.takes_letters
            if host.panes.current is Pane.RESULTS or (is_wanted and host.is_current):
                host.show_pane(Pane.RESULTS)
        host.show_keys()

    def _news_of(self, report: Report, finished_before: frozenset[str]) -> str:
        course, exercise = self._host.learner.course, self._submitted_for
        if report.outcome is not Outcome.PASSED:
            return ""
        following = course.after(exercise)
        finished = self._finished_lessons()
        lesson = course.lesson_of(exercise)
        # A learner who is typing, or reads another exercise meanwhile, finds it in the results.
        if finished != finished_before and self._host.panes.current is Pane.RESULTS and self._is_for_open_exercise:
            self._host.lesson_finished(lesson.slug)
        if len(finished) == len(course.lessons) and finished != finished_before:
            news = "You have passed every exercise of the course."
        elif lesson.slug in finished - finished_before:
            news = f"Lesson {lesson.number} is finished: {sentence(lesson.title)}"
        else:
            news = "" if following else "This was the last exercise of the course."
        steps = self._attempts.next_steps(exercise)
        return "\n".join(
            filter(None, [news, steps, line_after_pass(report, exercise.timeline, exercise.left_to_instructor)])
        )

    def _finished_lessons(self) -> frozenset[str]:
        return frozenset(lesson.slug for lesson in self._attempts.lessons if lesson.finished)

    # Devices

    @property
    def planned_device(self) -> str:
        settings = self._host.learner.settings.now
        return planned_device(self._host.exercise, self._inventory, settings.device, settings.requested_gpu)

    def find_devices(self, find: Callable[[], Inventory]) -> None:
        """Call `find` in a thread, and plan with the devices of this computer from then on."""
        in_thread(lambda: self._host.call_later(self._use_inventory, find()))

    def _use_inventory(self, inventory: Inventory | None) -> None:
        if inventory is not None:
            self._inventory = inventory
            self._host.show_file_state()

    def show_devices(self) -> None:
        from gpututor.app.screens.devices import DevicesScreen
        from gpututor.doctor import findings

        host, learner = self._host, self._host.learner
        check = partial(findings, learner.course.folder, learner.workspace.folder)
        screen = DevicesScreen(learner.settings, host.exercise, self._inventory, check, host.apply_settings)
        host.push(screen, self._use_inventory)

    # Automatic runs

    def file_loaded(self, *, again: bool = False) -> None:
        """Note the file's text. It may run by itself only if `again`: another program changed the open file."""
        if self.running and not self._is_for_open_exercise:
            self._host.status.show_run(f"{self._submitted_for.label} is still running. Esc stops it.")
        text = self._host.editor_text
        if again:
            self._others_text = text
        else:
            self._seen_text, self._others_text = text, None

    def run_if_due(self) -> None:
        """Run the checks on a file that was just saved, if the settings say so."""
        when, text = self._host.learner.settings.now.auto_run, self._host.editor_text
        if when == "asked":
            self._seen_text, self._others_text = text, None  # older changes do not run once the setting changes
            return
        if text == self._seen_text or not self._files.is_saved or not self._host.is_current:
            return
        is_others = text == self._others_text
        self._seen_text, self._others_text = text, None
        if not is_others:
            if when == "other editor":
                return
            if problem := _syntax_problem(text):
                self._host.status.show_message(f"Saved, not run: {problem}")
                return
        self.run_checks(quietly=True)


def _syntax_problem(text: str) -> str:
    """Describe why the text is not valid Python yet; return "" if it is. 1 ms for 200 lines."""
    import ast
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ast.parse(text)
        except SyntaxError as error:
            return f"line {error.lineno} is not finished."
        except ValueError:
            return "it holds a null character."
    return ""
