"""Several files of one student for one exercise: which of them count, and in which order."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from gpututor.classroom.intake.content import Content
from gpututor.classroom.intake.layouts.place import Place
from gpututor.classroom.intake.which_exercise import says_nothing

MOST_ATTEMPTS = 10
"""Of one student at one exercise, handed in at one time. Each is graded with other inputs: nobody is to hand in a
thousand, and have luck with one."""


@dataclass(frozen=True)
class Found:
    """A file for an exercise."""

    people: tuple[str, ...]
    """Their keys."""
    exercise: str
    source: str
    content: Content
    place: Place
    order: tuple[str, int, int, float, str]
    """In the order of time, as far as anything tells it."""
    stem: str
    """Of its name, without the mark of a copy."""
    is_named: bool
    """Whether its name says which exercise it is; else everything was said to be for one."""


Left = list[tuple[Found, str]]
"""Files that do not count, each with a sentence why."""


def attempts(several: Sequence[Found]) -> tuple[list[Found], Left]:
    """Those that count, in the order of time, and the others."""
    by_time: dict[str, list[Found]] = defaultdict(list)
    for found in several:
        by_time[found.place.submitted_at].append(found)
    meant: list[Found] = []
    left: Left = []
    for together in by_time.values():
        named, others = _meant(together)
        meant += named
        left += others
    counted: dict[tuple[str, str], Found] = {}
    for found in sorted(meant, key=lambda found: found.order):
        first = counted.setdefault((found.content.sha256 or found.source, found.place.submitted_at), found)
        if first is not found:
            left.append((found, f"It is the same as {first.source}, which counts."))
    number_of = Counter(found.place.submitted_at for found in counted.values())
    some: list[Found] = []
    for found in counted.values():
        number_of[found.place.submitted_at] -= 1
        if number_of[found.place.submitted_at] < MOST_ATTEMPTS:
            some.append(found)
        else:
            left.append((found, f"Of files for one exercise the last {MOST_ATTEMPTS} count, and this one is older."))
    return some, left


def _meant(together: list[Found]) -> tuple[list[Found], Left]:
    """Of what was handed in at one time, the files that are meant for the exercise, by their names."""
    if named := [found for found in together if found.is_named]:
        why = f"Another file is called after {together[0].exercise}, and this one is not."
        return named, [(found, why) for found in together if not found.is_named]
    if read := [found for found in together if found.content.sha256]:
        left = [(found, found.content.refusal) for found in together if not found.content.sha256]
        if len({found.stem for found in read}) == 1:
            return read, left
        usual = [found for found in read if says_nothing(found.stem)]
        if len({found.stem for found in usual}) == 1:
            why = f"There are several files, and this one is not called after {together[0].exercise}."
            return usual, left + [(found, why) for found in read if found not in usual]
        why = f"There are several files, and none is called after {together[0].exercise}."
        return [], left + [(found, why) for found in read]
    return together, []
