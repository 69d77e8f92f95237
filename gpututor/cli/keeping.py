"""Keeping the attempts of the plain verbs as the app keeps its own: with the text, and with what the devices did."""

from __future__ import annotations

import contextlib
import sys
from dataclasses import replace
from pathlib import Path

from gpututor import paths
from gpututor.cli.places import open_progress, tell
from gpututor.course.exercise import Course
from gpututor.errors import ProgressError
from gpututor.grading.events import GradeRequest
from gpututor.grading.report import Report
from gpututor.plain_text import visible


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
        """Record the attempt; where that cannot be done now, say so on stderr and keep it next to the progress file."""
        from gpututor.progress.recordings import keep_attempt, prune_recordings

        try:
            with open_progress(self._course) as progress:
                keep_attempt(progress, self._recordings, report, source, self._part)
                self._part = None
                with contextlib.suppress(ProgressError):  # tried again after the next run
                    prune_recordings(progress, self._recordings, report.exercise)
        except ProgressError as error:
            tell(error)
            self._put_aside(report, source)

    def _put_aside(self, report: Report, source: str) -> None:
        from gpututor.progress.unkept import put_attempt_aside

        try:
            folder = put_attempt_aside(paths.progress_file(self._course.place), report, source, self._part)
        except OSError:
            self.discard()
            return
        print(f"The attempt is in {visible(str(folder))}, and is recorded at the next start.", file=sys.stderr)

    def discard(self) -> None:
        """There is no attempt."""
        self._recordings.discard(self._part)
