"""The part of the main screen that shows what the devices did in a run."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from textual import on

from gpututor.app.main.running import RunScreen
from gpututor.app.messages import AttemptKept, LineChosen, RecordingLoaded
from gpututor.grading.words import outcome_line
from gpututor.plain_text import shortened
from gpututor.progress.store import Attempt

if TYPE_CHECKING:
    from gpututor.app.screens.device import DeviceAnswer, DeviceScreen
    from gpututor.app.widgets.device.view import RunView

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


class SeeScreen(RunScreen):
    """A desk from which one can look at what a run did."""

    _last_view: tuple[int, RunView] | None = None
    """An attempt's id, and what was read of it ahead of time."""

    @on(AttemptKept)
    def _read_recording_ahead(self, message: AttemptKept) -> None:
        """Read the traces in a thread, so that the timeline opens at once: NumPy alone takes 80 ms."""
        threading.Thread(target=self._read_recording, args=(message.exercise, message.id), daemon=True).start()

    def _read_recording(self, exercise: str, attempt_id: int) -> None:
        from gpututor.app.screens.device import load_with_tabs
        from gpututor.errors import ProgressError

        try:
            attempt = self.learner.progress.attempt(attempt_id)
        except ProgressError:
            return  # it is told when the learner asks for it
        view = self._view_of(attempt) if attempt is not None else None
        if view is not None:
            self.post_message(RecordingLoaded(exercise, attempt_id, load_with_tabs(view)))

    @on(RecordingLoaded)
    def _keep_recorded_view(self, message: RecordingLoaded) -> None:
        self._last_view = (message.attempt, message.view)
        if message.exercise == self.exercise.key and not self.running:
            self.panes.results.offer("d shows what it did.")

    async def view_of(self, attempt: Attempt) -> RunView | None:
        """What was recorded of an attempt; None where nothing was. Keys that come meanwhile wait for what is shown."""
        return await asyncio.to_thread(self._view_of, attempt)

    def _view_of(self, attempt: Attempt) -> RunView | None:
        """What was recorded of an attempt; None where nothing was. Reads files: for a thread."""
        from gpututor.app.widgets.device.view import first_view

        recording = self.recordings.read(attempt.id)
        if recording is None:
            return None
        exercise = next(one for one in self.learner.course.exercises if one.key == attempt.report.exercise)
        view = first_view(
            recording,
            attempt=attempt.number,
            title=f"{exercise.label} {exercise.title}",
            file_name=self.learner.workspace.path_of(exercise).name,
            source=attempt.source,
        )
        return view and replace(view, verdicts=attempt.report.verdicts, outcome=outcome_line(attempt.report))

    async def action_show_device(self, tab: int = 0) -> None:
        """Show what the device did in the newest attempt; `tab` counts from 0."""
        attempt = self.from_progress(partial(self.learner.progress.latest, self.exercise.key), None)
        await self.see_attempt(attempt, tab)

    async def see_attempt(self, attempt: Attempt | None, tab: int = 0) -> None:
        """Show what the device did in an attempt at the exercise that is open."""
        if attempt is None:
            screen = self.make_device_screen(None, RUNNING if self.running else NOTHING_RUN)
        else:
            known = self._last_view[1] if self._last_view is not None and self._last_view[0] == attempt.id else None
            nothing = why_nothing(attempt) + ("" if self.running else RUN_AGAIN)
            screen = self.make_device_screen(known or await self.view_of(attempt), nothing)
        screen.tab_number = tab
        self.app.push_screen(screen, partial(self._after_device, attempt))

    def make_device_screen(self, view: RunView | None, nothing: str) -> DeviceScreen:
        """The screen to be shown; the layers above add to what it can do."""
        from gpututor.app.screens.device import DeviceScreen

        return DeviceScreen(view, nothing, running=self.running)

    def _after_device(self, attempt: Attempt | None, answer: DeviceAnswer) -> None:
        if answer == "run":
            self.start_run()
        elif answer is not None and attempt is not None:
            self.post_message(LineChosen(answer, attempt.source))


def why_nothing(attempt: Attempt) -> str:
    """Why there is nothing to see of an attempt."""
    if not attempt.report.loads_nowhere:
        return NOT_RECORDED.format(number=attempt.number)
    failure = attempt.report.first_failure
    got = shortened(failure.got.partition("\n")[0], 200) if failure is not None else ""
    return DID_NOT_RUN.format(number=attempt.number, reason=f"\n\n{got}" if got else "")
