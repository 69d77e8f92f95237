"""The review list's data. All texts are plain text, never markup; who shows them escapes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from gpututor.classroom.gradebook.model import Notice
from gpututor.classroom.handed_in import HandedIn

SHARE = 0.7
"""Texts are alike from this share of the shorter one's fingerprints on, unless another one is asked for."""


class Kind(StrEnum):
    """Why something is on the list. In the order in which the list is told."""

    NEEDS_REVIEW = "needs review"
    SPEED = "unusual speed"
    INCONCLUSIVE = "inconclusive"
    INTERNAL_ERROR = "internal error"
    IDENTICAL = "identical"
    ALIKE = "alike"
    REFUSED = "refused"
    NO_EXERCISE = "no exercise"
    UNMATCHED = "unmatched"

    @property
    def heading(self) -> str:
        return _HEADINGS[self]


_HEADINGS = {
    Kind.NEEDS_REVIEW: "For a person to look at",
    Kind.SPEED: "Faster than expected",
    Kind.INCONCLUSIVE: "Inconclusive",
    Kind.INTERNAL_ERROR: "Not graded, through no fault of the students",
    Kind.IDENTICAL: "The same text from several people",
    Kind.ALIKE: "Texts that are alike",
    Kind.REFUSED: "Refused files",
    Kind.NO_EXERCISE: "Handed in something that is no exercise's, and nothing for some exercise",
    Kind.UNMATCHED: "Files that belong to nobody, or to no exercise",
}


@dataclass(frozen=True)
class Item:
    """One thing that a person should look at."""

    kind: Kind
    exercise: str
    """Its key; empty where none is known."""
    label: str
    """`5.3`; empty where the course is not there, or no exercise is known."""
    files: tuple[HandedIn, ...]
    """Those that it is about, in the order of students and attempts; none for a file that belongs to nobody."""
    source: str
    """Where the first of them was found."""
    why: str
    """A sentence or a few."""
    command: str
    """What to type to look closer; empty where nothing is to be done."""
    by: tuple[str, ...] = ()
    """The ids of those who handed it in, where it is for no exercise."""

    @property
    def students(self) -> tuple[str, ...]:
        """The ids, in their order."""
        return tuple(sorted({*self.by, *(one.student for one in self.files)}))


@dataclass(frozen=True)
class Compared:
    """How the texts of one exercise were compared."""

    exercise: str
    label: str
    texts: int
    """Different texts that were handed in."""
    compared: int
    """Of these, with enough of their own to be compared; the others have less than that beside what is template."""
    fingerprints: int
    """Different ones, in all compared texts, without what is template and without what many have in common."""
    common: int
    """Different ones that were left out because many have them in common."""
    solutions: int
    """People whose text is the course's solution, to the letter."""


@dataclass(frozen=True)
class Review:
    """All of it."""

    items: tuple[Item, ...]
    """By kind, then in the order of the course, then by student."""
    share: float
    """From which share of fingerprints on texts are said to be alike."""
    compared: tuple[Compared, ...]
    """In the order of the course."""
    notices: tuple[Notice, ...]
    names: Mapping[str, str]
    """What students are called beside their ids, by these, where that says more: see `Student.called`."""

    def called(self, student: str) -> str:
        """The id, and the name where that says more."""
        return self.names.get(student, student)
