"""The part of the main screen that keeps the attempts at an exercise, and shows older ones."""

from __future__ import annotations

import hashlib
import threading
from functools import partial
from pathlib import Path

from gpututor.app.main.editing import EditScreen
from gpututor.app.main.saving import Learner
from gpututor.app.messages import AttemptKept
from gpututor.course.exercise import Exercise
from gpututor.errors import ProgressError
from gpututor.grading.report import Report
from gpututor.progress.recordings import Recordings, keep_attempt, prune_recordings


class AttemptsScreen(EditScreen):
    """A desk with the attempts at its exercise."""

    def __init__(self, learner: Learner, exercise: Exercise) -> None:
        super().__init__(learner, exercise)
        self.recordings = Recordings.beside(learner.progress)
        self._pruner: threading.Thread | None = None

    @property
    def planned_device(self) -> str:
        """Where the next run will be; the layer above knows."""
        return ""

    def keep_attempt(self, report: Report, source: str, part: Path | None) -> None:
        """Record an attempt at any exercise, with what was recorded in `part`. Raises `ProgressError`."""
        attempt = keep_attempt(self.learner.progress, self.recordings, report, source, part)
        self.post_message(AttemptKept(report.exercise, attempt))
        self._pruner = threading.Thread(target=self._prune, args=(report.exercise,), daemon=True)
        self._pruner.start()

    def on_unmount(self) -> None:
        if self._pruner is not None:
            self._pruner.join(1.0)

    def _prune(self, key: str) -> None:
        try:
            prune_recordings(self.learner.progress, self.recordings, key)
        except ProgressError:
            return  # it is tried again after the next run

    def action_all_text(self) -> None:
        """Show in full what the results pane has only the beginning of."""
        from gpututor.app.screens.all_text import AllTextScreen

        results = self.panes.results
        if not results.sections:
            self.status.show_news("There are no results yet.")
            return
        self.app.push_screen(AllTextScreen(results.sections, results.section))

    def show_last_report(self) -> None:
        """Show the newest attempt at the exercise, if there is one."""
        attempt = self.from_progress(partial(self.learner.progress.latest, self.exercise.key), None)
        results = self.panes.results
        self.panes.set_class(attempt is not None, "ran")
        if attempt is None:
            results.show_nothing("○ Not run yet. ^s saves your file and runs the checks.", f"On {self.planned_device}")
            return
        report = attempt.report
        text = self.editor_text
        same = hashlib.sha256(text.encode()).hexdigest() == report.submission_sha256
        news = "This is your last run." if same else "This is your last run; your file has changed since."
        results.show_report(report, text if same else attempt.source or "", news)
