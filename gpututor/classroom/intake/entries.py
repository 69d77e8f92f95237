"""What lies in the folder or the zip of a class: one entry for each file, and for each thing that is not opened."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import BinaryIO

MOST_DEPTH = 32
"""Folders in folders."""


class Refused(Exception):
    """Something is not read. Its text says why, in a sentence."""


class Kind(StrEnum):
    FILE = "file"
    ARCHIVE = "archive"
    """A zip that is not opened."""
    FOLDER = "folder"
    """A folder that is not opened."""
    PLACE = "place"
    """A folder or a zip, for its name alone: there may be nothing in it. Others need not have one."""
    NOISE = "noise"
    """What tools leave behind; neither read nor opened."""


def _nothing() -> BinaryIO:
    raise Refused("It cannot be read.")


@dataclass(frozen=True)
class Entry:
    """One file, or one thing that is not opened."""

    parts: tuple[str, ...]
    """The names of the folders and zips on the way to it, and its own; as they were found, without `.` and `..`."""
    source: str
    """Where it is, for people: `kim/05/one_big_copy.py`, `kim.zip: one_big_copy.py`. Not yet safe to print."""
    kind: Kind = Kind.FILE
    refusal: str = ""
    """Why it is not read, a sentence."""
    changed_at: float = 0.0
    """When its bytes changed last, as whoever packed it says; only good for putting copies in order."""
    open: Callable[[], BinaryIO] = _nothing
    """Opens it; only before the next entry is asked for. Raises `Refused` and `OSError`."""
    packed: Packed | None = None
    """What the zip around it says about itself."""


@dataclass(frozen=True)
class Packed:
    """What stands in `gpututor-pack.json`, which `gpututor pack` writes. The student could have written anything."""

    course: str = ""
    """The course's `id`."""
    student: str = ""
    """A name."""
    exercises: tuple[tuple[str, str], ...] = ()
    """Paths in the zip, each with the key of its exercise."""
