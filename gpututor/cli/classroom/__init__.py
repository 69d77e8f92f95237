"""`gpututor classroom`: grade a whole class, then report on it."""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path

from gpututor.classroom.gradebook.model import ExerciseSummary, Gradebook, StudentMarks
from gpututor.classroom.roster import folded
from gpututor.cli.main import VERBS, add_verb_arguments
from gpututor.errors import UsageError
from gpututor.toml_schema import nearest

_PREFIX = "classroom "


def add_class_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of all verbs for a graded class."""
    parser.add_argument("out", metavar="OUT", type=Path, help="the folder of the class, as `classroom grade` made it")
    parser.add_argument("--rules", metavar="FILE", type=Path, help="rules for marks, instead of OUT/classroom.toml")


def add_pseudonyms_argument(parser: argparse.ArgumentParser) -> None:
    """Add the option of verbs whose output others may see."""
    pseudonyms_help = "replace names, ids and addresses of students by pseudonyms: the roster's, or made-up ones"
    parser.add_argument("--pseudonyms", action="store_true", help=pseudonyms_help)


def add_author_arguments(parser: argparse.ArgumentParser, *, needs_reason: bool) -> None:
    """Add the arguments of verbs that write to the history."""
    parser.add_argument("--why", metavar="TEXT", required=needs_reason, default="", help="the reason, for the history")
    parser.add_argument("--by", metavar="NAME", help="your name for the history (default: the user's name)")


def student_named(words: str, gradebook: Gradebook) -> StudentMarks:
    """Return the student with this id, or with this address or name if only one has it. Raises `UsageError`.

    `words` may be the pseudonym, too.
    """
    if not words.strip():
        raise UsageError("The student's name is empty.", "Name the student by the id, the address or the name.")
    students = gradebook.students
    if not gradebook.has_names and gradebook.pseudonyms is not None:
        words = gradebook.pseudonyms.of_name(words)
    called = folded(words)
    same_id = [marks for marks in students if marks.student.id == words]
    same = same_id or [
        marks
        for marks in students
        if called in map(folded, (marks.student.id, marks.student.email, marks.student.name))
    ]
    if not same and gradebook.has_names and (pseudonyms := gradebook.pseudonyms) is not None:
        same = [marks for marks in students if pseudonyms.of(marks.student.id) == words]
    if len(same) == 1:
        return same[0]
    if same:
        ids = ", ".join(marks.student.id for marks in same)
        raise UsageError(f"Several students are called {words!r}.", f"Name one by the id: {ids}.")
    known = [name for marks in students for name in (marks.student.id, marks.student.name) if name]
    raise UsageError(f"There is no student {words!r} in this class.", nearest(words, known))


def exercise_named(words: str, gradebook: Gradebook) -> ExerciseSummary:
    """Return the exercise with this number, title, key or folder's name. Raises `UsageError`."""
    names = {
        name: exercise
        for exercise in reversed(gradebook.exercises)
        for name in (exercise.title, exercise.exercise.rpartition("/")[2], exercise.label, exercise.exercise)
        if name
    }
    if words in names:
        return names[words]
    raise UsageError(f"There is no exercise {words!r} in this gradebook.", nearest(words, list(names)))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    subparsers = parser.add_subparsers(metavar="SUBCOMMAND", dest="subcommand")
    for verb in VERBS:
        if verb.name.startswith(_PREFIX):
            chosen = subparsers.add_parser(verb.name.removeprefix(_PREFIX), help=verb.help, allow_abbrev=False)
            module = importlib.import_module(verb.module)
            add_verb_arguments(chosen, module)
            chosen.set_defaults(do=module.main)


def main(arguments: argparse.Namespace) -> int:
    if arguments.subcommand is None:
        names = ", ".join(verb.name.removeprefix(_PREFIX) for verb in VERBS if verb.name.startswith(_PREFIX))
        raise UsageError("classroom needs a subcommand.", f"Add one of {names}. See `gpututor classroom --help`.")
    return int(arguments.do(arguments))
