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


def later(then: str) -> str:
    """Return a program that is honest in its first 20 calls, before it is timed."""
    head = "import os, threading\n\nlast = None\n\n\ndef chain(matrix):\n    global calls, last\n    calls += 1\n"
    return f"{HONEST}{head}    if calls <= 20:\n        last = honest(matrix)\n        return last\n    {then}\n"


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
FINISHES_LATER = (
    "result = torch.empty_like(matrix)\n"
    "    threading.Timer(0.05, lambda: result.copy_(honest(matrix))).start()\n    return result"
)


def test_virtual_times_are_exact_and_wasted_work_has_its_line(grade_timed: GradeTimed) -> None:
    report, speed = grade_timed(BASELINE, "virtual")

    assert report.outcome is Outcome.PASSED
    assert speed.measured.startswith("1.00 × the baseline's time")
    assert "(modelled)" in speed.measured
    report, speed = grade_timed(TWICE, "virtual")

    assert report.outcome is Outcome.TOO_SLOW
    assert speed.status is Status.TOO_SLOW
    assert speed.line in (6, 9)
    assert "(modelled)" in speed.expected
    assert grade_timed(TWICE, "virtual")[1].got == speed.got


@pytest.mark.long
@pytest.mark.parametrize(("source", "status"), [(BASELINE, Status.PASSED), (SLEEPS, Status.TOO_SLOW)])
def test_on_the_cpu_a_time_is_judged_or_inconclusive(grade_timed: GradeTimed, source: str, status: Status) -> None:
    report, speed = grade_timed(source, "cpu")
    assert speed.status in (status, Status.INCONCLUSIVE)
    assert report.outcome.value == speed.status.value
    assert "measured" in speed.measured


@pytest.mark.parametrize(
    "submission",
    [
        later("return torch.zeros_like(matrix)"),
        pytest.param(CACHES_BY_POINTER, marks=pytest.mark.long),
        pytest.param(later(FINISHES_LATER), marks=pytest.mark.long),
        pytest.param(later("return last"), marks=pytest.mark.long),
        pytest.param(later("raise RuntimeError('tired')"), marks=pytest.mark.long),
        pytest.param(later("os._exit(0)"), marks=pytest.mark.long),
    ],
    ids=["wrong", "cached by pointer", "finished later", "cached by shape", "broken", "gone"],
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


@pytest.mark.long
def test_a_check_that_breaks_only_on_timed_results_needs_review(grade_timed: GradeTimed, timed_folder: Path) -> None:
    (timed_folder / "checks.py").write_text(NARROW)

    report, speed = grade_timed(later("return 'odd'"), "cpu")

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
