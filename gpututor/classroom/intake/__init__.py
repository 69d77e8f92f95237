"""Intake: reads what a class submitted from folders and zips, and summarizes it.

`read_class` reads the class, `summary` describes it. docs/classroom/layouts.md describes the layouts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from gpututor.classroom.folder import ClassFolder
from gpututor.classroom.intake import layouts
from gpututor.classroom.intake.archive import ArchiveTree, Refused
from gpututor.classroom.intake.collect import SubmissionCollector
from gpututor.classroom.intake.gradescope_metadata import submissions_of
from gpututor.classroom.intake.layouts import AUTO, LAYOUTS, METADATA, Gradescope, Layout, detect_layout
from gpututor.classroom.intake.names import ExerciseNames
from gpututor.classroom.submissions import Class
from gpututor.course.model import Course, Exercise
from gpututor.errors import UsageError
from gpututor.grading.report_text import count

__all__ = ["AUTO", "LAYOUTS", "check_apart", "missing_students", "read_class", "summary"]


def read_class(
    source: Path, course: Course, folder: ClassFolder, *, layout: str = AUTO, exercise: Exercise | None = None
) -> Class:
    """Read all submissions in the folder or zip `source`, and copy their texts, and nothing else, into `folder`.

    `layout`: one of `LAYOUTS`, or `auto`. `exercise`: the exercise of every file that is not named after another one.
    Nothing is unpacked and no link is followed. The class lists every file that cannot be graded or matched. Raises
    `UsageError` if the layout is unclear, nothing is there, or the texts cannot be written.
    """
    check_apart(source, folder)
    names = ExerciseNames(course)
    try:
        folder.make()
        folder.clear_parts()
        name, tree = detect_layout(ArchiveTree(source, folder.folder), names, layout, one_exercise=exercise is not None)
        collector = SubmissionCollector(name, _make_layout(name, tree, names, exercise), names, folder, exercise)
        for entry in tree.entries():
            collector.add(entry)
    except OSError as error:
        raise UsageError(
            f"{folder.folder} cannot be written: {error.strerror}.", "Free some space, or choose another --out."
        ) from error
    students, submissions, unmatched = collector.finish()
    path = str(source.absolute())
    return Class(str(course.folder), name, students, submissions, unmatched, collector.ignored, source=path)


def check_apart(source: Path, folder: ClassFolder) -> None:
    """Raise `UsageError` if the gradings in `folder` would overwrite the submissions in `source`."""
    place = source.resolve()
    if place == folder.folder.resolve():
        raise UsageError(f"{source} is the folder of the gradings.", "Name the folder or the zip of the submissions.")
    if any(place.is_relative_to(made.resolve()) for made in folder.made):
        title = f"{source} is inside the gradings in {folder.folder}."
        raise UsageError(title, "Choose another folder with --out, such as one next to it.")


def _make_layout(name: str, tree: ArchiveTree, names: ExerciseNames, exercise: Exercise | None) -> Layout:
    if name == "gradescope":
        return _gradescope(tree)
    if name == "files":
        return partial(layouts.files, names=names, default=exercise)
    return {"folders": layouts.folders, "moodle": layouts.moodle, "canvas": layouts.canvas}[name]


def _gradescope(tree: ArchiveTree) -> Gradescope:
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
    raise UsageError(f"{tree.path} has no {METADATA}.", "Gradescope writes it into every export.")


MOST_LISTED = 20


def summary(class_: Class, course: Course) -> list[str]:
    """Describe the class in lines of plain text, with at most `MOST_LISTED` lines of each list."""
    exercises = len({submission.exercise for submission in class_.submissions})
    lines = [
        f"Read in the layout `{class_.layout}`: {count(len(class_.students), 'student')}, "
        f"{count(len(class_.submissions), 'file')} for {count(exercises, 'exercise')}."
    ]
    lines += _by_exercise(class_, course)
    graded = {submission.student for submission in class_.submissions if not submission.refusal}
    idle = [student.called for student in class_.students if student.id not in graded]
    lines += _listed(f"{count(len(idle), 'student')} without a gradable file:", idle)
    rejected = [f"{submission.source}: {submission.refusal}" for submission in class_.submissions if submission.refusal]
    lines += _listed(f"{count(len(rejected), 'file')} rejected:", rejected)
    left_out = {file.source: file.left_out_words for file in class_.submissions if file.left_out}
    lines += _listed(
        f"{count(len(left_out), 'notebook')} with lines that are not part of the program:",
        [f"{source}: {words}" for source, words in left_out.items()],
    )
    unmatched = [f"{file.source}: {file.why}" for file in class_.unmatched]
    lines += _listed(f"{count(len(unmatched), 'file that is', 'files that are')} not graded:", unmatched)
    if class_.ignored:
        lines.append(f"{count(class_.ignored, 'file')} of tools, such as .DS_Store, ignored.")
    return lines


def missing_students(class_: Class, before: Class) -> list[str]:
    """List students of the last run who are missing now, for example because they were renamed."""
    here = {student.id for student in class_.students}
    names = [student.called for student in before.students if student.id not in here]
    verb = "is" if len(names) == 1 else "are"
    return _listed(f"{count(len(names), 'student')} of the last run {verb} missing now:", names)


def _by_exercise(class_: Class, course: Course) -> list[str]:
    files = Counter(submission.exercise for submission in class_.submissions)
    rejected = Counter(submission.exercise for submission in class_.submissions if submission.refusal)
    students = Counter(
        exercise for _, exercise in {(submission.student, submission.exercise) for submission in class_.submissions}
    )
    rows = [exercise for exercise in course.exercises if exercise.key in files]
    width = max((len(exercise.slug) for exercise in rows), default=0)
    lines = []
    for exercise in rows:
        key = exercise.key
        more = f", {count(files[key], 'file')}" if files[key] != students[key] else ""
        less = f", {rejected[key]} rejected" if rejected[key] else ""
        lines.append(f"  {exercise.label:>5} {exercise.slug:{width}}  {count(students[key], 'student')}{more}{less}")
    return lines


def _listed(title: str, lines: Sequence[str]) -> list[str]:
    """Return the title and the first lines; nothing without lines."""
    left = len(lines) - MOST_LISTED
    more = [f"  … and {left} more: class.json has all of them."] if left > 0 else []
    return [title, *(f"  {line}" for line in lines[:MOST_LISTED]), *more] if lines else []
