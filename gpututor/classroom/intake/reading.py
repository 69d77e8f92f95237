"""Reading what a class handed in."""

from __future__ import annotations

from pathlib import Path

from gpututor.classroom.folder import ClassFolder
from gpututor.classroom.handed_in import Class
from gpututor.classroom.intake.entries import Refused
from gpututor.classroom.intake.gathering import Gathering
from gpututor.classroom.intake.gradescope_metadata import submissions_of
from gpututor.classroom.intake.layouts.canvas import Canvas
from gpututor.classroom.intake.layouts.files import Files
from gpututor.classroom.intake.layouts.folders import Folders
from gpututor.classroom.intake.layouts.gradescope import METADATA, Gradescope
from gpututor.classroom.intake.layouts.moodle import Moodle
from gpututor.classroom.intake.layouts.place import Layout
from gpututor.classroom.intake.recognising import AUTO, Recognised, recognise
from gpututor.classroom.intake.tree import Tree
from gpututor.classroom.intake.which_exercise import ExerciseNames
from gpututor.course.exercise import Course, Exercise
from gpututor.errors import UsageError


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
        recognised = recognise(Tree(source, apart_from=folder.folder), names, layout, one_exercise=exercise is not None)
        gathering = Gathering(_made(recognised, names, exercise), names, folder, exercise)
        for entry in recognised.tree.entries():
            gathering.take(entry)
    except OSError as error:
        raise UsageError(
            f"{folder.folder} cannot be written: {error.strerror}.", "Make room or choose another --out, and try again."
        ) from error
    students, handed_in = gathering.finished()
    unmatched = tuple(gathering.unmatched)
    return Class(
        str(course.folder),
        recognised.layout,
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


def _made(recognised: Recognised, names: ExerciseNames, exercise: Exercise | None) -> Layout:
    match recognised.layout:
        case "folders":
            return Folders()
        case "files":
            return Files(names, exercise)
        case "moodle":
            return Moodle()
        case "canvas":
            return Canvas()
        case _:
            return _gradescope(recognised.tree)


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
