"""The part of the main screen that sets a run beside others: costs at the editor's edge, comparisons, exports."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from textual import on

from gpututor.app.main.seeing import SeeScreen
from gpututor.app.messages import AttemptKept, CostsRead, FileExported
from gpututor.errors import ProgressError, TutorError
from gpututor.progress.store import Attempt

if TYPE_CHECKING:
    from gpututor.app.screens.device import DeviceScreen
    from gpututor.app.widgets.device.beside import Other
    from gpututor.app.widgets.device.view import OtherAttempt, RunView
    from gpututor.grading.recording import Recording, RunRecording

NO_ATTEMPT = "No attempt yet that could be compared: ^s runs the checks."
NONE_RECORDED = "No attempt was recorded yet: each stopped too early. ^s runs again."


class ShowScreen(SeeScreen):
    """A desk whose runs can be compared."""

    # Costs at the editor's edge

    def show_last_report(self) -> None:
        super().show_last_report()
        self.panes.editor.show_costs({})
        self._in_thread(partial(self._read_costs, self.exercise.key, None))

    @on(AttemptKept)
    def _read_new_costs(self, message: AttemptKept) -> None:
        self._in_thread(partial(self._read_costs, message.exercise, message.id))

    def _read_costs(self, exercise: str, attempt_id: int | None) -> None:
        """Read what lines cost in an attempt, or in the newest one; it is posted."""
        try:
            progress = self.learner.progress
            attempt = progress.latest(exercise) if attempt_id is None else progress.attempt(attempt_id)
        except ProgressError:
            return  # it is told where it matters
        recording = self.recordings.read(attempt.id) if attempt is not None else None
        if attempt is not None and recording is not None and attempt.source is not None:
            self.post_message(CostsRead(exercise, attempt.source, recording))

    @on(CostsRead)
    def _show_costs(self, message: CostsRead) -> None:
        from gpututor.app.widgets.device.view import cases_of

        if message.exercise == self.exercise.key:
            run = telling_run(message.recording)
            costs = {line.line: line for line in run.lines} if run is not None else {}
            calls = len(cases_of(run)) if run is not None else 1
            self.panes.editor.show_costs(costs, run.times if run is not None else "", calls, of=message.source)

    # Beside others

    def _view_of(self, attempt: Attempt) -> RunView | None:
        view = super()._view_of(attempt)
        return view and replace(view, others=self._others(attempt))

    def _others(self, attempt: Attempt) -> tuple[OtherAttempt, ...]:
        """The best attempt and the one before, as far as they were recorded and are not this one."""
        from gpututor.app.widgets.device.view import OtherAttempt

        try:
            best, before = self.attempts_beside(attempt)
        except ProgressError:
            return ()
        found = []
        if best is not None:
            also = ", the one before" if before is not None and before.id == best.id else ""
            found.append((f"best, attempt {best.number}{also}", best))
        if before is not None and (best is None or before.id != best.id):
            found.append((f"before, attempt {before.number}", before))
        read = [(words, self.recordings.read(one.id)) for words, one in found]
        return tuple(OtherAttempt(words, recording) for words, recording in read if recording is not None)

    def attempts_beside(self, attempt: Attempt) -> tuple[Attempt | None, Attempt | None]:
        """The best attempt at the same exercise and the one before this; None for this one. Raises `ProgressError`."""
        progress, key = self.learner.progress, attempt.report.exercise
        best = progress.best(key)
        before = next(iter(progress.attempts(key, newest=1, before=attempt.id)), None)
        return best if best is None or best.id != attempt.id else None, before

    def make_device_screen(self, view: RunView | None, nothing: str) -> DeviceScreen:
        from gpututor.app.screens.device_tools import DeviceToolsScreen, Tools

        tools = Tools(self._exports, self._others_to_compare, self.save_screen)
        return DeviceToolsScreen(view, nothing, tools, running=self.running)

    def _others_to_compare(self, view: RunView) -> tuple[Other, ...]:
        """The best attempt, the one before, the rest from the newest on; then the baselines. For a thread."""
        from gpututor.app.widgets.device.beside import Other, baselines_of

        exercise = next(one for one in self.learner.course.exercises if one.label == view.title.partition(" ")[0])
        try:
            progress = self.learner.progress
            known = set(self.recordings.ids())
            best = progress.best(exercise.key)
            ids = [id_ for id_ in progress.ids(exercise.key) if id_ in known]
            attempts = [one for id_ in ids if (one := progress.attempt(id_)) is not None]
        except ProgressError:
            return tuple(baselines_of(view))
        others = [one for one in attempts if one.number != view.attempt]
        before = next((one for one in others if one.number < view.attempt), None)
        others.sort(key=lambda one: (best is None or one.id != best.id, one is not before, -one.number))
        found: list[Other] = []
        for one in others:
            theirs = super()._view_of(one)
            if theirs is not None:
                which = "best, " if best is not None and one.id == best.id else ""
                which += "the one before, " if one is before else ""
                found.append(Other(f"{which}attempt {one.number}", f"attempt {one.number}", theirs))
        return (*found, *baselines_of(view))

    async def action_compare(self) -> None:
        """Set the newest attempt of which anything was recorded beside another one."""
        none: list[int] = []
        ids = self.from_progress(partial(self.learner.progress.ids, self.exercise.key), none)
        try:
            found = await asyncio.to_thread(self._newest_recorded, ids)
        except ProgressError as error:
            self.show_error(error)
            return
        if found is None:
            self.status.show_answer(NONE_RECORDED if ids else NO_ATTEMPT)
            return
        attempt, view = found
        news = f"Of the newest attempt nothing was recorded: attempt {attempt.number} is the last that was."
        self._compare(attempt, view, news if attempt.id != ids[0] else "")

    def _newest_recorded(self, ids: list[int]) -> tuple[Attempt, RunView] | None:
        """Of attempts, the newest first. Reads files: for a thread. Raises `ProgressError`."""
        known = set(self.recordings.ids())
        for attempt in (self.learner.progress.attempt(id_) for id_ in ids if id_ in known):
            view = self._view_of(attempt) if attempt is not None else None
            if attempt is not None and view is not None:
                return attempt, view
        return None

    async def compare_attempt(self, attempt: Attempt) -> None:
        """Set an attempt at the exercise that is open beside another one."""
        view = await self.view_of(attempt)
        if view is None:
            self.status.show_answer(f"Of attempt {attempt.number} nothing was recorded: V compares the newest.")
            return
        self._compare(attempt, view)

    def _compare(self, attempt: Attempt, view: RunView, news: str = "") -> None:
        from gpututor.app.screens.compare import CompareScreen

        screen = CompareScreen(view, partial(self._others_to_compare, view), self.save_screen, news)
        self.app.push_screen(screen, partial(self._after_device, attempt))

    # Exports

    @property
    def _exports(self) -> Path:
        from gpututor.app.exports import FOLDER

        return self.learner.workspace.folder / FOLDER

    def action_save_screen(self) -> None:
        """Write a picture of the screen."""
        self.save_screen(self.status.show_news)

    def save_screen(self, tell: Callable[[str], object]) -> None:
        """Write a picture of the screen that is shown; `tell` is told later where it is."""
        from gpututor.app.exports import export_picture

        # 20 ms at 80x24, 40 ms at 200x60: only writing is left to the thread.
        svg = self.app.export_screenshot(title=f"gpututor {self.exercise.label} {self.exercise.title}")
        self._in_thread(partial(self._export, partial(export_picture, self._exports, self.exercise.label, svg), tell))

    async def action_export_trace(self) -> None:
        """Write the trace of the newest attempt's longest call."""
        attempt = self.from_progress(partial(self.learner.progress.latest, self.exercise.key), None)
        view = await self.view_of(attempt) if attempt is not None else None
        if view is None:
            self.status.show_answer("Nothing was recorded yet that could be exported: r runs the checks.")
            return
        self.status.show_news("Writing the trace …")
        self._in_thread(partial(self._save_trace, view))

    def _save_trace(self, view: RunView) -> None:
        from gpututor.app.exports import export_trace
        from gpututor.app.widgets.device.view import load

        self._export(partial(export_trace, self._exports, load(view)), self.status.show_news)

    def _export(self, write: partial[Path], tell: Callable[[str], object]) -> None:
        try:
            self.post_message(FileExported(write(), None, tell))
        except TutorError as error:
            self.post_message(FileExported(None, error, tell))

    @on(FileExported)
    def _tell_of_export(self, message: FileExported) -> None:
        if message.error is not None:
            self.show_error(message.error)
        elif message.path is not None:
            message.tell(f"Written: {self._exports.name}/{message.path.name}")

    @staticmethod
    def _in_thread(work: partial[None]) -> None:
        # A daemon: leaving the app waits for no disk.
        threading.Thread(target=work, daemon=True).start()


def telling_run(recording: Recording) -> RunRecording | None:
    """The run whose lines cost most; None where none did anything."""
    runs = [run for run in recording.runs if run.lines]
    return max(runs, key=lambda run: run.elapsed_ns, default=None)
