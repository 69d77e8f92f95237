"""Attempts at an exercise: saving them, and showing their history, traces, comparisons, line costs and exports."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from gpututor.app.commands import Pane
from gpututor.app.main.files import FileController
from gpututor.app.main.host import Host
from gpututor.app.messages import LineChosen
from gpututor.app.runtime import in_thread, write_log
from gpututor.app.wording import moment, sentence
from gpututor.errors import CourseError, ProgressError, TutorError
from gpututor.grading.outcome import Outcome
from gpututor.grading.report_text import line_after_pass, outcome_line
from gpututor.progress.attempt_writer import AttemptWriter, FinishedRun, NotYetStored, ProgressEvent
from gpututor.progress.database import BRIEFLY_S
from gpututor.progress.overview import LessonRow, lesson_rows
from gpututor.progress.store import Attempt, ExerciseProgress
from gpututor.text import truncate, with_newlines

if TYPE_CHECKING:
    from gpututor.app.screens.history import Chosen
    from gpututor.app.screens.trace import DeviceAnswer, DeviceScreen
    from gpututor.app.screens.what_if import WhatIfScreen
    from gpututor.app.trace_view.model import OtherRun, RunView
    from gpututor.course.model import Exercise
    from gpututor.grading.recording import Recording
    from gpututor.progress.recordings import Recordings, StoredAttempt

Answer = TypeVar("Answer")

_CONTENTS = "when each kernel and copy ran, what the host waited for, and which of your lines caused it."
_NOTHING_RUN = (
    "Nothing has been run yet.\n\nr saves your file and runs the checks. Then this screen shows what the device did:"
    f" {_CONTENTS}"
)


class AttemptController:
    """Saves attempts, and shows any of them."""

    def __init__(self, host: Host, files: FileController) -> None:
        self._host = host
        self._files = files
        self._passed: set[str] = set()
        """Keys of exercises passed in this session: the database may not have these passes yet."""
        self._last_view: tuple[int, RunView] | None = None
        """Id of an attempt and its recording, read ahead of time."""
        self._read: dict[int, Recording] = {}
        """Recordings read so far, by the attempts' ids."""
        self._reading = threading.Lock()

    # Saving

    @cached_property
    def writer(self) -> AttemptWriter:
        return AttemptWriter(self._host.learner.progress.path, log=write_log)

    @property
    def recordings(self) -> Recordings:
        """Recordings of the stored attempts; imported after the first paint."""
        return self.writer.recordings

    def _recording(self, id_: int) -> Recording | None:
        """Return the recording of an attempt, which is read once; None if there is none. For a thread."""
        with self._reading:
            if id_ not in self._read and (recording := self.recordings.read(id_)) is not None:
                self._read[id_] = recording
            return self._read.get(id_)

    def save(self, finished: FinishedRun) -> None:
        """Save an attempt at any exercise. Later, show that it is stored, or why not."""
        self.writer.save(finished, partial(self._host.call_later, self._saved))
        if finished.report.outcome is Outcome.PASSED:
            self._passed.add(finished.report.exercise)

    def _saved(self, stored: StoredAttempt | TutorError) -> None:
        if isinstance(stored, NotYetStored):
            self._host.status.show_message(stored.title)
        elif isinstance(stored, TutorError):
            self._host.show_error(stored)
        else:
            attempt, recording = stored.attempt, stored.recording
            if attempt is not None and recording is not None:
                self._read[attempt.id] = recording
                self._show_costs(attempt, recording)
                # So that the timeline opens at once: NumPy alone takes 80 ms.
                in_thread(self._read_traces, attempt)
            self._host.show_lists()
            if notice := self.writer.take_notice():
                self._host.status.show_message(notice)

    def record(self, event: ProgressEvent) -> None:
        """Save an event; the events and attempts are stored in the order in which they happened."""
        show = self._host.status.show_message
        self.writer.record(event, lambda error: self._host.call_later(show, error.title))

    def close(self) -> None:
        """Wait briefly for attempts that are being stored; the end of the process waits for the rest."""
        self.writer.wait(1.0)

    # Progress

    def from_progress(self, query: Callable[[], Answer], default: Answer) -> Answer:
        """Query the progress file; report an error in the status bar and return `default`."""
        try:
            return query()
        except TutorError as error:
            self._host.status.show_message(error.title)
            return default

    @property
    def lessons(self) -> tuple[LessonRow, ...]:
        """All lessons with the state of their exercises."""
        learner = self._host.learner
        progress: dict[str, ExerciseProgress] = self.from_progress(learner.progress.summary, {})
        for key in self._passed:
            progress[key] = replace(progress.get(key, ExerciseProgress(attempts=1)), passed=True)
        return lesson_rows(learner.course, progress)

    def latest(self) -> Attempt | None:
        """Read the newest attempt at the exercise, after a short wait for one that is being stored."""
        self.writer.wait_for_attempts(BRIEFLY_S)
        return self.from_progress(partial(self._host.learner.progress.latest, self._host.exercise.key), None)

    @property
    def has_any(self) -> bool:
        """True if an attempt at the exercise is stored."""
        ids = partial(self._host.learner.progress.ids, self._host.exercise.key, newest=1)
        newest: list[int] = self.from_progress(ids, [])
        return bool(newest)

    def _ids(self) -> list[int]:
        self.writer.wait_for_attempts(BRIEFLY_S)
        return self.from_progress(partial(self._host.learner.progress.ids, self._host.exercise.key), [])

    # Reports

    def show_all_text(self) -> None:
        """Show the full report; the results pane shows only the beginning of long texts."""
        from gpututor.app.screens.help import AllTextScreen

        results = self._host.panes.results
        if not results.sections:
            self._host.status.show_reply("There are no results yet.")
            return
        self._host.push(AllTextScreen(results.sections, results.section))

    def show_history(self) -> None:
        from gpututor.app.screens.history import AttemptSource, HistoryScreen

        progress, exercise = self._host.learner.progress, self._host.exercise
        ids = self._ids()
        if not ids:
            self._host.status.show_reply(
                f"No attempt yet: {self._host.key_now('run_checks')} saves your file and runs the checks."
            )
            return
        try:
            starter = exercise.starter
        except CourseError:
            starter = ""  # `gpututor doctor` reports it; the first attempt then shows all lines as new
        source = AttemptSource(ids, progress.attempt, partial(progress.best, exercise.key))
        self._host.push(HistoryScreen(f"{exercise.label} {exercise.title}", source, starter), self._leave_history)

    async def _leave_history(self, chosen: Chosen | None) -> None:
        if chosen is None:
            return
        attempt = chosen.attempt
        match chosen.what:
            case "report":
                self._show_attempt(attempt)
            case "text":
                self._restore_text(attempt)
            case "device":
                await self._show_device_of(attempt)
            case "compare":
                view = await asyncio.to_thread(self._view_of, attempt)
                if view is None:
                    key = self._host.letter_of("compare")
                    news = f"Attempt {attempt.number} has no trace. {key} compares the newest attempt."
                    self._host.status.show_reply(news)
                else:
                    self._compare(attempt, view)

    def _show_attempt(self, attempt: Attempt) -> None:
        """Show the report of any attempt in the results pane; the file stays as it is."""
        host = self._host
        if host.running:
            host.status.show_reply("The checks are running: wait for their results first.")
            return
        newest = self.latest()
        if newest is not None and attempt.id == newest.id:
            self.show_last_report()
        else:
            when = moment(attempt.report.started_at, datetime.now().astimezone())
            news = f"Attempt {attempt.number} ({when}). Your file is unchanged."
            host.panes.add_class("ran")
            host.panes.results.show_report(attempt.report, attempt.source or "", news, older=True)
        host.show_pane(Pane.RESULTS)

    def _restore_text(self, attempt: Attempt) -> None:
        """Put the text of an attempt into the editor. `.backups` gets the text before, and undo brings it back."""
        host = self._host
        if attempt.source is None or not self._files.save_or_ask(partial(self._restore_text, attempt)):
            return
        text = with_newlines(attempt.source)
        if text == host.editor_text:
            host.status.show_reply(f"Your file already matches attempt {attempt.number}.")
        else:
            try:
                backup = self._files.back_up()
            except OSError as error:
                host.show_error(error)
                return
            self._files.take_back(text)
            host.status.show_message(f"Loaded attempt {attempt.number}. Backup: .backups/{backup.name}")

    def show_last_report(self) -> None:
        """Show the newest attempt at the exercise, if there is one, and the costs of its lines."""
        host = self._host
        attempt = self.latest()
        results = host.panes.results
        host.panes.set_class(attempt is not None, "ran")
        host.panes.editor.show_costs({})
        if attempt is None:
            letter, key = host.letter_of("run_checks"), host.key_of("run_checks")
            results.show_nothing(
                f"○ Not run yet. {letter}, in the editor {key}, saves your file and runs the checks.",
                f"On {host.planned_device}",
            )
            return
        import hashlib

        report, text = attempt.report, host.editor_text
        same = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest() == report.submission_sha256
        steps = self.next_steps(host.exercise) if report.outcome is Outcome.PASSED else ""
        news = [
            "This is your last run.",
            steps,
            line_after_pass(report, host.exercise.timeline, host.exercise.left_to_instructor),
        ]
        results.show_report(report, text if same else attempt.source or "", "\n".join(filter(None, news)))
        results.compare_with(text)
        in_thread(self._read_costs, attempt)

    def next_steps(self, exercise: Exercise) -> str:
        """Return the keys that a learner may want after a pass."""
        solution, following_key = map(self._host.key_now, ("show_solution", "next_exercise"))
        following = self._host.learner.course.after(exercise)
        opens = f"; {following_key} opens {following.label} {following.title}" if following else ""
        return sentence(f"{solution} compares with the solution{opens}")

    def text_changed(self) -> None:
        """Mark the results if the text has changed since their run."""
        self._host.panes.results.compare_with(self._host.editor_text)

    # Costs at the editor's edge

    def _read_costs(self, attempt: Attempt) -> None:
        recording = self._recording(attempt.id)
        if recording is not None:
            self._host.call_later(self._show_costs, attempt, recording)

    def _show_costs(self, attempt: Attempt, recording: Recording) -> None:
        """Show the costs of an attempt's lines, in the run whose lines cost most, if its exercise is open."""
        from gpututor.app.trace_view.model import cases_of

        if attempt.source is None or attempt.report.exercise != self._host.exercise.key:
            return
        editor, runs = self._host.panes.editor, [run for run in recording.runs if run.lines]
        if runs:
            run = max(runs, key=lambda run: run.elapsed_ns)
            costs = {line.line: line for line in run.lines}
            editor.show_costs(costs, run.times, len(cases_of(run)), of=attempt.source)
        else:
            editor.show_costs({})

    # Devices

    def _read_traces(self, attempt: Attempt) -> None:
        from gpututor.app.screens.trace import load_with_tabs

        view = self._view_of(attempt)
        if view is not None:
            self._host.call_later(self._traces_read, attempt, load_with_tabs(view))

    def _traces_read(self, attempt: Attempt, view: RunView) -> None:
        """Keep the view for the device screen, and offer it."""
        self._last_view = (attempt.id, view)
        if attempt.report.exercise == self._host.exercise.key and not self._host.running:
            self._host.panes.results.offer(f"{self._host.key_now('show_device')} shows the timeline.")

    def _view_of(self, attempt: Attempt) -> RunView | None:
        """Return a view that knows other attempts; None if there is no recording. For a thread: it reads files.

        If the progress file cannot be read, the view knows no others, and the status bar says why.
        """
        view = self._single_view(attempt)
        others: Sequence[OtherRun] = ()
        try:
            others = self._other_attempts(view) if view is not None else ()
        except ProgressError as error:
            self._host.call_later(self._host.status.show_message, error.title)
        return view and replace(view, others=tuple(other for other in others if other.is_best_or_before))

    def _single_view(self, attempt: Attempt) -> RunView | None:
        from gpututor.app.trace_view.model import first_view

        recording = self._recording(attempt.id)
        if recording is None:
            return None
        learner = self._host.learner
        exercise = next(exercise for exercise in learner.course.exercises if exercise.key == attempt.report.exercise)
        view = first_view(
            recording,
            attempt=attempt.number,
            title=f"{exercise.label} {exercise.title}",
            file_name=learner.workspace.path_of(exercise).name,
            source=attempt.source,
        )
        if view is None:
            return None
        report = attempt.report
        seed = report.environment.seed
        return replace(view, verdicts=report.verdicts, outcome=outcome_line(report), seed=seed).at_failure()

    async def show_device(self, tab: int = 0) -> None:
        """Show what the device did in the newest attempt; `tab` counts from 0."""
        await self._show_device_of(self.latest(), tab)

    async def show_what_if(self) -> None:
        """Show the newest attempt on other models of the virtual GPU, above the device screen."""
        device = await self._show_device_of(self.latest())
        device.call_after_refresh(device.action_what_if)

    async def _show_device_of(self, attempt: Attempt | None, tab: int = 0) -> DeviceScreen:
        running = self._host.running
        if attempt is None:
            key = self._host.letter_of("show_device")
            under_way = f"A run is under way.\n\nWhen it has ended, {key} shows what the device did: {_CONTENTS}"
            screen = self._device_screen(None, under_way if running else _NOTHING_RUN)
        else:
            if self._last_view is not None and self._last_view[0] == attempt.id:
                view: RunView | None = self._last_view[1]
            else:
                view = await asyncio.to_thread(self._view_of, attempt)
            advice = "" if running else "\n\nr runs the checks again."
            screen = self._device_screen(view, why_no_trace(attempt) + advice)
        screen.tabs.number = tab
        self._host.push(screen, partial(self._leave_device, attempt))
        return screen

    def _device_screen(self, view: RunView | None, nothing: str) -> DeviceScreen:
        from gpututor.app.screens.trace import DeviceScreen, Tools

        tools = Tools(self._export_view, self._others_to_compare, self.save_screen, self._what_if)
        return DeviceScreen(view, nothing, tools, running=self._host.running)

    def _exercise_of(self, view: RunView) -> Exercise:
        label = view.title.partition(" ")[0]
        return next(exercise for exercise in self._host.learner.course.exercises if exercise.label == label)

    def _what_if(self, view: RunView) -> WhatIfScreen:
        from gpututor.app.screens.what_if import WhatIfScreen
        from gpututor.grading.events import GradeRequest

        folder = str(self._exercise_of(view).folder)
        request = GradeRequest(folder, view.source or "", view.file_name, device="virtual", seed=view.seed)
        return WhatIfScreen(view, request, self._host.client, self.recordings)

    def _leave_device(self, attempt: Attempt | None, answer: DeviceAnswer) -> None:
        if answer == "run":
            self._host.start_run()
        elif answer is not None and attempt is not None:
            self._host.post_message(LineChosen(answer, attempt.source))

    # Comparisons

    def _others_to_compare(self, view: RunView) -> tuple[OtherRun, ...]:
        """Read the other attempts, then the baselines. For a thread. Raises `ProgressError`."""
        from gpututor.app.trace_view.comparison import baselines_of

        return (*self._other_attempts(view), *baselines_of(view))

    def _other_attempts(self, view: RunView) -> list[OtherRun]:
        """Read the best attempt, the previous one, and the rest, newest first. For a thread. Raises `ProgressError`."""
        from gpututor.app.trace_view.model import OtherRun

        progress, key = self._host.learner.progress, self._exercise_of(view).key
        best = progress.best(key)
        attempts = [attempt for attempt in self._recorded(progress.ids(key)) if attempt.number != view.attempt]
        best_id = best.id if best is not None else None
        before = next((attempt for attempt in attempts if attempt.number < view.attempt), None)
        attempts.sort(key=lambda attempt: (attempt.id != best_id, attempt is not before, -attempt.number))
        others: list[OtherRun] = []
        for attempt in attempts:
            other = self._single_view(attempt)
            if other is not None:
                which = "best, " if attempt.id == best_id else ""
                which += "the previous one, " if attempt is before else ""
                others.append(OtherRun(f"{which}attempt {attempt.number}", f"attempt {attempt.number}", other))
        return others

    def _recorded(self, ids: Iterable[int]) -> Iterator[Attempt]:
        """Read the attempts that have a recording. Raises `ProgressError`."""
        recorded, read = set(self.recordings.ids()), self._host.learner.progress.attempt
        return (attempt for id_ in ids if id_ in recorded and (attempt := read(id_)) is not None)

    async def compare(self) -> None:
        """Compare the newest attempt that was recorded with another attempt."""
        ids = self._ids()
        try:
            newest = await asyncio.to_thread(self._newest_recorded, ids)
        except ProgressError as error:
            self._host.show_error(error)
            return
        if newest is None:
            key = self._host.key_now("run_checks")
            none = f"No attempt to compare yet: {key} runs the checks."
            unrecorded = f"No attempt has a trace yet: every run ended before it used a device. {key} runs again."
            self._host.status.show_reply(unrecorded if ids else none)
            return
        attempt, view = newest
        news = f"The newest attempt has no trace. This is attempt {attempt.number}."
        self._compare(attempt, view, news if attempt.id != ids[0] else "")

    def _newest_recorded(self, ids: list[int]) -> tuple[Attempt, RunView] | None:
        """Return the first of some attempts that has a recording. For a thread. Raises `ProgressError`."""
        views = ((attempt, self._view_of(attempt)) for attempt in self._recorded(ids))
        return next(((attempt, view) for attempt, view in views if view is not None), None)

    def _compare(self, attempt: Attempt, view: RunView, news: str = "") -> None:
        from gpututor.app.screens.compare import CompareScreen

        screen = CompareScreen(view, partial(self._others_to_compare, view), self.save_screen, news)
        self._host.push(screen, partial(self._leave_device, attempt))

    # Exports

    @property
    def _exports(self) -> Path:
        from gpututor.app.screens.trace import FOLDER

        return self._host.learner.workspace.folder / FOLDER

    def save_screen(self, show: Callable[[str], object] | None = None) -> None:
        """Write a picture of the screen that is shown; call `show` with its path, by default the status bar's."""
        from gpututor.app.screens.trace import export

        exercise = self._host.exercise
        # 20 ms at 80x24, 40 ms at 200x60: only writing is left to the thread.
        svg = self._host.panes.app.export_screenshot(title=f"gpututor {exercise.label} {exercise.title}")
        write = partial(export, self._exports, f"{exercise.label}-screen", ".svg", lambda stream: stream.write(svg))
        in_thread(self._export, write, show or self._host.status.show_reply)

    async def export_trace(self) -> None:
        attempt = self.latest()
        view = await asyncio.to_thread(self._view_of, attempt) if attempt is not None else None
        if view is None:
            key = self._host.letter_of("run_checks")
            self._host.status.show_reply(f"There is no trace to export yet: {key} runs the checks.")
            return
        self._export_view(view, self._host.status.show_reply)

    def _export_view(self, view: RunView, show: Callable[[str], object]) -> None:
        from gpututor.app.screens.trace import export_trace

        show("Writing the trace …")
        in_thread(self._export, partial(export_trace, self._exports, view), show, ", for https://ui.perfetto.dev")

    def _export(self, write: Callable[[], Path], show: Callable[[str], object], advice: str = "") -> None:
        try:
            path = write()
        except TutorError as error:
            self._host.call_later(show, "Nothing was written.")
            self._host.call_later(self._host.show_error, error)
        else:
            self._host.call_later(show, f"Written: {self._exports.name}/{path.name}{advice}")


def why_no_trace(attempt: Attempt) -> str:
    if not attempt.report.loads_nowhere:
        return f"Attempt {attempt.number} has no trace: it is too old, did not use a device, or could not be recorded."
    failure = attempt.report.first_failure
    got = truncate(failure.got.partition("\n")[0], 200) if failure is not None else ""
    words = f"Attempt {attempt.number} did nothing on a device: its file could not be run."
    return f"{words}\n\n{got}" if got else words
