"""Setting of marks by hand, for the command line and the app."""

from __future__ import annotations

import math

from gpututor.classroom.folder import ClassFolder
from gpututor.classroom.gradebook.model import ExerciseSummary, Mark
from gpututor.classroom.history import HistoryEntry, HistoryEvent, add_entry, now, reason
from gpututor.classroom.roster import roster_id
from gpututor.classroom.rules import MOST_POINTS
from gpututor.classroom.tables import number
from gpututor.errors import UsageError


def write_mark(
    folder: ClassFolder, exercise: ExerciseSummary, before: Mark, words: str | None, *, by: str, why: str
) -> HistoryEntry:
    """Write a mark by hand to the history, or its removal; return the entry.

    `words`: the mark as typed; None to remove the mark by hand. Raises `UsageError`; then nothing was written.
    """
    if words is None and before.by_hand is None:
        title = f"{before.student} has no mark by hand for {exercise.numbered_title}."
        raise UsageError(title, "The computed mark counts already.")
    points = None if words is None else points_in_range(words, exercise)
    has_files = any(before.student == student.id for student in folder.read_class().students)
    entry = HistoryEntry(
        event=HistoryEvent.CLEARED if points is None else HistoryEvent.MARKED,
        student=before.student if has_files else roster_id(before.student.removesuffix(roster_id(""))),
        exercise=exercise.exercise,
        by=by,
        why=reason(why),
        at=now(),
        points=points,
        before=before.shown_word,
    )
    add_entry(folder, entry)
    return entry


def written_words(entry: HistoryEntry, exercise: ExerciseSummary, before: Mark) -> str:
    """Return `3 of 4 by hand (computed: 2)`, or that the computed mark counts again."""
    computed = before.computed or before
    if entry.points is None:
        return f"{computed.shown_word}, as computed (before: {before.shown_word})"
    return f"{number(entry.points)} of {number(exercise.known_of)} by hand (computed: {computed.shown_word})"


def points_in_range(words: str, exercise: ExerciseSummary) -> float:
    """Return a mark. Raises `UsageError` if it is not a number, or more than the exercise is worth."""
    most = MOST_POINTS if exercise.most is None else exercise.most
    try:
        points = float(words.replace(",", ".")) + 0.0  # not -0
    except ValueError:
        points = math.nan
    if not 0 <= points <= most:
        extra = f", {number(exercise.extra)} of them extra" if exercise.extra else ""
        raise UsageError(
            f"{words!r} is not a mark for {exercise.numbered_title}.",
            f"Give a number from 0 to {number(most)}{extra}. The rules say what an exercise is worth.",
        )
    return points
