"""Intake: reads what a class submitted from folders and zips, and summarizes it.

`read_class` does it all, `summary` puts it into words. docs/classroom/layouts.md describes the layouts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from gpututor.classroom.folder import ClassFolder
from gpututor.classroom.intake.archive import Refused, Tree
from gpututor.classroom.intake.collect import SubmissionCollector
from gpututor.classroom.intake.gradescope_metadata import submissions_of
from gpututor.classroom.intake.layouts import (
    AUTO,
    LAYOUTS,
    METADATA,
    Canvas,
    DetectedLayout,
    Files,
    Folders,
    Gradescope,
    Layout,
    Moodle,
    detect_layout,
)
from gpututor.classroom.intake.names import ExerciseNames
from gpututor.classroom.submissions import Class
from gpututor.course.model import Course, Exercise
from gpututor.errors import UsageError
from gpututor.grading.report_text import count

__all__ = ["AUTO", "LAYOUTS", "check_apart", "gone", "read_class", "summary"]


def read_class(
    source: Path, course: Course, folder: ClassFolder, *, layout: str = AUTO, exercise: Exercise | None = None
) -> Class:
    """Who handed in what, below the folder or in the zip `source`; the texts are kept in `folder`, nothing else is.

    `layout`: one of `LAYOUTS`, or `auto`. `exercise`: what every file is for that is not called after another one.
    Nothing is unpacked, no link is followed, and what cannot be graded or matched is told in the class, never dropped.
    Raises `UsageError` where the layout is not clear, nothing is there, or the texts cannot be kept.
    """
    check_apart(source, folder)
    names = ExerciseNames(course)
    try:
        folder.make()
        folder.clear_parts()
        detected = detect_layout(
            Tree(source, apart_from=folder.folder), names, layout, one_exercise=exercise is not None
        )
        gathering = SubmissionCollector(_made(detected, names, exercise), names, folder, exercise)
        for entry in detected.tree.entries():
            gathering.take(entry)
    except OSError as error:
        raise UsageError(
            f"{folder.folder} cannot be written: {error.strerror}.", "Make room or choose another --out, and try again."
        ) from error
    students, handed_in = gathering.finished()
    unmatched = tuple(gathering.unmatched)
    return Class(
        str(course.folder),
        detected.layout,
        students,
        handed_in,
        unmatched,
        gathering.ignored,
        source=str(source.absolute()),
    )


def check_apart(source: Path, folder: ClassFolder) -> None:
    """Raise `UsageError` where what the class handed in would be written over by what is made of it."""
    place = source.resolve()
    if place == folder.folder.resolve():
        raise UsageError(f"{source} is the folder of the gradings.", "Name the folder or the zip of the class.")
    if any(place.is_relative_to(made.resolve()) for made in folder.made):
        title = f"{source} lies where gradings are kept in {folder.folder}."
        raise UsageError(title, "Name another folder with --out, such as one beside it.")


def _made(detected: DetectedLayout, names: ExerciseNames, exercise: Exercise | None) -> Layout:
    match detected.layout:
        case "folders":
            return Folders()
        case "files":
            return Files(names, exercise)
        case "moodle":
            return Moodle()
        case "canvas":
            return Canvas()
        case _:
            return _gradescope(detected.tree)


def _gradescope(tree: Tree) -> Gradescope:
    folders = {entry.parts[0] for entry in tree.entries(open_zips=False)}
    for entry in tree.entries(open_zips=False):
        if entry.parts == (METADATA,):
            try:
                if entry.refusal:
                    raise Refused(entry.refusal)
                with entry.open() as stream:
                    return Gradescope(submissions_of(stream, folders))
            except Refused as error:
                advice = "Download the submissions from Gradescope again."
                raise UsageError(f"{entry.source} cannot be read: {error}", advice) from error
    raise UsageError(f"{tree.path} has no {METADATA}.", "Gradescope writes it into every export; it says who is who.")


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
