"""Attempts at an exercise: saving, older ones, the devices' work in them, comparisons, costs of lines, exports."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from textual.message import Message

from gpututor.app.commands import Pane
from gpututor.app.main.files import FileController
from gpututor.app.main.host import Host
from gpututor.app.messages import (
    AttemptNotStored,
    AttemptStored,
    CostsRead,
    EventLost,
    FileExported,
    LineChosen,
)
from gpututor.app.wording import moment
from gpututor.errors import CourseError, ProgressError, TutorError
from gpututor.grading.report import Outcome
from gpututor.grading.report_text import outcome_line
from gpututor.progress.attempt_writer import AttemptWriter, FinishedRun, NotYetStored, ProgressEvent
from gpututor.progress.database import BRIEFLY_S
from gpututor.progress.overview import LessonRow, lesson_rows
from gpututor.progress.store import Attempt, ExerciseProgress
from gpututor.text import truncate, with_newlines

if TYPE_CHECKING:
    from gpututor.app.screens.history import Chosen
    from gpututor.app.screens.trace import DeviceAnswer, DeviceScreen
    from gpututor.app.trace_view.comparison import Other
    from gpututor.app.trace_view.model import OtherAttempt, RunView
    from gpututor.grading.recording import Recording, RunRecording
    from gpututor.progress.recordings import Recordings, StoredAttempt

NOTHING_RUN = (
    "Nothing has been run yet.\n\nr saves your file and runs the checks. Then this screen shows what the device did:"
    " when each kernel and copy ran, what the host waited for, and which of your lines caused it."
)
RUNNING = (
    "A run is under way.\n\nWhen it has ended, d shows what the device did: when each kernel and copy ran, what the"
    " host waited for, and which of your lines caused it."
)
NOT_RECORDED = "Of attempt {number} nothing was recorded: it is too old, or nothing ran on a device."
DID_NOT_RUN = "Attempt {number} did nothing on a device: its file could not be run.{reason}"
RUN_AGAIN = "\n\nr runs the checks again."
NO_ATTEMPT = "No attempt yet that could be compared: ^s runs the checks."
NONE_RECORDED = "No attempt was recorded yet: each stopped too early. ^s runs again."


@dataclass(eq=False, repr=False)
class RecordingLoaded(Message):
    """The devices' work in an attempt has been read."""

    exercise: str
    """The exercise's key."""
    attempt: int
    """The attempt's id."""
    view: RunView


class AttemptHost(Host, Protocol):
    """A screen that shows attempts and starts runs."""

    @property
    def planned_device(self) -> str: ...

    def start_run(self) -> None: ...


class AttemptController:
    """Saves attempts, and shows any of them."""

    def __init__(self, host: AttemptHost, files: FileController) -> None:
        self._host = host
        self._files = files
        self._passed: set[str] = set()
        """Keys of exercises that were passed since the start, also where the database has not got them yet."""
        self._last_view: tuple[int, RunView] | None = None
        """An attempt's id, and its recording, read ahead of time."""

    # Saving

    @cached_property
    def writer(self) -> AttemptWriter:
        """Saves attempts and events."""
        from gpututor.app.runtime import write_log

        return AttemptWriter(self._host.learner.progress.path, log=write_log)

    @property
    def recordings(self) -> Recordings:
        """The devices' work in the stored attempts; imported after the first paint."""
        return self.writer.recordings

    def save(self, run: int, finished: FinishedRun) -> None:
        """Save an attempt at any exercise; a message says what became of it."""
        exercise = finished.report.exercise

        def tell(stored: StoredAttempt | TutorError) -> None:
            if isinstance(stored, TutorError):
                self._host.post_message(AttemptNotStored(stored))
            else:
                self._host.post_message(AttemptStored(run, exercise, stored))

        self.writer.save(finished, tell)
        if finished.report.outcome is Outcome.PASSED:
            self._passed.add(exercise)

    def record(self, event: ProgressEvent) -> None:
        """Save an event, in its order among the attempts."""
        self.writer.record(event, lambda error: self._host.post_message(EventLost(error)))

    def show_new_costs(self, message: AttemptStored) -> None:
        """Show the costs of the lines that were graded."""
        attempt, recording = message.stored.attempt, message.stored.recording
        if attempt is not None and recording is not None and attempt.source is not None:
            self.show_costs(CostsRead(message.exercise, attempt.source, recording))

    def read_traces_ahead(self, message: AttemptStored) -> None:
        """Read the traces in a thread, so that the timeline opens at once: NumPy alone takes 80 ms."""
        attempt, recording = message.stored.attempt, message.stored.recording
        if attempt is not None and recording is not None:
            self._in_thread(partial(self._read_traces, attempt, recording))

    def show_stored(self) -> None:
        """Show the progress that came with an attempt."""
        self._host.show_lists()
        if notice := self.writer.take_notice():
            self._host.status.show_news(notice)

    def not_stored(self, message: AttemptNotStored) -> None:
        """Report an attempt that is not in the progress file."""
        if isinstance(message.error, NotYetStored):
            self._host.status.show_news(message.error.title)
        else:
            self._host.show_error(message.error)

    def close(self) -> None:
        """Wait a moment for what is being stored; the end of the process waits for the rest."""
        self.writer.wait(1.0)

    # Progress

    @property
    def lessons(self) -> tuple[LessonRow, ...]:
        """All lessons with the state of their exercises."""
        nothing: dict[str, ExerciseProgress] = {}
        learner = self._host.learner
        progress = self._host.from_progress(learner.progress.summary, nothing)
        for key in self._passed:
            progress[key] = replace(progress.get(key, ExerciseProgress(attempts=1)), passed=True)
        return lesson_rows(learner.course, progress)

    def latest(self) -> Attempt | None:
        """Read the newest attempt at the exercise, also one that is just being stored."""
        self.writer.wait_for_attempts(BRIEFLY_S)
        return self._host.from_progress(partial(self._host.learner.progress.latest, self._host.exercise.key), None)

    def _ids(self) -> list[int]:
        """Ids of the attempts at the exercise, the newest first."""
        none: list[int] = []
        self.writer.wait_for_attempts(BRIEFLY_S)
        return self._host.from_progress(partial(self._host.learner.progress.ids, self._host.exercise.key), none)

    # Reports

    def show_all_text(self) -> None:
        """Show in full what the results pane has only the beginning of."""
        from gpututor.app.screens.help import AllTextScreen

        results = self._host.panes.results
        if not results.sections:
            self._host.status.show_answer("There are no results yet.")
            return
        self._host.push(AllTextScreen(results.sections, results.section))

    def show_history(self) -> None:
        """Show all attempts at the exercise."""
        from gpututor.app.screens.history import AttemptSource, HistoryScreen

        progress, exercise = self._host.learner.progress, self._host.exercise
        ids = self._ids()
        if not ids:
            self._host.status.show_answer("No attempt yet: ^s saves your file and runs the checks.")
            return
        try:
            starter = exercise.starter
        except CourseError:
            starter = ""
        shelf = AttemptSource(ids, progress.attempt, partial(progress.best, exercise.key))
        self._host.push(HistoryScreen(f"{exercise.label} {exercise.title}", shelf, starter), self._leave_history)

    async def _leave_history(self, chosen: Chosen | None) -> None:
        if chosen is None:
            return
        match chosen.what:
            case "report":
                self._show_attempt(chosen.attempt)
            case "text":
                self._take_back(chosen.attempt)
            case "device":
                await self._show_device_of(chosen.attempt)
            case "compare":
                await self._compare_attempt(chosen.attempt)

    def _show_attempt(self, attempt: Attempt) -> None:
        """Show the report of any attempt in the results pane; the file stays as it is."""
        host = self._host
        newest = self.latest()
        if newest is not None and attempt.id == newest.id and not host.running:
            self.show_last_report()
        elif host.running:
            host.status.show_answer("The checks are running: their results come first.")
            return
        else:
            when = moment(attempt.report.started_at, datetime.now().astimezone())
            news = f"This is attempt {attempt.number}, an older one ({when}). Your file is as it was."
            host.panes.add_class("ran")
            host.panes.results.show_report(attempt.report, attempt.source or "", news, older=True)
        host.show_pane(Pane.RESULTS)

    def _take_back(self, attempt: Attempt) -> None:
        """Put the text of an attempt into the editor; `.backups` has what was there, and undo brings it back."""
        host = self._host
        if attempt.source is None or not self._files.save_or_ask(partial(self._take_back, attempt)):
            return
        text = with_newlines(attempt.source)
        if text == host.editor_text:
            host.status.show_answer(f"Your file is that of attempt {attempt.number} already.")
        else:
            try:
                kept = self._files.back_up()
            except OSError as error:
                host.show_error(error)
                return
            host.panes.editor.replace_all(text)
            self._files.save()
            host.status.show_news(f"The text of attempt {attempt.number}. Kept: .backups/{kept.name}")
        host.show_pane(Pane.CODE)

    def show_last_report(self) -> None:
        """Show the newest attempt at the exercise, if there is one, and what its lines cost."""
        host = self._host
        attempt = self.latest()
        results = host.panes.results
        host.panes.set_class(attempt is not None, "ran")
        if attempt is None:
            results.show_nothing("○ Not run yet. ^s saves your file and runs the checks.", f"On {host.planned_device}")
        else:
            import hashlib

            report, text = attempt.report, host.editor_text
            same = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest() == report.submission_sha256
            results.show_report(report, text if same else attempt.source or "", "This is your last run.")
            results.compare_with(text)
        host.panes.editor.show_costs({})
        if attempt is not None:
            self._in_thread(partial(self._read_costs, host.exercise.key, attempt))

    def text_changed(self) -> None:
        """Mark the results of another text."""
        self._host.panes.results.compare_with(self._host.editor_text)

    # Costs at the editor's edge

    def _read_costs(self, exercise: str, attempt: Attempt) -> None:
        recording = self.recordings.read(attempt.id)
        if recording is not None and attempt.source is not None:
            self._host.post_message(CostsRead(exercise, attempt.source, recording))

    def show_costs(self, message: CostsRead) -> None:
        """Show the costs of an attempt's lines, if its exercise is open."""
        from gpututor.app.trace_view.model import cases_of

        if message.exercise == self._host.exercise.key:
            run = most_relevant_run(message.recording)
            costs = {line.line: line for line in run.lines} if run is not None else {}
            calls = len(cases_of(run)) if run is not None else 1
            self._host.panes.editor.show_costs(costs, run.times if run is not None else "", calls, of=message.source)

    # Devices

    def _read_traces(self, attempt: Attempt, recording: Recording) -> None:
        from gpututor.app.screens.trace import load_with_tabs

        view = self._view_of(attempt, recording)
        if view is not None:
            self._host.post_message(RecordingLoaded(attempt.report.exercise, attempt.id, load_with_tabs(view)))

    def recording_loaded(self, message: RecordingLoaded) -> None:
        """Keep the view for the device screen, and offer it."""
        self._last_view = (message.attempt, message.view)
        if message.exercise == self._host.exercise.key and not self._host.running:
            self._host.panes.results.offer("d shows what it did.")

    async def _read_view(self, attempt: Attempt) -> RunView | None:
        """Read the recording of an attempt; None where there is none. Keys wait for what is shown."""
        return await asyncio.to_thread(self._view_of, attempt)

    def _view_of(self, attempt: Attempt, recording: Recording | None = None) -> RunView | None:
        """Make a view with other attempts to compare with. Reads files: for a thread.

        `recording`: of this attempt, where it is read already.
        """
        view = self._view_alone(attempt, recording)
        return view and replace(view, others=self._others(attempt))

    def _view_alone(self, attempt: Attempt, recording: Recording | None = None) -> RunView | None:
        from gpututor.app.trace_view.model import first_view

        recording = recording or self.recordings.read(attempt.id)
        if recording is None:
            return None
        learner = self._host.learner
        exercise = next(each for each in learner.course.exercises if each.key == attempt.report.exercise)
        view = first_view(
            recording,
            attempt=attempt.number,
            title=f"{exercise.label} {exercise.title}",
            file_name=learner.workspace.path_of(exercise).name,
            source=attempt.source,
        )
        return view and replace(view, verdicts=attempt.report.verdicts, outcome=outcome_line(attempt.report))

    def _others(self, attempt: Attempt) -> tuple[OtherAttempt, ...]:
        """Read the best attempt and the one before, as far as they were recorded and are not this one."""
        from gpututor.app.trace_view.model import OtherAttempt

        progress, key = self._host.learner.progress, attempt.report.exercise
        try:
            best = progress.best(key)
            before = next(iter(progress.attempts(key, newest=1, before=attempt.id)), None)
        except ProgressError:
            return ()
        others = []
        if best is not None and best.id != attempt.id:
            also = ", the one before" if before is not None and before.id == best.id else ""
            others.append((f"best, attempt {best.number}{also}", best))
        if before is not None and (best is None or before.id != best.id):
            others.append((f"before, attempt {before.number}", before))
        read = [(words, self.recordings.read(other.id)) for words, other in others]
        return tuple(OtherAttempt(words, recording) for words, recording in read if recording is not None)

    async def show_device(self, tab: int = 0) -> None:
        """Show what the device did in the newest attempt; `tab` counts from 0."""
        await self._show_device_of(self.latest(), tab)

    async def _show_device_of(self, attempt: Attempt | None, tab: int = 0) -> None:
        running = self._host.running
        if attempt is None:
            screen = self._device_screen(None, RUNNING if running else NOTHING_RUN)
        else:
            known = self._last_view[1] if self._last_view is not None and self._last_view[0] == attempt.id else None
            nothing = why_nothing(attempt) + ("" if running else RUN_AGAIN)
            screen = self._device_screen(known or await self._read_view(attempt), nothing)
        screen.tabs.number = tab
        self._host.push(screen, partial(self._leave_device, attempt))

    def _device_screen(self, view: RunView | None, nothing: str) -> DeviceScreen:
        from gpututor.app.screens.trace import DeviceScreen, Tools

        tools = Tools(self._exports, self._others_to_compare, self.save_screen)
        return DeviceScreen(view, nothing, tools, running=self._host.running)

    def _leave_device(self, attempt: Attempt | None, answer: DeviceAnswer) -> None:
        if answer == "run":
            self._host.start_run()
        elif answer is not None and attempt is not None:
            self._host.post_message(LineChosen(answer, attempt.source))

    # Comparisons

    def _others_to_compare(self, view: RunView) -> tuple[Other, ...]:
        """Read the best attempt, the one before, the rest from the newest on; then the baselines. For a thread."""
        from gpututor.app.trace_view.comparison import Other, baselines_of

        learner = self._host.learner
        exercise = next(each for each in learner.course.exercises if each.label == view.title.partition(" ")[0])
        try:
            progress = learner.progress
            known = set(self.recordings.ids())
            best = progress.best(exercise.key)
            ids = [id_ for id_ in progress.ids(exercise.key) if id_ in known]
            attempts = [attempt for id_ in ids if (attempt := progress.attempt(id_)) is not None]
        except ProgressError:
            return tuple(baselines_of(view))
        attempts = [attempt for attempt in attempts if attempt.number != view.attempt]
        before = next((attempt for attempt in attempts if attempt.number < view.attempt), None)
        attempts.sort(key=lambda each: (best is None or each.id != best.id, each is not before, -each.number))
        others: list[Other] = []
        for attempt in attempts:
            theirs = self._view_alone(attempt)
            if theirs is not None:
                which = "best, " if best is not None and attempt.id == best.id else ""
                which += "the one before, " if attempt is before else ""
                others.append(Other(f"{which}attempt {attempt.number}", f"attempt {attempt.number}", theirs))
        return (*others, *baselines_of(view))

    async def compare(self) -> None:
        """Compare the newest attempt that was recorded with another one."""
        ids = self._ids()
        try:
            newest = await asyncio.to_thread(self._newest_recorded, ids)
        except ProgressError as error:
            self._host.show_error(error)
            return
        if newest is None:
            self._host.status.show_answer(NONE_RECORDED if ids else NO_ATTEMPT)
            return
        attempt, view = newest
        news = f"Of the newest attempt nothing was recorded: attempt {attempt.number} is the last that was."
        self._compare(attempt, view, news if attempt.id != ids[0] else "")

    def _newest_recorded(self, ids: list[int]) -> tuple[Attempt, RunView] | None:
        """Find it in attempts of which the newest comes first. For a thread. Raises `ProgressError`."""
        known = set(self.recordings.ids())
        for attempt in (self._host.learner.progress.attempt(id_) for id_ in ids if id_ in known):
            view = self._view_of(attempt) if attempt is not None else None
            if attempt is not None and view is not None:
                return attempt, view
        return None

    async def _compare_attempt(self, attempt: Attempt) -> None:
        view = await self._read_view(attempt)
        if view is None:
            self._host.status.show_answer(f"Of attempt {attempt.number} nothing was recorded: V compares the newest.")
            return
        self._compare(attempt, view)

    def _compare(self, attempt: Attempt, view: RunView, news: str = "") -> None:
        from gpututor.app.screens.compare import CompareScreen

        screen = CompareScreen(view, partial(self._others_to_compare, view), self.save_screen, news)
        self._host.push(screen, partial(self._leave_device, attempt))

    # Exports

    @property
    def _exports(self) -> Path:
        from gpututor.app.screens.trace import FOLDER

        return self._host.learner.workspace.folder / FOLDER

    def save_picture(self) -> None:
        """Write a picture of the screen."""
        self.save_screen(self._host.status.show_news)

    def save_screen(self, tell: Callable[[str], object]) -> None:
        """Write a picture of the screen that is shown; `tell` says later where it is."""
        from gpututor.app.screens.trace import export_picture

        exercise = self._host.exercise
        # 20 ms at 80x24, 40 ms at 200x60: only writing is left to the thread.
        svg = self._host.panes.app.export_screenshot(title=f"gpututor {exercise.label} {exercise.title}")
        self._in_thread(partial(self._export, partial(export_picture, self._exports, exercise.label, svg), tell))

    async def export_trace(self) -> None:
        """Write the trace of the newest attempt's longest call."""
        attempt = self.latest()
        view = await self._read_view(attempt) if attempt is not None else None
        if view is None:
            self._host.status.show_answer("Nothing was recorded yet that could be exported: r runs the checks.")
            return
        self._host.status.show_news("Writing the trace …")
        self._in_thread(partial(self._save_trace, view))

    def _save_trace(self, view: RunView) -> None:
        from gpututor.app.screens.trace import export_trace
        from gpututor.app.trace_view.model import load

        self._export(partial(export_trace, self._exports, load(view)), self._host.status.show_news)

    def _export(self, write: partial[Path], tell: Callable[[str], object]) -> None:
        try:
            self._host.post_message(FileExported(write(), None, tell))
        except TutorError as error:
            self._host.post_message(FileExported(None, error, tell))

    def exported(self, message: FileExported) -> None:
        """Report where a file was written, or why not."""
        if message.error is not None:
            self._host.show_error(message.error)
        elif message.path is not None:
            message.tell(f"Written: {self._exports.name}/{message.path.name}")

    @staticmethod
    def _in_thread(work: partial[None]) -> None:
        # A daemon: leaving the app waits for no disk.
        threading.Thread(target=work, daemon=True).start()


def why_nothing(attempt: Attempt) -> str:
    """Say why there is nothing to see of an attempt."""
    if not attempt.report.loads_nowhere:
        return NOT_RECORDED.format(number=attempt.number)
    failure = attempt.report.first_failure
    got = truncate(failure.got.partition("\n")[0], 200) if failure is not None else ""
    return DID_NOT_RUN.format(number=attempt.number, reason=f"\n\n{got}" if got else "")


def most_relevant_run(recording: Recording) -> RunRecording | None:
    """Return the run whose lines cost most; None where none did anything."""
    runs = [run for run in recording.runs if run.lines]
    return max(runs, key=lambda run: run.elapsed_ns, default=None)
