"""A class: students, their submissions, and unmatched files. Plain data, stored as JSON."""

from __future__ import annotations

from dataclasses import dataclass

SCHEMA_VERSION = 1
PLATFORMS = ("gradescope", "moodle", "canvas")
"""Layouts with the students' names."""
_MOST_NAMED = 5


@dataclass(frozen=True)
class Student:
    """A student, as the layout knows them."""

    id: str
    """Name of their folder or zip, or the platform's number; one line of plain text, never a path."""
    name: str = ""
    """Platform's name of the student; in other layouts the name in the student's own zip, which may be anything. Empty
    if unknown."""
    email: str = ""
    platform_id: str = ""
    """Platform's number for its upload files: Canvas's user id, Moodle's participant number, Gradescope's `sid`."""
    upload: str = ""
    """Moodle's name of their folder, or Canvas's of their last program or zip; empty if unknown, or of old versions."""

    @property
    def called(self) -> str:
        """The id, and the name if that is different: `24 (roekim)`."""
        return f"{self.id} ({self.name})" if self.name and self.name != self.id else self.id


@dataclass(frozen=True)
class Submission:
    """A solution file."""

    student: str
    """A `Student.id`."""
    exercise: str
    """The exercise's key, `lesson/exercise`."""
    source: str
    """Place below the class's folder: `kim/05/one_big_copy.py`, `kim.zip: one_big_copy.py`."""
    sha256: str
    """Digest of the bytes without a byte order mark; empty if they were not read."""
    submitted_at: str = ""
    """ISO 8601, UTC; empty if unknown."""
    attempt: int = 1
    """Number from 1 among this student's attempts at this exercise, in the order of time."""
    late: bool = False
    refusal: str = ""
    """Sentence with the reason why it cannot be graded; else empty. A rejected file still counts as submitted."""
    left_out: tuple[str, ...] = ()
    """The first lines of a notebook that are not in the program: `code cell 1, line 1: %matplotlib inline`."""

    @property
    def left_out_words(self) -> str:
        """`code cell 1, line 1: %time; code cell 2, line 1: !ls; …`"""
        return "; ".join([*self.left_out[:_MOST_NAMED], *(["…"] if len(self.left_out) > _MOST_NAMED else [])])


@dataclass(frozen=True)
class Unmatched:
    """A file that belongs to no student or no exercise, or that was not opened."""

    source: str
    why: str
    students: tuple[str, ...] = ()
    """Ids of its students, if known: several for a group."""
    exercise: str = ""
    """Key of an exercise for which other files of the student count instead; empty for a file of no exercise."""
    packed_for: str = ""
    """The `id` of the other course that it was packed for; empty otherwise."""


@dataclass(frozen=True)
class Class:
    """Everything that a class submitted."""

    course: str
    layout: str
    """Layout, from `gpututor.classroom.intake.LAYOUTS`."""
    students: tuple[Student, ...]
    submissions: tuple[Submission, ...]
    unmatched: tuple[Unmatched, ...]
    ignored: int = 0
    """Number of files and folders that tools leave behind, such as `.DS_Store`."""
    schema_version: int = SCHEMA_VERSION
    source: str = ""
    """The folder or zip that it was read from; empty in files of old versions."""

    def of_no_exercise(self) -> dict[str, tuple[str, ...]]:
        """Return the sources of each student's files that are for no exercise."""
        sources: dict[str, tuple[str, ...]] = {}
        for file in self.unmatched:
            for student in file.students if not file.exercise else ():
                sources[student] = (*sources.get(student, ()), file.source)
        return sources

    @property
    def has_names(self) -> bool:
        """True if a platform gives the students' names, so that students did not choose them."""
        return self.layout in PLATFORMS
