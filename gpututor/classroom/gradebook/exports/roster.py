"""Matching a platform's roster with the students of the class."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from gpututor.classroom.gradebook.model import Gradebook, StudentMarks

Value = TypeVar("Value")
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Person:
    """A row of the roster."""

    platform_id: str
    ids: tuple[str, ...] = ()
    """Logins, numbers or addresses."""
    name: str = ""


def match_students(people: Sequence[Person], gradebook: Gradebook) -> dict[int, StudentMarks]:
    """Return the students by their positions in `people`.

    They match by the platform's number, by id or address, and by a name that is unique on both sides. Nobody matches
    twice, and names that students gave themselves do not count.
    """
    matches: dict[int, StudentMarks] = {}
    has_names = gradebook.class_.has_names
    keys: Sequence[tuple[Callable[[Person], set[str]], Callable[[StudentMarks], set[str]]]] = (
        (lambda person: {person.platform_id}, lambda marks: {marks.student.platform_id}),
        (
            lambda person: {id.casefold() for id in person.ids},
            lambda marks: {marks.student.id.casefold(), marks.student.email.casefold()},
        ),
        (
            lambda person: {_name_key(person.name)},
            lambda marks: {_name_key((has_names and marks.student.name) or marks.student.id)},
        ),
    )
    for person_keys, student_keys in keys:
        taken = {marks.student.id for marks in matches.values()}
        left = [marks for marks in gradebook.students if marks.student.id not in taken]
        positions = [position for position in range(len(people)) if position not in matches]
        by_key = _unique([(key, marks) for marks in left for key in student_keys(marks)])
        for key, position in _unique([(key, at) for at in positions for key in person_keys(people[at])]).items():
            if key in by_key and position not in matches and by_key[key].student.id not in taken:
                matches[position] = by_key[key]
                taken.add(by_key[key].student.id)
    return matches


def _unique(pairs: Sequence[tuple[str, Value]]) -> dict[str, Value]:
    counts = Counter(key for key, _ in pairs)
    return {key: value for key, value in pairs if key and counts[key] == 1}


def _name_key(name: str) -> str:
    """Return the same key for `Ada Lovelace` and `Lovelace, Ada`."""
    return " ".join(sorted(_WORD.findall(name.casefold())))
