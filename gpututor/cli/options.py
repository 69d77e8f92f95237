"""Options that several verbs share: the course and the workspace."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from gpututor import paths
from gpututor.errors import TutorError, UsageError, WorkspaceError
from gpututor.text import escape_control_chars

if TYPE_CHECKING:
    import argparse

    from gpututor.course.model import Course, Exercise
    from gpututor.course.workspace import Workspace
    from gpututor.progress.attempt_writer import AttemptWriter
    from gpututor.progress.database import Patience
    from gpututor.progress.store import ProgressStore


def add_exercise_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("exercise", metavar="EXERCISE", help="2.1, born_on_the_device, or a path")


def whole_number(least: int, most: int) -> Callable[[str], int]:
    """Return the type of an option that is a whole number from `least` to `most`."""

    def parse(word: str) -> int:
        from argparse import ArgumentTypeError

        if word.isascii() and word.isdigit() and len(word) <= 20 and least <= int(word) <= most:
            return int(word)
        raise ArgumentTypeError(f"a whole number from {least} to {most}")

    return parse


def chosen_exercise(arguments: argparse.Namespace) -> tuple[Course, Exercise]:
    """Return the chosen course and its exercise that the words name."""
    course = chosen_course(arguments)
    return course, course.find(arguments.exercise)


def chosen_course(arguments: argparse.Namespace) -> Course:
    """Return the course of `--course`, else the built-in one."""
    from gpututor.course.loader import load_course

    return load_course(arguments.course or paths.builtin_course())


def chosen_workspace(arguments: argparse.Namespace, course: Course) -> Workspace:
    """Return the learner's workspace: `--workspace`, else `find_workspace`. Raises `WorkspaceError` without any."""
    from gpututor.course.workspace import check_not_missing, find_workspace, other_course_here

    workspace = find_workspace(arguments.workspace, course)
    if workspace is not None:
        return workspace
    files = f"a file for each of the {len(course.exercises)} exercises"
    if arguments.workspace is not None:
        folder = arguments.workspace
        raise WorkspaceError(f"{folder} is not a workspace.", f"`gpututor init {folder}` puts {files} there.")
    check_not_missing(course)
    if other := other_course_here(course):
        title = f"{other.folder} is a workspace of the course {other.course!r}."
        raise WorkspaceError(title, "Name that course with --course DIR.")
    raise WorkspaceError("You have no workspace yet.", f"`gpututor init` makes a folder with {files}.")


def check_own_file(words: str, exercise: Exercise, own: Path, verb: str) -> None:
    """Raise `UsageError` if the exercise was named by the path of a file that is not the learner's own."""
    named = Path(words).expanduser()
    if not named.is_file() or named.resolve() in (own.resolve(), *map(Path.resolve, exercise.folder.iterdir())):
        return
    raise UsageError(
        f"{words} is not your file of {exercise.label}, which is {own}.",
        f"`gpututor {verb} {exercise.slug} --file {words}` uses that file.",
    )


@contextlib.contextmanager
def open_progress(course: Course, patience: Patience | None = None) -> Iterator[ProgressStore]:
    """Open the learner's progress in the course; print its notice on stderr at the end."""
    from gpututor.progress.database import patiently, spooled
    from gpututor.progress.store import ProgressStore

    path = paths.progress_file(course.place)
    if spooled(path):
        from gpututor.progress.attempt_writer import drain_spool  # 4 ms: seldom needed

        drain_spool(path)
    store = ProgressStore(path, patience=patience or patiently)
    try:
        yield store
    finally:
        store.close()
        if store.notice:
            print(f"gpututor: {escape_control_chars(store.notice)}", file=sys.stderr)


def attempt_writer(course: Course) -> AttemptWriter:
    """Return the writer that saves attempts, as in the app."""
    from gpututor.progress.attempt_writer import AttemptWriter  # it imports SQLite, which few verbs need

    return AttemptWriter(paths.progress_file(course.place))


def print_error(error: TutorError) -> None:
    """Print an error and its advice on stderr."""
    print(f"gpututor: {escape_control_chars(error.title)}", file=sys.stderr)
    if error.advice:
        print(escape_control_chars(error.advice), file=sys.stderr)
