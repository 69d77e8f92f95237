"""Whose fault it is when a check breaks: the exercise's own solution is tried in the submission's place."""

from __future__ import annotations

from pathlib import Path

from gpututor.grading.report import Outcome, Report, Status
from gpututor.judge.verdicts import LONGEST
from tests.support.gradings import Grade
from tests.support.tiny_course import RIGHT

HEAD = "from gpututor.checks import value\nfrom gpututor.checks.model import Check, Finding\n\n\n"
NARROW = (
    f"{HEAD}def find(run):\n"
    "    for call in run.calls:\n"
    "        if call.output + 0 != 2 * call.drawn['number']:\n"
    "            return Finding('the double', 'another number')\n\n\n"
    "checks = [\n"
    "    Check('narrow', lambda _: 'It is the double', find),\n"
    "    value(lambda drawn, machine: 2 * drawn['number'], name='after').with_points(2),\n"
    "]\n"
)
LONG = "def twice(number):\n    return ['x' * 100] * 1000\n"


def of_check(report: Report, check: str) -> tuple[Status, str]:
    verdict = next(verdict for verdict in report.verdicts if verdict.check == check)
    return verdict.status, verdict.got


def test_a_check_that_breaks_on_a_submission_only_is_for_a_person_to_tell(grade: Grade, exercise_folder: Path) -> None:
    (exercise_folder / "checks.py").write_text(NARROW)

    report = grade("def twice(number):\n    return str(number)\n")

    status, got = of_check(report, "narrow")
    assert status is Status.NEEDS_REVIEW
    assert "at line 7 of checks.py: TypeError" in got
    assert of_check(report, "after")[0] is Status.FAILED
    assert report.outcome is Outcome.FAILED
    assert report.of == 3


def test_nothing_else_wrong_it_is_for_a_person_as_a_whole(grade: Grade, exercise_folder: Path) -> None:
    (exercise_folder / "checks.py").write_text(NARROW.replace("2 * drawn['number'], name='after'", "'x', name='after'"))

    report = grade("def twice(number):\n    return 'x'\n")

    assert report.outcome is Outcome.NEEDS_REVIEW
    assert not report.final


def test_a_check_that_breaks_on_the_solution_too_is_the_authors(grade: Grade, exercise_folder: Path) -> None:
    (exercise_folder / "checks.py").write_text(NARROW.replace("call.output + 0", "call.output.values"))

    report = grade(RIGHT)

    assert report.outcome is Outcome.INTERNAL_ERROR
    assert "AttributeError" in report.reason


def test_texts_of_verdicts_and_reasons_are_bounded(grade: Grade, exercise_folder: Path) -> None:
    words = "'y' * 10**6"
    (exercise_folder / "checks.py").write_text(
        f"{HEAD}def find(run):\n    return Finding({words}, str(run.calls[0].output), None, {words}, {words})\n\n\n"
        "checks = [Check('long', lambda _: 'It is short', find)]\n"
    )

    verdict = grade(LONG).verdicts[-1]

    assert {len(verdict.expected), len(verdict.got), len(verdict.why), len(verdict.advice)} == {LONGEST}

    (exercise_folder / "checks.py").write_text(
        f"{HEAD}def find(run):\n    raise ValueError({words})\n\n\n"
        "checks = [Check('long', lambda _: 'It is short', find)]\n"
    )

    assert len(grade(LONG).reason) == LONGEST
