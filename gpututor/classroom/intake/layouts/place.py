"""Where a file belongs, as a layout knows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from gpututor.course.exercise import Exercise


@dataclass(frozen=True)
class Person:
    """A student, as names and platforms know them."""

    key: str
    """The same for the same person, and for nobody else."""
    best_id: str
    """What `Student.id` should be, if it is not taken."""
    name: str = ""
    email: str = ""
    platform_id: str = ""


@dataclass(frozen=True)
class Place:
    """Whose a file is, and what is left of its path."""

    people: tuple[Person, ...] = ()
    """Several for a group."""
    path: tuple[str, ...] = ()
    """Below the student: the rest of the folders and zips, and the file's name. Empty for the student's own zip."""
    exercise: Exercise | None = None
    """Where the layout knows it."""
    submitted_at: str = ""
    """ISO 8601, UTC; empty where nothing tells it."""
    number: int = 0
    """Of the upload: later ones have larger numbers."""
    earlier: int = 0
    """How many attempts came before, and are not here."""
    late: bool = False
    why: str = ""
    """Why it is nobody's, or nothing to grade, a sentence; then the rest counts for nothing but `people`."""


class Layout(Protocol):
    """Knows the names of one kind of export."""

    name: str

    def place(self, parts: Sequence[str]) -> Place:
        """Whose the file with this path is."""
