"""The gradebook as one JSON object: marks, not whole reports."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from gpututor.classroom.gradebook.model import ExerciseSummary, Gradebook, Mark, StudentMarks

SCHEMA_VERSION = 1


def as_json(gradebook: Gradebook) -> dict[str, Any]:
    """Return the output of `classroom report --json`; its help describes the keys."""
    return {
        "schema_version": SCHEMA_VERSION,
        "attempts": gradebook.rules.attempts,
        "slip_days": gradebook.rules.slip_days,
        "exercises": [_exercise(exercise) for exercise in gradebook.exercises],
        "students": [_student(marks) for marks in gradebook.students],
        "unmatched": [_attributes(file, "source why students") for file in gradebook.class_.unmatched],
        "notices": [asdict(notice) for notice in gradebook.notices],
    }


def _attributes(value: object, names: str) -> dict[str, Any]:
    return {name: getattr(value, name) for name in names.split()}


def _exercise(exercise: ExerciseSummary) -> dict[str, Any]:
    return {
        **_attributes(exercise, "exercise label title extra weight handed_in without_mark distribution"),
        "of": exercise.known_of,
        "due": exercise.due.isoformat() if exercise.due is not None else None,
        "dropped": exercise.is_dropped,
        "outcomes": {outcome.value: number for outcome, number in exercise.outcomes},
        "mean": exercise.mean_share,
        "median": exercise.median_share,
        "checks": [
            _attributes(check, "check of passed failed open not_run held_back")
            | {"extra": check.is_extra, "hidden": check.is_hidden}
            for check in exercise.checks
        ],
    }


def _student(marks: StudentMarks) -> dict[str, Any]:
    return {
        "student": marks.student.id,
        "name": marks.student.name,
        "email": marks.student.email,
        "section": marks.section,
        "points": marks.points if marks.final else None,
        "so_far": marks.points,
        "of": marks.known_of,
        "open": marks.open,
        "slip_days": marks.slip_days,
        "marks": [_mark(mark) for mark in marks.marks],
    }


def _mark(mark: Mark) -> dict[str, Any]:
    counted = mark.counted
    return {
        **_attributes(mark, "exercise mark outcome reason"),
        "standing": mark.status,
        "so_far": mark.points,
        "of": mark.known_of,
        "attempt": counted.submission.attempt if counted is not None else None,
        "attempts": len(mark.attempts),
        "late_per_cent": counted.lateness.per_cent if counted is not None else 0.0,
        "slip_days": counted.lateness.slip_days if counted is not None else 0,
        "dropped": mark.is_dropped,
        "by_hand": (
            _attributes(mark.by_hand, "points by at why") | {"computed": mark.computed_word}
            if mark.by_hand is not None
            else None
        ),
        "journal_key": counted.key.name if counted is not None and counted.key is not None else None,
    }
