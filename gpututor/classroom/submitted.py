"""The lines of the files that were handed in."""

from __future__ import annotations

from functools import lru_cache

from gpututor.classroom.folder import ClassFolder
from gpututor.course.exercise import MAX_SUBMISSION_BYTES
from gpututor.files import ordinary
from gpututor.plain_text import lines_of, shortened

LONGEST_LINE = 160


class SubmittedLines:
    """Looks lines up in the folder of a class; what is not there any more has none."""

    def __init__(self, folder: ClassFolder) -> None:
        self._folder = folder
        self._lines = lru_cache(maxsize=64)(self._read)

    def line(self, sha256: str, number: int) -> str:
        """The line, from 1, without the spaces around it, at most 160 characters; empty where there is none."""
        lines = self._lines(sha256)
        return shortened(lines[number - 1].strip(), LONGEST_LINE) if 0 < number <= len(lines) else ""

    def _read(self, sha256: str) -> list[str]:
        if not (sha256.isascii() and sha256.isalnum()):
            return []
        try:
            with open(self._folder.submission(sha256), "rb", opener=ordinary) as stream:
                return lines_of(stream.read(MAX_SUBMISSION_BYTES).decode(errors="replace"))
        except OSError:
            return []
