"""A graded class, opened in the instructor's app."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gpututor.grading.events import GradeRequest
from gpututor.grading.report import Outcome, Report, Status
from tests.support.scripted_client import failure, report, verdict
from tests.support.tiny_course import RIGHT, WRONG

ONE, TWO, THREE = "lesson_1/twice_1_1", "lesson_1/twice_1_2", "lesson_2/twice_2_1"
EVIL = "zoe[b]\x1b[2J"
"""A student."""


def judged(exercise: str, text: str, passes: bool | None = None) -> Report:
    """Return the report of the scripted judge; `passes` overrides its verdict."""
    lesson, slug = exercise.split("/")
    request = GradeRequest(f"/01_{lesson}/01_{slug}", text, "x.py")
    if passes if passes is not None else "2 * number" in text:
        made = report(request, verdict("loads"), verdict("placement"), verdict("parity"))
    else:
        made = report(request, verdict("loads"), failure(), verdict("parity", Status.NOT_RUN))
    worth = tuple(replace(entry, of=1.0, points=float(entry.status is Status.PASSED)) for entry in made.verdicts)
    return replace(made, verdicts=worth, of=3.0)


def files() -> Iterator[tuple[str, str, str, Report | None]]:
    looked_at = replace(judged(ONE, WRONG + "# odd\n", True), outcome=Outcome.NEEDS_REVIEW, suspicions=("Odd.",))
    yield "ada", ONE, RIGHT, judged(ONE, RIGHT)
    yield "ada", TWO, WRONG, judged(TWO, WRONG)
    yield "ada", TWO, RIGHT + "# ada\n", judged(TWO, RIGHT)
    yield "bo", ONE, WRONG + "# [@click=app.quit]bo[/]\n", judged(ONE, WRONG)
    yield "bo", THREE, RIGHT, None
    yield "chen", ONE, WRONG + "# odd\n", looked_at
    yield EVIL, TWO, WRONG + "# zoe\n", judged(TWO, WRONG)
