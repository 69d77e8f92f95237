"""What becomes of what was measured: only clear figures pass."""

from __future__ import annotations

import pytest

from gpututor.checks.model import Finding
from gpututor.grading.report import Status
from gpututor.judge.timing.measure import decide_timing
from gpututor.judge.timing.sequential_test import Answer, Comparison, Settings


def comparison(answer: Answer, **changed: object) -> Comparison:
    """Ten pairs of 10 ms for batches of five calls."""
    result = Comparison(5, 10e-3, 1e-3, [10e-3] * 10, [10e-3] * 10, [True] * 10, answer)
    for name, value in changed.items():
        setattr(result, name, value)
    return result


@pytest.mark.parametrize(
    ("answer", "decision"),
    [
        (Answer.WITHIN, Status.PASSED),
        (Answer.BEYOND, Status.TOO_SLOW),
        (Answer.OPEN, Status.INCONCLUSIVE),
    ],
)
def test_the_answer_of_the_signs_decides(answer: Answer, decision: Status) -> None:
    timing = decide_timing(comparison(answer), 1e-3, Settings())

    assert timing.decision is decision
    assert timing.ratio == pytest.approx(1)
    assert timing.baseline is not None
    assert timing.baseline.median_s == pytest.approx(2e-3)


@pytest.mark.parametrize("answer", list(Answer))
def test_a_baseline_that_slowed_down_leaves_all_open(answer: Answer) -> None:
    timing = decide_timing(comparison(answer, contended=True), 1e-3, Settings())

    assert timing.decision is Status.INCONCLUSIVE
    assert "something else is running" in timing.why


def test_a_wrong_result_fails_whatever_was_measured() -> None:
    wrong = Finding("zeros", "ones")
    timing = decide_timing(comparison(Answer.WITHIN, contended=True, wrong=wrong), 1e-3, Settings())

    assert (timing.decision, timing.wrong) == (Status.FAILED, wrong)


def test_a_result_that_nobody_can_judge_is_looked_at() -> None:
    wrong = Finding("a tensor", "who knows", status=Status.NEEDS_REVIEW)

    assert decide_timing(comparison(Answer.WITHIN, wrong=wrong), 1e-3, Settings()).decision is Status.NEEDS_REVIEW


def test_who_is_faster_than_the_device_can_be_is_looked_at() -> None:
    timing = decide_timing(comparison(Answer.WITHIN), 11e-3, Settings())

    assert timing.decision is Status.NEEDS_REVIEW
    assert "2.20 ms a call is the least" in timing.why
