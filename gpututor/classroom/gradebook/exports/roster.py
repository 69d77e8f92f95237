"""Who of a platform's table is which student."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from gpututor.classroom.gradebook.model import Gradebook, StudentMarks

Known = TypeVar("Known")
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Person:
    """A row of the table, as far as it tells who it is about."""

    platform_id: str
    ids: tuple[str, ...] = ()
    """Other names under which they could be known: a login, a number, an address."""
    name: str = ""


def found_in(people: Sequence[Person], gradebook: Gradebook) -> dict[int, StudentMarks]:
    """The student for each position in `people` that has one: by the platform's number, by an id or the address, and
    by a name that nobody else has on either side. Nobody is found twice, and nobody by what they call themselves."""
    found: dict[int, StudentMarks] = {}
    for person_keys, student_keys in _ways(gradebook.class_.has_names):
        taken = {marks.student.id for marks in found.values()}
        left = [marks for marks in gradebook.students if marks.student.id not in taken]
        open_people = [position for position in range(len(people)) if position not in found]
        by_key = _unique([(key, marks) for marks in left for key in student_keys(marks)])
        wanted = _unique([(key, position) for position in open_people for key in person_keys(people[position])])
        for key, position in wanted.items():
            if key in by_key and position not in found and by_key[key].student.id not in taken:
                found[position] = by_key[key]
                taken.add(by_key[key].student.id)
    return found


def _unique(pairs: Sequence[tuple[str, Known]]) -> dict[str, Known]:
    counts = Counter(key for key, _ in pairs)
    return {key: value for key, value in pairs if key and counts[key] == 1}


def _name_key(name: str) -> str:
    """The same for `Ada Lovelace` and `Lovelace, Ada`."""
    return " ".join(sorted(_WORD.findall(name.casefold())))


_Way = tuple[Callable[[Person], set[str]], Callable[[StudentMarks], set[str]]]


def _ways(has_names: bool) -> tuple[_Way, ...]:
    """By what a person and a student are compared, the surest first."""
    return (
        (lambda person: {person.platform_id}, lambda marks: {marks.student.platform_id}),
        (
            lambda person: {each.casefold() for each in person.ids},
            lambda marks: {marks.student.id.casefold(), marks.student.email.casefold()},
        ),
        (
            lambda person: {_name_key(person.name)},
            lambda marks: {_name_key((has_names and marks.student.name) or marks.student.id)},
        ),
    )
