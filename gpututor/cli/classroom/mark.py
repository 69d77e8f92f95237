"""Set a mark by hand, with a reason.

OUT is the folder that `classroom grade` made. The mark replaces the computed one in every report and file, whatever is
graded later, until you set another one or remove it with --clear. The student's feedback gives your reason.

The folder's history keeps each mark with its author, date and reason; `classroom log` prints it.
"""

from __future__ import annotations

import argparse
import math

from gpututor.classroom.folder import ClassFolder
from gpututor.classroom.gradebook.build import make_gradebook
from gpututor.classroom.gradebook.model import ExerciseSummary
from gpututor.classroom.history import Event, HistoryEntry, add_entry, author, now, reason
from gpututor.classroom.rules import MOST_POINTS, rules_for
from gpututor.classroom.tables import number
from gpututor.cli.classroom import add_author_arguments, add_class_arguments, exercise_named, student_named
from gpututor.errors import UsageError
from gpututor.text import escape_control_chars


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_class_arguments(parser)
    parser.add_argument("student", metavar="STUDENT", help="the student's id, address or name, as in the report")
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
    computed = before.computed or before
    if arguments.clear and before.by_hand is None:
        title = f"{student.student.called} has no mark by hand for {exercise.numbered_title}."
        raise UsageError(title, "The computed mark counts already.")
    points = None if arguments.clear else points_in_range(arguments.mark, exercise)
    entry = HistoryEntry(
        event=Event.CLEARED if arguments.clear else Event.MARKED,
        student=student.student.id,
        exercise=exercise.exercise,
        by=author(arguments.by),
        why=reason(arguments.why),
        at=now(),
        points=points,
        before=before.shown_word,
    )
    add_entry(folder, entry)
    where = f"{student.student.called}, {exercise.numbered_title}"
    of = f"of {number(exercise.known_of)}"
    words = f"{computed.shown_word}, as computed" if points is None else f"{number(points)} {of} by hand"
    was = f" (before: {before.shown_word})" if points is None else f" (computed: {computed.shown_word})"
    print(escape_control_chars(f"{where}: {words}{was}."))
    print("Make the tables and the feedback again: they change only then.")
    return 0


def points_in_range(words: str, exercise: ExerciseSummary) -> float:
    """Return a mark. Raises `UsageError` for one that is no number, or more than the exercise is worth."""
    most = MOST_POINTS if exercise.most is None else exercise.most
    try:
        points = float(words.replace(",", "."))
    except ValueError:
        points = math.nan
    if not 0 <= points <= most:
        extra = f", {number(exercise.extra)} of them extra" if exercise.extra else ""
        raise UsageError(
            f"{words!r} is no mark for {exercise.numbered_title}.",
            f"Give a number from 0 to {number(most)}{extra}. The rules say what an exercise is worth.",
        )
    return points
