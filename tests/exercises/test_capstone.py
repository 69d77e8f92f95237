"""The capstone's faults, as reported by the script that learners begin with."""

from __future__ import annotations

import pytest

from gpututor.authoring.pool import JudgePool
from gpututor.grading.report import Status
from tests.support.shipped_course import COURSE

CAPSTONE = next(exercise for exercise in COURSE.exercises if exercise.label == "11.1")
FAULTS = {"rows", "round_trip", "constants", "mask", "branches", "numbers", "synchronize", "averages", "validation"}


@pytest.mark.long
def test_the_untouched_script_has_each_of_its_ten_faults(station: JudgePool) -> None:
    report = station.grade(CAPSTONE, CAPSTONE.starter, seed=1)
    failed = {verdict.check for verdict in report.verdicts if verdict.status is Status.FAILED}
    assert failed >= FAULTS | {"optimiser"}
    assert "result" not in failed
