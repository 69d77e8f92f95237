"""Grading a submission once more for the instructor, one at a time, in threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from textual.message import Message

from gpututor.classroom.folder import ClassFolder
from gpututor.classroom.gradebook.model import Attempt
from gpututor.classroom.jobs import Job
from gpututor.classroom.regrade import accept_regrade, job_again, request_again
from gpututor.errors import TutorError, UsageError
from gpututor.grading.client import GradingService
from gpututor.grading.events import GradeRequest
from gpututor.grading.journal import GradingKey, read_entry
from gpututor.grading.recording import FILE, Recording
from gpututor.grading.report import Report
from gpututor.progress.recordings import Recordings


@dataclass
class Prepared(Message):
    """It is known what is to be asked of the judge, or why nothing can be."""

    number: int
    request: GradeRequest | TutorError
    part: Path | None
    """Where the devices are recorded."""


class RegradeClient:
    """Knows the folder of the class, and has the judge."""

    def __init__(self, folder: ClassFolder, client: GradingService, course_folder: Path | None = None) -> None:
        self.folder = folder
        self.client = client
        self.recordings = Recordings(folder.recordings)
        self._course_folder = course_folder

    def prepare(self, number: int, attempt: Attempt, post: Callable[[Message], object], *, records: bool) -> None:
        """Find out in a thread what to ask, and post `Prepared`. `records`: what the devices do is wanted."""
        threading.Thread(target=self._prepare, args=(number, attempt, post, records), daemon=True).start()

    def _prepare(self, number: int, attempt: Attempt, post: Callable[[Message], object], records: bool) -> None:
        part = None
        try:
            job = self._job(attempt)
            part = self.recordings.create_pending() if records else None
            if records and part is None:
                raise UsageError(f"{self.folder.recordings} cannot be written to.", "Make room, or allow it.")
            post(Prepared(number, request_again(job, part), part))
        except TutorError as error:
            self.recordings.discard(part)
            post(Prepared(number, error, None))
        except OSError as error:
            self.recordings.discard(part)
            post(Prepared(number, UsageError(f"It cannot be graded again: {error}", ""), None))

    def _job(self, attempt: Attempt) -> Job:
        job = job_again(self.folder, attempt.handed_in, self._course_folder)
        if attempt.key is not None and job.key != attempt.key:
            raise UsageError("The class was graded in another way meanwhile.", "F5 reads it again.")
        return job

    def recording_of(self, key: GradingKey) -> Recording | None:
        """What was recorded of a grading before. Reads files: for a thread."""
        return self.recordings.read(key.name)

    def keep_recording(self, key: GradingKey, part: Path) -> Recording | None:
        """What was recorded in `part`, kept from now on; older ones make room for it. None where nothing was recorded.

        Raises `UsageError` where it cannot be kept.
        """
        if not (part / FILE).is_file():
            self.recordings.discard(part)
            return None
        if not self.recordings.adopt(part, key.name) and self.recordings.path(key.name) is None:
            advice = f"Look whether {self.folder.recordings} can be written to."
            raise UsageError("What the devices did was recorded, and cannot be kept.", advice)
        self.recordings.prune_oldest()
        return self.recordings.read(key.name)

    def in_journal(self, key: GradingKey) -> Report | None:
        """What the journal holds now. Raises `GradingError` for a broken file."""
        return read_entry(self.folder.journal, key)

    def take(self, key: GradingKey, report: Report) -> Path | None:
        """See `gpututor.classroom.regrade.accept_regrade`. Raises `UsageError` where it cannot be written."""
        try:
            return accept_regrade(self.folder, key, report)
        except OSError as error:
            raise UsageError(f"The journal cannot be written to: {error}", "It is as it was.") from error
