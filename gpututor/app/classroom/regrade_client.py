"""Regrading of submissions for the instructor, one at a time, in threads."""

from __future__ import annotations

from pathlib import Path

from gpututor.classroom.folder import ClassFolder
from gpututor.classroom.gradebook.model import ScoredAttempt
from gpututor.classroom.history import author
from gpututor.classroom.jobs import Job
from gpututor.classroom.regrade import accept_regrade, regrade_job, regrade_request
from gpututor.errors import TutorError, UsageError
from gpututor.grading.client import GradingService
from gpututor.grading.events import GradeRequest
from gpututor.grading.journal import GradingKey
from gpututor.grading.recording import FILE, Recording
from gpututor.grading.report import Report
from gpututor.progress.recordings import Recordings


class RegradeClient:
    """Regrades submissions of a class folder, and stores recordings and reports there."""

    def __init__(self, folder: ClassFolder, client: GradingService, course_folder: Path | None = None) -> None:
        self.folder = folder
        self.client = client
        self.recordings = Recordings(folder.recordings)
        self._course_folder = course_folder

    def prepare(self, attempt: ScoredAttempt, *, records: bool) -> tuple[GradeRequest, Path | None]:
        """Return the request for the judge, and the folder for the recording. For a thread. Raises `TutorError`.

        With `records`, the judge records what the devices do; else the folder is None.
        """
        part = None
        try:
            job = self._job(attempt)
            part = self.recordings.create_pending() if records else None
            if records and part is None:
                raise UsageError(
                    f"{self.folder.recordings} cannot be written to.",
                    "Free some space, or give yourself write permission.",
                )
            return regrade_request(job, part), part
        except TutorError:
            self.recordings.discard(part)
            raise
        except OSError as error:
            self.recordings.discard(part)
            advice = "Check that the file exists and that you can read it. Then try again."
            raise UsageError(f"It cannot be graded again: {error}", advice) from error

    def _job(self, attempt: ScoredAttempt) -> Job:
        job = regrade_job(self.folder, attempt.submission, self._course_folder)
        if attempt.key is not None and job.key != attempt.key:
            raise UsageError("The class was graded with other options meanwhile.", "F5 reads it again.")
        return job

    def keep_recording(self, key: GradingKey, part: Path) -> Recording | None:
        """Store the recording in `part`, if there is one, and return it. Raises `UsageError`."""
        if not (part / FILE).is_file():
            self.recordings.discard(part)
            return None
        if not self.recordings.adopt(part, key.name) and self.recordings.path(key.name) is None:
            advice = f"Check that you can write to {self.folder.recordings}."
            raise UsageError("The recording of the devices cannot be stored.", advice)
        self.recordings.prune_oldest()
        return self.recordings.read(key.name)

    def take(self, attempt: ScoredAttempt, key: GradingKey, report: Report) -> Path | None:
        """Replace the report in the journal; return the old one's path. Raises `UsageError` if it cannot be written."""
        try:
            return accept_regrade(self.folder, attempt.submission, key, report, author(None))
        except OSError as error:
            raise UsageError(f"The journal cannot be written to: {error}", "The journal is unchanged.") from error
