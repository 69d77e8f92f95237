"""What the course is read to give for an exercise is what its checks are worth on a virtual GPU."""

from __future__ import annotations

import math

from gpututor.classroom.check_names import points_in_course
from gpututor.course.catalogue import load_course
from gpututor.grading.events import GradeRequest
from gpututor.judge.exercise_code import load_code
from gpututor.judge.machines import machines_for, seen_by_checks
from gpututor.paths import builtin_course


def test_the_points_that_are_read_are_those_of_the_checks() -> None:
    known = 0
    for exercise in load_course(builtin_course()).exercises:
        if (read := points_in_course(exercise)) is None:
            continue
        known += 1
        request = GradeRequest(str(exercise.folder), "", "a.py", device="virtual")
        machines = [seen_by_checks(each, ()) for each in machines_for(exercise, request, ())]
        checks = load_code(exercise).checks
        assert read == {each.name: each.points for each in checks if any(map(each.applies, machines))}, exercise.key
        assert math.fsum(read.values()) > 0
    assert known >= 25
