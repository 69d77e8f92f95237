"""Which attempt counts, and what the marks of a student come to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from gpututor.classroom.gradebook.attempts import Worth
from gpututor.classroom.gradebook.model import Attempt, Mark, Standing, StudentMarks
from gpututor.classroom.handed_in import Student
from gpututor.classroom.rules import Rules
from gpututor.grading.words import count

MOST_MISPLACED = 3
"""Files of no exercise that are named; the review list has all."""


def mark_of(
    student: str, attempts: Sequence[Attempt], of: Worth, rules: Rules, of_no_exercise: Sequence[str] = ()
) -> Mark:
    """The student's mark at an exercise; `attempts` are in the order of time.

    `of_no_exercise`: where other files of the student were found, one of which may be meant for this one.
    """
    if not attempts:
        misplaced = _to_no_exercise(of_no_exercise) if of_no_exercise else ""
        reason = f"Nothing was handed in for it; {misplaced}." if misplaced else "Nothing was handed in."
        nothing = Mark(student, of.exercise, Standing.NOT_HANDED_IN, 0.0, of.of, reason=reason, misplaced=misplaced)
        return replace(nothing, knows_of=of.is_known)
    if rules.attempts == "last":
        in_time = [attempt for attempt in attempts if not attempt.lateness.too_late]
        counted = (in_time or attempts)[-1]
        points = counted.points
    else:
        counted = _best(attempts)
        # Of an open mark what is sure, or known so far.
        points = max(attempt.points for attempt in attempts)
    which = ""
    if len(attempts) > 1:
        what = "counts" if counted.standing is Standing.FINAL else "is to be decided on first"
        number = attempts.index(counted) + 1
        which = f"Attempt {number} of {len(attempts)} {what}."
    reason = " ".join(filter(None, (which, counted.reason)))
    return Mark(
        student, of.exercise, counted.standing, points, of.of, tuple(attempts), counted, reason, knows_of=of.is_known
    )


def _to_no_exercise(sources: Sequence[str]) -> str:
    more = len(sources) - MOST_MISPLACED
    named = [*sources[:MOST_MISPLACED], *([f"{more} more"] if more > 0 else [])]
    names = " and ".join(filter(None, (", ".join(named[:-1]), named[-1])))
    return f"{names} {'belongs' if len(sources) == 1 else 'belong'} to no exercise"


def _best(attempts: Sequence[Attempt]) -> Attempt:
    """The best final one (of equal ones the first), unless one that is no mark yet could still become better.

    A refused file counts where nothing was graded that came in time.
    """
    in_time = [attempt for attempt in attempts if not attempt.lateness.too_late]
    final = [attempt for attempt in in_time if attempt.standing is Standing.FINAL]
    best = max(final, key=lambda attempt: attempt.points, default=None)
    undecided = [attempt for attempt in in_time if attempt.standing in (Standing.OPEN, Standing.NOT_GRADED)]
    if best is not None:
        undecided = [attempt for attempt in undecided if attempt.most > best.points]
    if undecided:
        return max(undecided, key=lambda attempt: (attempt.most, attempt.points))
    return best if best is not None else (in_time or attempts)[-1]


def student_marks(student: Student, marks: Sequence[Mark], rules: Rules) -> StudentMarks:
    """The total of a student's marks, one for each exercise in the order of the gradebook."""
    counting = [mark for mark in marks if mark.exercise not in rules.drop]
    dropped = {mark.exercise for mark in marks} - {mark.exercise for mark in counting}
    worth_something = [mark for mark in counting if mark.of > 0]
    lowest = sorted(worth_something, key=lambda mark: mark.share)
    left = max(len(worth_something) - 1, 0)  # one always counts
    dropped |= {mark.exercise for mark in lowest[: min(rules.drop_lowest, left)]}
    counted = [mark for mark in counting if mark.exercise not in dropped]
    weights = {mark.exercise: rules.of(mark.exercise).weight for mark in counted}
    points = math.fsum(mark.points * weights[mark.exercise] for mark in counted)
    of = math.fsum(mark.of * weights[mark.exercise] for mark in counted)
    if rules.scale is not None:
        points, of = points / of * rules.scale if of else 0.0, rules.scale
    return StudentMarks(
        student=student,
        marks=tuple(replace(mark, is_dropped=mark.exercise in dropped) for mark in marks),
        points=rules.rounded(points),
        of=of,
        # An open one among the lowest may change which ones those are.
        open=sum(not mark.standing.is_mark for mark in counting),
        knows_of=rules.scale is not None or all(mark.knows_of for mark in counted),
    )


def open_words(marks: StudentMarks) -> str:
    """`2 exercises open`; empty where the total is final."""
    return f"{count(marks.open, 'exercise')} open" if marks.open else ""
