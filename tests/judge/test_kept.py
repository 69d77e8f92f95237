"""What the judge keeps of one run is bounded, however often a function is called."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpututor.course.loader import load_exercise
from gpututor.grading.events import GradeRequest
from gpututor.grading.report import Outcome
from gpututor.judge import runner
from gpututor.judge.devices import machine_specs
from gpututor.judge.isolation import Process
from gpututor.judge.runner import Opener, RunPlan, Submission
from gpututor.judge.workers import Worker, WorkerPool
from gpututor.judge.workers.pool import SpawnedWorkers

LARGE = "import torch\n\n\ndef twice(number):\n    return torch.ones(1000)\n"
SAVES = (
    "import torch\n\n\ndef twice(number):\n"
    "    torch.save(torch.zeros(1).expand(1000).contiguous(), 'x.pt')\n    return 0\n"
)


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    made = WorkerPool(SpawnedWorkers(Process()))
    yield made
    made.kill_all()


@pytest.fixture
def worker(pool: WorkerPool) -> Iterator[Worker]:
    taken = pool.take()
    yield taken
    pool.release(taken)


def observed(worker: Worker, folder: Path, source: str, plan: RunPlan) -> runner.Observation:
    exercise = load_exercise(folder)
    spec = machine_specs(exercise, GradeRequest(str(folder), source, "a.py"), worker.devices)[0]
    return runner.run_submission(worker, exercise, spec, Submission("a.py", source), [{"number": 1}], "", plan)


@pytest.mark.long
def test_answers_to_all_calls_together_may_be_too_much(
    worker: Worker, exercise_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "KEPT_BYTES", 20_000)

    assert observed(worker, exercise_folder, LARGE, RunPlan(repeats=3)).failure is None
    failure = observed(worker, exercise_folder, LARGE, RunPlan(repeats=6)).failure

    assert failure is not None
    assert failure.outcome is Outcome.FAILED
    assert "at most 20,000 are kept" in failure.finding.got
    assert observed(worker, exercise_folder, LARGE, RunPlan(repeats=3)).failure is None


@pytest.mark.long
def test_so_may_all_files_that_are_opened(
    worker: Worker, pool: WorkerPool, exercise_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "KEPT_BYTES", 10_000)
    plan = RunPlan(repeats=3, files=("x.pt",), opens=(("x.pt", "torch"),))
    run = observed(worker, exercise_folder, SAVES, plan).run

    found = Opener(pool, load_exercise(exercise_folder)).read_output_files(plan, run)

    refusals = [call.opened["x.pt", "torch"].refusal for calls in found.repeated for call in calls]
    assert refusals == ["", "", "it and the files before it hold more than 10,000 bytes"]
