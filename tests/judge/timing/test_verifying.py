"""Timed results are verified by the exercise's own checks, all of them while the allowance lasts."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from gpututor.checks.model import Check, Finding, Machine, Run
from gpututor.errors import CourseError
from gpututor.hardware.scenario import Scenario
from gpututor.judge.timing.measure import Verifier

MACHINE = Machine(Scenario("the CPU", 0, ()), "cpu", False, "", None)


def doubled(run: Run) -> Finding | None:
    call = run.calls[0]
    wanted = 2 * call.drawn["number"]
    return None if call.output == wanted else Finding(str(wanted), str(call.output))


CHECKS = [Check("doubled", lambda machine: "It doubles", doubled, results_only=True)]
INPUTS = [{"number": number} for number in range(20)]
RIGHT = [2 * number for number in range(20)]


def verifier(**options: Any) -> Verifier:
    return Verifier(CHECKS, MACHINE, "twice", random.Random(0), **options)


@pytest.mark.parametrize("wrong", range(20))
def test_one_wrong_result_anywhere_in_a_batch_is_found(wrong: int) -> None:
    outputs = [-1 if position == wrong else right for position, right in enumerate(RIGHT)]
    finding = verifier().find(INPUTS, outputs, "")

    assert finding is not None
    assert finding.got == "-1"
    assert finding.expected == str(2 * wrong)


def test_right_results_are_all_looked_at() -> None:
    found = verifier()

    assert found.find(INPUTS, RIGHT, "") is None
    assert (found.verified, found.calls) == (20, 20)


def test_when_the_allowance_is_used_up_one_of_each_batch_is_still_looked_at() -> None:
    seconds = itertools.count()
    found = verifier(allowance_s=3.0, now_s=lambda: float(next(seconds)))
    for _ in range(30):
        assert found.find(INPUTS, RIGHT, "") is None

    assert found.verified == 3 + 29


def test_which_one_is_looked_at_is_drawn_when_the_results_are_held() -> None:
    seconds = itertools.count()
    found = verifier(allowance_s=0.0, now_s=lambda: float(next(seconds)))
    seen = [found.find(INPUTS, [-1] * 20, "") for _ in range(40)]

    assert len({finding.expected for finding in seen if finding is not None}) > 10


def test_an_exercise_that_cannot_verify_timed_calls_is_refused_in_words() -> None:
    check = Check("trace", lambda machine: "It waits once", lambda run: None)

    with pytest.raises(CourseError, match="none that verifies results"):
        Verifier([check], MACHINE, "twice", random.Random(0))
