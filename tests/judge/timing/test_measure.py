"""Timed checks: only clear figures pass, and no time is below the roofline of its work."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest
import torch

from gpututor.checks.model import Check, Finding, Machine, Run, SpeedLimit
from gpututor.errors import CourseError
from gpututor.grading.report import Status
from gpututor.hardware.gpus import gpu_spec
from gpututor.hardware.scenario import Scenario
from gpututor.judge.timing.measure import ResultVerifier, decide_timing
from gpututor.judge.timing.roofline import Peak, peak_of
from gpututor.judge.timing.sequential_test import Comparison, SequentialSettings, SignDecision
from gpututor.protocol.decode import Decoder
from gpututor.protocol.encode import Encoder


def comparison(answer: SignDecision, **changed: object) -> Comparison:
    """Ten pairs of 10 ms for batches of five calls."""
    result = Comparison(5, 10e-3, 1e-3, [10e-3] * 10, [10e-3] * 10, [True] * 10, answer)
    for name, value in changed.items():
        setattr(result, name, value)
    return result


@pytest.mark.parametrize(
    ("answer", "decision"),
    [
        (SignDecision.WITHIN, Status.PASSED),
        (SignDecision.BEYOND, Status.TOO_SLOW),
        (SignDecision.OPEN, Status.INCONCLUSIVE),
    ],
)
def test_the_answer_of_the_signs_decides(answer: SignDecision, decision: Status) -> None:
    timing = decide_timing(comparison(answer), 1e-3, SequentialSettings())
    assert timing.decision is decision
    assert timing.ratio == pytest.approx(1)
    assert timing.baseline is not None
    assert timing.baseline.median_s == pytest.approx(2e-3)

    slowed = decide_timing(comparison(answer, contended=True), 1e-3, SequentialSettings())
    assert slowed.decision is Status.INCONCLUSIVE


@pytest.mark.parametrize("status", [Status.FAILED, Status.NEEDS_REVIEW])
def test_a_wrong_result_decides_despite_its_time(status: Status) -> None:
    wrong = Finding("zeros", "ones", status=status)
    timing = decide_timing(comparison(SignDecision.WITHIN, contended=True, wrong=wrong), 1e-3, SequentialSettings())
    assert (timing.decision, timing.wrong) == (status, wrong)


def test_a_time_below_the_roofline_needs_review_and_checks_need_results() -> None:
    timing = decide_timing(comparison(SignDecision.WITHIN), 11e-3, SequentialSettings())
    assert timing.decision is Status.NEEDS_REVIEW
    assert "2.20 ms" in timing.why
    check = Check("trace", lambda machine: "It waits once", lambda run: None)
    with pytest.raises(CourseError):
        ResultVerifier([check], MACHINE, "twice", random.Random(0))


MACHINE = Machine(Scenario("the CPU", 0, ()), "cpu", False, "", None)


def doubled(run: Run) -> Finding | None:
    call = run.calls[0]
    wanted = 2 * call.drawn["number"]
    return None if call.output == wanted else Finding(str(wanted), str(call.output))


CHECKS = [Check("doubled", lambda machine: "It doubles", doubled, results_only=True)]
INPUTS = [{"number": number} for number in range(20)]
RIGHT = [2 * number for number in range(20)]


def verifier(**options: Any) -> ResultVerifier:
    return ResultVerifier(CHECKS, MACHINE, "twice", random.Random(0), **options)


def test_results_are_verified_all_or_later_a_drawn_one_of_each_batch() -> None:
    verifying = verifier()
    assert verifying.find(INPUTS, RIGHT, "") is None
    assert (verifying.verified, verifying.calls) == (20, 20)
    for wrong in range(20):
        outputs = [-1 if position == wrong else right for position, right in enumerate(RIGHT)]
        finding = verifier().find(INPUTS, outputs, "")
        assert finding is not None
        assert (finding.got, finding.expected) == ("-1", str(2 * wrong))
    seconds = itertools.count()
    verifying = verifier(allowance_s=3.0, now_s=lambda: float(next(seconds)))
    for _ in range(30):
        assert verifying.find(INPUTS, RIGHT, "") is None
    assert verifying.verified == 3 + 29
    seconds = itertools.count()
    verifying = verifier(allowance_s=0.0, now_s=lambda: float(next(seconds)))
    seen = [verifying.find(INPUTS, [-1] * 20, "") for _ in range(40)]
    assert len({finding.expected for finding in seen if finding is not None}) > 10


PEAK = Peak(bytes_per_s=1e9, flops=lambda dtype: 1e12 if dtype == "float32" else 1e15)
LIMIT = SpeedLimit("baseline.py", 1.25)


def observed(result: Any) -> Any:
    packer = Encoder()
    node = packer.pack(result)
    return Decoder(tuple(packer.buffers)).unpack(node)


def gpu(name: str) -> Machine:
    return Machine(Scenario("a GPU", 1, ("cuda",)), "cuda:0", False, name, None)


def test_the_roofline_is_of_the_least_work_and_the_devices_peak() -> None:
    assert PEAK.least_s(LIMIT, {}, observed(torch.ones(1000))) == pytest.approx(4000 / 1e9)
    assert PEAK.least_s(LIMIT, {}, observed(torch.ones(1).expand(1000))) == pytest.approx(4 / 1e9)
    limit = SpeedLimit("baseline.py", 1.25, None, lambda drawn: drawn["n"] * 8.0, lambda drawn: drawn["n"] * 1e6)
    assert PEAK.least_s(limit, {"n": 1000}, observed(torch.ones(1))) == pytest.approx(1e9 / 1e12)
    assert PEAK.least_s(limit, {"n": 1000}, observed(torch.ones(1).half())) == pytest.approx(8000 / 1e9)
    known, unknown = peak_of(gpu(gpu_spec("T4").reported_name)), peak_of(gpu("Nobody's GPU 9000"))
    assert known.bytes_per_s == gpu_spec("T4").bytes_per_s
    assert unknown.bytes_per_s > known.bytes_per_s
    assert unknown.flops("float16") > known.flops("float16") > known.flops("float32")
    peak = peak_of(Machine(Scenario("the CPU", 0, ()), "cpu", False, "", None))
    assert peak.bytes_per_s > 0
    assert 0 < peak.flops("float32") < peak.flops("float16")
