"""The part of the main screen that sets a run beside others: costs at the editor's edge, comparisons, exports."""

from __future__ import annotations

import threading
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from textual import on

from gpututor.app.main.seeing import SeeScreen
from gpututor.app.messages import AttemptKept, CostsRead
from gpututor.errors import ProgressError
from gpututor.grading.recording import Recording, RunRecording
from gpututor.progress.store import Attempt

if TYPE_CHECKING:
    from gpututor.app.widgets.device.view import OtherAttempt, RunView


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
        if message.exercise == self.exercise.key:
            run = telling_run(message.recording)
            costs = {line.line: line for line in run.lines} if run is not None else {}
            self.panes.editor.show_costs(costs, run.times if run is not None else "", of=message.source)

    # Beside others

    def _view_of(self, attempt: Attempt) -> RunView | None:
        view = super()._view_of(attempt)
        return view and replace(view, verdicts=attempt.report.verdicts, others=self._others(attempt))

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

    @staticmethod
    def _in_thread(work: partial[None]) -> None:
        # A daemon: leaving the app waits for no disk.
        threading.Thread(target=work, daemon=True).start()


def telling_run(recording: Recording) -> RunRecording | None:
    """The run whose lines cost most; None where none did anything."""
    runs = [run for run in recording.runs if run.lines]
    return max(runs, key=lambda run: run.elapsed_ns, default=None)
