"""Set a mark by hand, with a reason.

OUT is the folder that `classroom grade` made. Your mark replaces the computed mark in every report and file. It stays,
even if the exercise is graded again, until you set another mark or use --clear. The student's feedback gives your
reason.

The folder's history keeps each mark with its author, date and reason; `classroom log` prints it.
"""

from __future__ import annotations

import argparse

from gpututor.classroom.folder import ClassFolder
from gpututor.classroom.gradebook.build import make_gradebook
from gpututor.classroom.hand_marking import write_mark, written_words
from gpututor.classroom.history import author
from gpututor.classroom.rules import rules_for
from gpututor.cli.classroom import add_author_arguments, add_class_arguments, exercise_named, student_named
from gpututor.errors import UsageError
from gpututor.text import escape_control_chars


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_class_arguments(parser)
    parser.add_argument("student", metavar="STUDENT", help="the student's id, address, name or pseudonym")
    parser.add_argument("exercise", metavar="EXERCISE", help="5.3, hidden_syncs, or lesson/exercise")
    parser.add_argument("mark", metavar="MARK", nargs="?", help="the points, after any penalty")
    parser.add_argument("--clear", action="store_true", help="remove the mark by hand: the computed mark counts again")
    add_author_arguments(parser, needs_reason=True)


def main(arguments: argparse.Namespace) -> int:
    folder = ClassFolder(arguments.out.absolute())
    if arguments.clear == (arguments.mark is not None):
        raise UsageError("Give either a MARK or --clear.", "`gpututor classroom mark --help` explains both.")
    gradebook = make_gradebook(folder, rules_for(folder, arguments.rules), arguments.course)
    student = student_named(arguments.student, gradebook)
    exercise = exercise_named(arguments.exercise, gradebook)
    before = student.mark_of(exercise.exercise)
    entry = write_mark(folder, exercise, before, arguments.mark, by=author(arguments.by), why=arguments.why)
    where = f"{student.student.called}, {exercise.numbered_title}"
    print(escape_control_chars(f"{where}: {written_words(entry, exercise, before)}."))
    print("Write the tables and the feedback again: existing files do not change.")
    return 0
