"""The gradebook as one JSON object: marks, not whole reports."""

from __future__ import annotations

from typing import Any

from gpututor.classroom.gradebook.model import ExerciseSummary, Gradebook, Mark, StudentMarks

SCHEMA_VERSION = 1


def as_json(gradebook: Gradebook) -> dict[str, Any]:
    """What `classroom report --json` prints; its help says what there is."""
    return {
        "schema_version": SCHEMA_VERSION,
        "attempts": gradebook.rules.attempts,
        "exercises": [_exercise(each) for each in gradebook.exercises],
        "students": [_student(marks) for marks in gradebook.students],
        "unmatched": [
            {"source": each.source, "why": each.why, "students": list(each.students)}
            for each in gradebook.class_.unmatched
        ],
        "notices": [{"title": each.title, "advice": each.advice} for each in gradebook.notices],
    }


def _exercise(each: ExerciseSummary) -> dict[str, Any]:
    return {
        "exercise": each.exercise,
        "label": each.label,
        "title": each.title,
        "of": each.known_of,
        "extra": each.extra,
        "weight": each.weight,
        "due": each.due.isoformat() if each.due is not None else None,
        "dropped": each.is_dropped,
        "handed_in": each.handed_in,
        "without_mark": each.without_mark,
        "outcomes": {outcome.value: number for outcome, number in each.outcomes},
        "distribution": list(each.distribution),
        "mean": each.mean_share,
        "median": each.median_share,
        "checks": [
            {
                "check": check.check,
                "of": check.of,
                "extra": check.is_extra,
                "hidden": check.is_hidden,
                "passed": check.passed,
                "failed": check.failed,
                "open": check.open,
                "not_run": check.not_run,
                "held_back": check.held_back,
            }
            for check in each.checks
        ],
    }


def _student(marks: StudentMarks) -> dict[str, Any]:
    return {
        "student": marks.student.id,
        "name": marks.student.name,
        "email": marks.student.email,
        "points": marks.points if marks.final else None,
        "so_far": marks.points,
        "of": marks.known_of,
        "open": marks.open,
        "marks": [_mark(mark) for mark in marks.marks],
    }


def _mark(mark: Mark) -> dict[str, Any]:
    counted = mark.counted
    return {
        "exercise": mark.exercise,
        "standing": mark.standing.value,
        "mark": mark.mark,
        "so_far": mark.points,
        "of": mark.known_of,
        "outcome": mark.outcome.value if mark.outcome is not None else None,
        "attempt": counted.handed_in.attempt if counted is not None else None,
        "attempts": len(mark.attempts),
        "late_per_cent": counted.lateness.per_cent if counted is not None else 0.0,
        "dropped": mark.is_dropped,
        "journal_key": counted.key.name if counted is not None and counted.key is not None else None,
        "reason": mark.reason,
    }
