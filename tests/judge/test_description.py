"""The judge describes an exercise's checks as a grading tells of them, and survives what it cannot describe."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from gpututor.classroom.rules import points_of
from gpututor.course.loader import load_course
from gpututor.errors import CourseError
from gpututor.grading.client import GradingClient
from gpututor.judge.author_code import describe
from gpututor.paths import builtin_course
from tests.support.gradings import Grade


def test_a_description_is_what_a_report_tells(client: GradingClient, exercise_folder: Path, grade: Grade) -> None:
    *checks, unmodified = client.describe(str(exercise_folder))
    report = grade("def twice(x):\n    return 2 * x\n", device="virtual")
    verdicts = {verdict.check: verdict for verdict in report.verdicts if verdict.of}
    assert {check.name: check.points for check in checks} == {name: each.of for name, each in verdicts.items()}
    for check in checks:
        assert verdicts[check.name].sentence in check.sentences
        assert not check.depends_on_device
    assert (unmodified.name, unmodified.points) == ("unmodified", 0.0)


@pytest.mark.parametrize(
    "checks", ["import sys\nsys.exit()\n", "checks = []\n", "checks = [\n", "raise ValueError('no')\n"]
)
def test_checks_that_are_broken_are_told_and_cost_the_judge_nothing(
    client: GradingClient, exercise_folder: Path, checks: str
) -> None:
    right = client.describe(str(exercise_folder))
    kept = (exercise_folder / "checks.py").read_text()
    (exercise_folder / "checks.py").write_text(checks)
    with pytest.raises(CourseError, match=r"checks\.py"):
        client.describe(str(exercise_folder))
    with pytest.raises(CourseError):
        client.describe(str(exercise_folder / "gone"))
    (exercise_folder / "checks.py").write_text(kept)
    assert client.describe(str(exercise_folder)) == right


def test_every_exercise_of_the_course_is_described() -> None:
    known = 0
    for exercise in load_course(builtin_course()).exercises:
        checks = describe(exercise.folder)
        assert len({check.name for check in checks}) == len(checks), exercise.key
        assert all(check.sentences or check.depends_on_device or check.points for check in checks), exercise.key
        points = points_of(checks)
        known += bool(points)
        assert not points or math.fsum(points.values()) > 0
    assert known >= 25
