"""What was handed in, in words for the instructor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from gpututor.classroom.handed_in import Class
from gpututor.course.exercise import Course
from gpututor.grading.words import count

MOST_LISTED = 20


def summary(found: Class, course: Course, *, most: int = MOST_LISTED) -> list[str]:
    """Lines of plain text: how much there is of each exercise, what is refused, and what belongs to nobody.

    Of each list no more than `most` lines are shown, and the rest is counted.
    """
    exercises = len({one.exercise for one in found.handed_in})
    lines = [
        f"Read in the layout `{found.layout}`: {count(len(found.students), 'student')}, "
        f"{count(len(found.handed_in), 'file')} for {count(exercises, 'exercise')}."
    ]
    lines += _by_exercise(found, course)
    graded = {one.student for one in found.handed_in if not one.refusal}
    if idle := [student.called for student in found.students if student.id not in graded]:
        lines.append(f"{count(len(idle), 'student')} handed in nothing that can be graded:")
        lines += _some(idle, most)
    if refused := [f"{one.source}: {one.refusal}" for one in found.handed_in if one.refusal]:
        lines.append(f"{count(len(refused), 'file')} refused:")
        lines += _some(refused, most)
    if unmatched := [f"{one.source}: {one.why}" for one in found.unmatched]:
        lines.append(f"{count(len(unmatched), 'file')} that {_are(len(unmatched))} not graded:")
        lines += _some(unmatched, most)
    if found.ignored:
        lines.append(f"{count(found.ignored, 'file')} left behind by tools, such as .DS_Store, passed over.")
    return lines


def gone(found: Class, before: Class, *, most: int = MOST_LISTED) -> list[str]:
    """Lines of plain text: students of the last time who are not here now. They may be called otherwise by now, or
    another folder may have been named."""
    here = {student.id for student in found.students}
    names = [student.called for student in before.students if student.id not in here]
    if not names:
        return []
    title = f"{count(len(names), 'student')} of the last time {_are(len(names))} not here now, and not reported:"
    return [title, *_some(names, most)]


def _by_exercise(found: Class, course: Course) -> list[str]:
    files = Counter(one.exercise for one in found.handed_in)
    refused = Counter(one.exercise for one in found.handed_in if one.refusal)
    students = Counter(exercise for _, exercise in {(one.student, one.exercise) for one in found.handed_in})
    rows = [exercise for exercise in course.exercises if exercise.key in files]
    width = max((len(exercise.slug) for exercise in rows), default=0)
    lines = []
    for exercise in rows:
        key = exercise.key
        more = f", {count(files[key], 'file')}" if files[key] != students[key] else ""
        less = f", {refused[key]} refused" if refused[key] else ""
        lines.append(f"  {exercise.label:>5} {exercise.slug:{width}}  {count(students[key], 'student')}{more}{less}")
    return lines


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


def _some(lines: Iterable[str], most: int) -> list[str]:
    every = list(lines)
    shown = [f"  {line}" for line in every[:most]]
    return shown if len(every) <= most else [*shown, f"  … and {len(every) - most} more: class.json has all of them."]
