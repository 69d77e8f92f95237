"""Timed checks: only clear figures pass, and the exercise's own checks verify timed results."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from gpututor.checks.model import Check, Finding, Machine, Run
from gpututor.errors import CourseError
from gpututor.grading.report import Status
from gpututor.hardware.scenario import Scenario
from gpututor.judge.timing.measure import Verifier, decide_timing
from gpututor.judge.timing.sequential_test import Answer, Comparison, Settings


def comparison(answer: Answer, **changed: object) -> Comparison:
    """Ten pairs of 10 ms for batches of five calls."""
    result = Comparison(5, 10e-3, 1e-3, [10e-3] * 10, [10e-3] * 10, [True] * 10, answer)
    for name, value in changed.items():
        setattr(result, name, value)
    return result


@pytest.mark.parametrize(
    ("answer", "decision"),
    [(Answer.WITHIN, Status.PASSED), (Answer.BEYOND, Status.TOO_SLOW), (Answer.OPEN, Status.INCONCLUSIVE)],
)
def test_the_answer_of_the_signs_decides(answer: Answer, decision: Status) -> None:
    timing = decide_timing(comparison(answer), 1e-3, Settings())
    assert timing.decision is decision
    assert timing.ratio == pytest.approx(1)
    assert timing.baseline is not None
    assert timing.baseline.median_s == pytest.approx(2e-3)

    slowed = decide_timing(comparison(answer, contended=True), 1e-3, Settings())
    assert slowed.decision is Status.INCONCLUSIVE


@pytest.mark.parametrize("status", [Status.FAILED, Status.NEEDS_REVIEW])
def test_a_wrong_result_decides_despite_its_time(status: Status) -> None:
    wrong = Finding("zeros", "ones", status=status)
    timing = decide_timing(comparison(Answer.WITHIN, contended=True, wrong=wrong), 1e-3, Settings())
    assert (timing.decision, timing.wrong) == (status, wrong)


def test_a_time_below_the_roofline_needs_review() -> None:
    timing = decide_timing(comparison(Answer.WITHIN), 11e-3, Settings())
    assert timing.decision is Status.NEEDS_REVIEW
    assert "2.20 ms" in timing.why


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


def test_every_result_of_a_batch_is_verified() -> None:
    verifying = verifier()
    assert verifying.find(INPUTS, RIGHT, "") is None
    assert (verifying.verified, verifying.calls) == (20, 20)
    for wrong in range(20):
        outputs = [-1 if position == wrong else right for position, right in enumerate(RIGHT)]
        finding = verifier().find(INPUTS, outputs, "")
        assert finding is not None
        assert (finding.got, finding.expected) == ("-1", str(2 * wrong))


def test_after_the_allowance_a_result_of_each_batch_is_verified() -> None:
    seconds = itertools.count()
    verifying = verifier(allowance_s=3.0, now_s=lambda: float(next(seconds)))
    for _ in range(30):
        assert verifying.find(INPUTS, RIGHT, "") is None
    assert verifying.verified == 3 + 29


def test_the_verified_result_is_drawn_after_the_results_arrived() -> None:
    seconds = itertools.count()
    verifying = verifier(allowance_s=0.0, now_s=lambda: float(next(seconds)))
    seen = [verifying.find(INPUTS, [-1] * 20, "") for _ in range(40)]
    assert len({finding.expected for finding in seen if finding is not None}) > 10


def test_an_exercise_without_checks_of_results_is_refused() -> None:
    check = Check("trace", lambda machine: "It waits once", lambda run: None)
    with pytest.raises(CourseError):
        Verifier([check], MACHINE, "twice", random.Random(0))
