"""A folder or a zip for each student, called as they are; inside of it anything, at any depth."""

from __future__ import annotations

from collections.abc import Sequence

from gpututor.classroom.intake.layouts.place import Person, Place
from gpututor.classroom.intake.names import without_ending


class Folders:
    name = "folders"

    def place(self, parts: Sequence[str]) -> Place:
        first, *rest = parts
        if not rest and not first.casefold().endswith(".zip"):
            return Place(path=(first,), why="It lies beside the students' folders, in none of them.")
        name = without_ending(first, ".zip") if first.casefold().endswith(".zip") else first
        return Place((Person(key=name, best_id=name),), tuple(rest))
