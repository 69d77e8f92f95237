"""Speed from end to end. On the virtual GPU exact; on the CPU no verdict here depends on how busy the machine is."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from gpututor.course.loader import load_exercise
from gpututor.grading.client import GradingClient
from gpututor.grading.events import GradeRequest, GradingFinished, TimingProgressed
from gpututor.grading.report import Outcome, Status
from gpututor.hardware.scenario import Scenario
from gpututor.judge.author_code import load_code
from gpututor.judge.isolation import Process
from gpututor.judge.timing.measure import measure
from gpututor.judge.workers import WorkerPool, pool
from gpututor.judge.workers.pool import SpawnedWorkers
from gpututor.protocol.messages import MachineSpec
from tests.support.timed_gradings import BASELINE, CHECKS, GradeTimed

SLEEPS = BASELINE.replace("    return product", "    import time\n    time.sleep(0.006)\n    return product")
TWICE = BASELINE.replace(
    "    product = matrix\n", "    for _ in range(20):\n        matrix @ matrix\n    product = matrix\n"
)
HONEST = BASELINE.replace("def chain", "def honest") + "\n\ncalls = 0\n"
WRONG_LATER = (
    HONEST
    + """
def chain(matrix):
    global calls
    calls += 1
    return honest(matrix) if calls <= 20 else torch.zeros_like(matrix)
"""
)
CACHES_BY_POINTER = (
    HONEST
    + """
results = {}


def chain(matrix):
    if matrix.data_ptr() not in results:
        results[matrix.data_ptr()] = honest(matrix)
    return results[matrix.data_ptr()]
"""
)
CACHES_BY_SHAPE_LATER = (
    HONEST
    + """
last = None


def chain(matrix):
    global calls, last
    calls += 1
    if calls <= 20:
        last = honest(matrix)
    return last
"""
)
FINISHES_LATER = (
    HONEST
    + """
import threading


def chain(matrix):
    global calls
    calls += 1
    if calls <= 20:
        return honest(matrix)
    result = torch.empty_like(matrix)
    threading.Timer(0.05, lambda: result.copy_(honest(matrix))).start()
    return result
"""
)
BREAKS_LATER = (
    HONEST
    + """
def chain(matrix):
    global calls
    calls += 1
    if calls > 20:
        raise RuntimeError("tired")
    return honest(matrix)
"""
)
LEAVES_LATER = (
    HONEST
    + """
import os


def chain(matrix):
    global calls
    calls += 1
    if calls > 20:
        os._exit(0)
    return honest(matrix)
"""
)


def test_on_the_virtual_gpu_the_baseline_itself_takes_exactly_its_own_time(grade_timed: GradeTimed) -> None:
    report, speed = grade_timed(BASELINE, "virtual")

    assert report.outcome is Outcome.PASSED
    assert speed.measured.startswith("1.00 × the baseline's time")
    assert "(modelled)" in speed.measured


def test_on_the_virtual_gpu_wasted_work_is_too_slow_and_its_line_is_named(grade_timed: GradeTimed) -> None:
    report, speed = grade_timed(TWICE, "virtual")

    assert report.outcome is Outcome.TOO_SLOW
    assert speed.status is Status.TOO_SLOW
    assert speed.line in (6, 9)
    assert "(modelled)" in speed.expected
    assert grade_timed(TWICE, "virtual")[1].got == speed.got


@pytest.mark.long
def test_on_the_cpu_the_baseline_itself_is_never_too_slow(grade_timed: GradeTimed) -> None:
    report, speed = grade_timed(BASELINE, "cpu")

    assert speed.status in (Status.PASSED, Status.INCONCLUSIVE)
    assert report.outcome.value == speed.status.value
    assert "measured" in speed.measured


@pytest.mark.long
def test_on_the_cpu_code_that_takes_many_times_as_long_never_passes(grade_timed: GradeTimed) -> None:
    report, speed = grade_timed(SLEEPS, "cpu")

    assert speed.status in (Status.TOO_SLOW, Status.INCONCLUSIVE)
    assert report.outcome.value == speed.status.value


@pytest.mark.parametrize(
    "submission",
    [
        WRONG_LATER,
        pytest.param(CACHES_BY_POINTER, marks=pytest.mark.long),
        pytest.param(FINISHES_LATER, marks=pytest.mark.long),
        pytest.param(CACHES_BY_SHAPE_LATER, marks=pytest.mark.long),
        pytest.param(BREAKS_LATER, marks=pytest.mark.long),
        pytest.param(LEAVES_LATER, marks=pytest.mark.long),
    ],
)
def test_what_is_right_only_while_it_is_not_timed_fails(grade_timed: GradeTimed, submission: str) -> None:
    report, speed = grade_timed(submission, "cpu")

    assert report.outcome is Outcome.FAILED
    assert speed.status in (Status.FAILED, Status.NOT_RUN)
    assert CHECKS.index("speed(") < CHECKS.index("structure(reference)")
    assert report.verdicts[-1] == speed


NARROW = """\
from gpututor.checks import speed
from gpututor.checks.model import Check


def find(run):
    for call in run.calls:
        call.output.values.sum()


checks = [speed(1.25, real_at_most=1.25), Check("narrow", lambda _: "It is a tensor", find, results_only=True)]
"""
ODD_LATER = WRONG_LATER.replace("torch.zeros_like(matrix)", "'odd'")


@pytest.mark.long
def test_a_check_that_breaks_on_timed_results_only_is_for_a_person_to_tell(
    grade_timed: GradeTimed, timed_folder: Path
) -> None:
    (timed_folder / "checks.py").write_text(NARROW)

    report, speed = grade_timed(ODD_LATER, "cpu")

    assert speed.status is Status.NEEDS_REVIEW, speed
    assert "line 7 of checks.py" in speed.got
    assert report.outcome is Outcome.NEEDS_REVIEW


def test_what_is_wrong_is_not_timed(grade_timed: GradeTimed) -> None:
    report, speed = grade_timed("def chain(matrix):\n    return matrix\n", "cpu")

    assert report.outcome is Outcome.FAILED
    assert speed.status is Status.NOT_RUN


def test_a_baseline_that_is_wrong_is_the_exercises_fault(client: GradingClient, timed_folder: Path) -> None:
    (timed_folder / "baseline.py").write_text("def chain(matrix):\n    return matrix\n")
    *events, end = client.grade(GradeRequest(str(timed_folder), BASELINE, "chain.py", device="cpu"))

    assert [event.pairs for event in events if isinstance(event, TimingProgressed)] == [0]
    assert isinstance(end, GradingFinished)
    assert end.report.outcome is Outcome.INTERNAL_ERROR
    assert "baseline.py: " in end.report.reason


def test_the_device_is_taken_alone_only_when_the_workers_are_ready(
    timed_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "reap_orphans", lambda keep: None)  # this process has other children
    exercise = load_exercise(timed_folder)
    code = load_code(exercise)
    workers = WorkerPool(SpawnedWorkers(Process()), is_last=True)

    class Entered(Exception):
        """The moment at which other gradings have to wait."""

    def alone() -> contextlib.nullcontext[None]:
        assert len(workers._in_use) == 3
        raise Entered

    spec = MachineSpec(Scenario("the CPU", 0, (), ""), "cpu", 0)
    limit = next(check.speed for check in code.checks if check.speed is not None)
    with pytest.raises(Entered):
        measure(workers, exercise, spec, BASELINE, BASELINE, code, limit, 0, alone=alone)
