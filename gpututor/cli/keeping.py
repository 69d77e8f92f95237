"""Keeping the attempts of the plain verbs as the app keeps its own: with the text, and with what the devices did."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from gpututor import paths
from gpututor.cli.places import open_progress
from gpututor.course.exercise import Course
from gpututor.errors import TutorError
from gpututor.grading.events import GradeRequest
from gpututor.grading.report import Report


class Keeping:
    """Of one attempt: first `asked`, then `keep` or `discard`."""

    def __init__(self, course: Course) -> None:
        from gpututor.progress.recordings import Recordings  # with SQLite, which few verbs need

        self._course = course
        self._recordings = Recordings(paths.progress_file(course.place).with_name("recordings"))
        self._part: Path | None = None

    def asked(self, request: GradeRequest) -> GradeRequest:
        """The request, with a folder for what the devices do."""
        self._part = self._recordings.begin()
        return request if self._part is None else replace(request, recording_folder=str(self._part))

    def keep(self, report: Report, source: str) -> None:
        """Raises `ProgressError` where the attempt cannot be kept."""
        from gpututor.progress.recordings import keep_attempt, prune_recordings

        with open_progress(self._course) as progress:
            try:
                keep_attempt(progress, self._recordings, report, source, self._part)
            except TutorError:
                self.discard()
                raise
            prune_recordings(progress, self._recordings, report.exercise)

    def discard(self) -> None:
        """There is no attempt."""
        self._recordings.discard(self._part)
