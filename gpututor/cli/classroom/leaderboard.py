"""The fastest passing submissions of each exercise, by time.

OUT is the folder that `classroom grade` made. A time is divided by the baseline's, in the slowest scenario: smaller is
faster. Times that the virtual GPU modelled and times measured on a device have leaderboards of their own. A student's
fastest passing submission counts, and equal times share a place.

Submissions without a final mark or too late to count, and exercises without a visible check of speed, have no place.
`leaderboard = false` in OUT/classroom.toml switches leaderboards off, for the class or an exercise.

The terminal shows names. The page of --html is for students, and has pseudonyms; each student's feedback gives their
own.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from gpututor.classroom.folder import ClassFolder
from gpututor.classroom.gradebook.build import make_gradebook
from gpututor.classroom.gradebook.exports import write_text
from gpututor.classroom.gradebook.exports.html import document
from gpututor.classroom.gradebook.leaderboard import Leaderboard, leaderboards, lines_of
from gpututor.classroom.gradebook.model import Gradebook
from gpututor.classroom.html_report.times import student_page_body
from gpututor.classroom.rules import course_of, rules_for
from gpututor.cli.classroom import add_class_arguments, add_pseudonyms_argument, exercise_named
from gpututor.errors import UsageError
from gpututor.text import escape_control_chars


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_class_arguments(parser)
    parser.add_argument("exercise", metavar="EXERCISE", nargs="?", help="5.3, hidden_syncs, or lesson/exercise")
    add_pseudonyms_argument(parser)
    html_help = "write a page for students, with pseudonyms, instead of printing"
    parser.add_argument("--html", metavar="FILE", type=Path, help=html_help)
    parser.add_argument("--names", action="store_true", help="show names on the page of --html")


def main(arguments: argparse.Namespace) -> int:
    if arguments.names and (arguments.pseudonyms or arguments.html is None):
        raise UsageError("--names is for --html, and not for --pseudonyms.", "The terminal shows names anyway.")
    folder = ClassFolder(arguments.out.absolute())
    with_names = arguments.names or not (arguments.pseudonyms or arguments.html is not None)
    rules = rules_for(folder, arguments.rules)
    gradebook = make_gradebook(folder, rules, arguments.course, with_names=with_names)
    boards = _boards(gradebook, arguments.exercise)
    names = {marks.student.id: marks.student.called for marks in gradebook.students}
    if arguments.html is None:
        for line in lines_of(boards, names):
            print(escape_control_chars(line))
        return 0
    course = course_of(gradebook.class_)
    title = course.title if course is not None and course.title else "Leaderboards"
    folder.check_output(arguments.html)
    write_text(arguments.html, document(title, student_page_body(boards, names, title)))
    print(f"Written: {escape_control_chars(str(arguments.html.absolute()))}")
    return 0


def _boards(gradebook: Gradebook, words: str | None) -> list[Leaderboard]:
    """Return the leaderboards of the exercise, or of all. Raises `UsageError` if there is none."""
    boards = leaderboards(gradebook)
    if words is not None:
        exercise = exercise_named(words, gradebook).exercise
        boards = [board for board in boards if board.exercise.exercise == exercise]
    if not boards:
        title = "There is no leaderboard: no passing submission has a time that may be shown."
        raise UsageError(title, "`gpututor classroom leaderboard --help` says which times count.")
    return boards
