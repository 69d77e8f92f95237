"""What a class handed in: students, their files, and what belongs to nobody. Plain data with one JSON form."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from gpututor.json_dataclasses import read

SCHEMA_VERSION = 1
PLATFORMS = ("gradescope", "moodle", "canvas")
"""Layouts that say what students are called."""


@dataclass(frozen=True)
class Student:
    """Somebody who handed something in, as the layout knows them."""

    id: str
    """The name of their folder or zip, or the number that the platform gives; one line of plain text, never a path."""
    name: str = ""
    """As the platform writes it; in other layouts as they wrote it into their own zip, so that it may be any. Empty
    where nothing tells it."""
    email: str = ""
    platform_id: str = ""
    """The platform's own number, for its upload files: Canvas's user id, Moodle's participant number, Gradescope's
    student id."""

    @property
    def called(self) -> str:
        """The id, and the name where that says more: `24 (roekim)`."""
        return f"{self.id} ({self.name})" if self.name and self.name != self.id else self.id


@dataclass(frozen=True)
class Submission:
    """One solution file."""

    student: str
    """A `Student.id`."""
    exercise: str
    """The exercise's key, `lesson/exercise`."""
    source: str
    """Where it was found, below the folder: `kim/05/one_big_copy.py`, `kim.zip: one_big_copy.py`."""
    sha256: str
    """Of the file's bytes, without a byte order mark; empty where they were not read."""
    submitted_at: str = ""
    """ISO 8601, UTC; empty where nothing tells it."""
    attempt: int = 1
    """From 1, of this student at this exercise, in the order of time."""
    late: bool = False
    """Whether the platform marked it as late."""
    refusal: str = ""
    """Why it cannot be graded at all, a sentence; empty where it can. A refused file still counts as handed in."""


@dataclass(frozen=True)
class Unmatched:
    """A file that belongs to no student or no exercise, or that was not opened."""

    source: str
    why: str
    """A sentence."""
    students: tuple[str, ...] = ()
    """The ids of those who handed it in, where that is known: several for a group."""
    exercise: str = ""
    """The key of the exercise for which it does not count, beside others that do; empty where it is for none."""
    packed_for: str = ""
    """The `id` of the course that it was packed for, where that is another one."""


@dataclass(frozen=True)
class Class:
    """All of it."""

    course: str
    """The folder of the course."""
    layout: str
    """Which layout it was read as: `folders`, `files`, `gradescope`, `moodle`, `canvas`."""
    students: tuple[Student, ...]
    handed_in: tuple[Submission, ...]
    unmatched: tuple[Unmatched, ...]
    ignored: int = 0
    """Files and folders that tools leave behind, such as `.DS_Store`: nobody needs to know which."""
    schema_version: int = SCHEMA_VERSION
    source: str = ""
    """The folder or zip that it was read from; empty in one that was written before this was kept."""

    def of_no_exercise(self) -> dict[str, tuple[str, ...]]:
        """What each student handed in that is for no exercise: by their ids, where it was found."""
        found: dict[str, list[str]] = {}
        for each in self.unmatched:
            for student in each.students if not each.exercise else ():
                found.setdefault(student, []).append(each.source)
        return {student: tuple(sources) for student, sources in found.items()}

    @property
    def has_names(self) -> bool:
        """Whether students are called what a platform calls them, and not what they call themselves."""
        return self.layout in PLATFORMS

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: object) -> Class:
        """Raises `ValueError` that names what is wrong."""
        return read(cls, data, "")
