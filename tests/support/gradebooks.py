"""Gradebooks for tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from gpututor.classroom.gradebook.build import gradebook_of
from gpututor.classroom.gradebook.marking import GradedAttempt
from gpututor.classroom.gradebook.model import Gradebook
from gpututor.classroom.rules import Rules
from gpututor.classroom.submissions import Class, Student, Submission
from gpututor.grading.report import Outcome, Report, Status, Verdict
from tests.support.classes import report_of

EXERCISE = "keep_the_data_moving/hidden_syncs"
OTHER = "keep_the_data_moving/one_big_copy"
WORDS = {Status.PASSED: Outcome.PASSED, Status.FAILED: Outcome.FAILED, Status.TOO_SLOW: Outcome.TOO_SLOW}


def verdict(check: str, status: Status = Status.PASSED, of: float = 1.0, **more: Any) -> Verdict:
    made = Verdict(check, f"{check} is right", status, "one GPU", points=of if status is Status.PASSED else 0.0, of=of)
    return replace(made, **more)


def report(*verdicts: Verdict, exercise: str = EXERCISE, suspicions: tuple[str, ...] = ()) -> Report:
    """Make a report with the outcome that follows from the verdicts."""
    statuses = [each.status for each in verdicts]
    order = (Status.FAILED, Status.TOO_SLOW, Status.NEEDS_REVIEW, Status.INCONCLUSIVE, Status.NOT_RUN, Status.HELD_BACK)
    worst = next((status for status in order if status in statuses), Status.PASSED)
    outcome = WORDS.get(worst, Outcome.INCONCLUSIVE if worst is Status.INCONCLUSIVE else Outcome.NEEDS_REVIEW)
    if suspicions and outcome is Outcome.PASSED:
        outcome = Outcome.NEEDS_REVIEW
    return report_of(exercise, outcome, tuple(verdicts), suspicions=suspicions)


CHECKS = ("placement", "parity", "syncs", "transfers", "structure")


def points(earned: int, of: int, **more: Any) -> Report:
    """Make a report in which `earned` of `of` checks passed, at most five."""
    statuses = [Status.PASSED] * earned + [Status.FAILED] * (of - earned)
    return report(*(verdict(name, status) for name, status in zip(CHECKS, statuses, strict=False)), **more)


@dataclass(frozen=True)
class Upload:
    """A submitted file and its report."""

    student: str
    report: Report | None
    exercise: str = EXERCISE
    refusal: str = ""
    submitted_at: str = ""
    late: bool = False
    left_out: tuple[str, ...] = ()


def gradebook(files: Sequence[Upload], rules: Rules | None = None, students: Sequence[Student] = ()) -> Gradebook:
    """Make a gradebook of `files` and `students`, whose course is missing."""
    submissions: list[Submission] = []
    graded = {}
    for number, each in enumerate(files):
        attempt = 1 + sum((other.student, other.exercise) == (each.student, each.exercise) for other in submissions)
        submission = Submission(
            student=each.student,
            exercise=each.exercise,
            source=f"{each.student}/{each.exercise.partition('/')[2]}.py",
            sha256=f"{number:064x}",
            submitted_at=each.submitted_at,
            attempt=attempt,
            late=each.late,
            refusal=each.refusal,
            left_out=each.left_out,
        )
        submissions.append(submission)
        if not each.refusal:
            graded[submission] = GradedAttempt(None, each.report)
    known = {student.id: student for student in students}
    everyone = {each.student: known.get(each.student, Student(each.student)) for each in files} | known
    layout = "canvas" if any(student.platform_id for student in students) else "folders"
    class_ = Class("", layout, tuple(everyone.values()), tuple(submissions), ())
    return gradebook_of(class_, graded, rules or Rules(), {})
