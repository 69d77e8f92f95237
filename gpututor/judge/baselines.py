"""Running an exercise's baselines on the virtual GPU, beside which a submission's time is judged."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from gpututor.checks.core import Call
from gpututor.course.exercise import Exercise
from gpututor.errors import CourseError
from gpututor.judge.conduct import Submission, conduct
from gpututor.judge.exercise_code import ExerciseCode
from gpututor.judge.plan import Plan
from gpututor.judge.workers import WorkerPool
from gpututor.wire.messages import MachineSpec


def run_baselines(
    pool: WorkerPool,
    exercise: Exercise,
    spec: MachineSpec,
    plan: Plan,
    inputs: Callable[[], Iterable[dict[str, Any]]],
    code: ExerciseCode,
) -> dict[str, tuple[Call, ...]]:
    """The calls of each of `plan.baselines`, by file name, each in a worker of its own.

    A submission's process never holds a baseline: it would hold right answers. Raises `CourseError` for a baseline
    that does not run.
    """
    return {name: _calls(pool, exercise, spec, name, inputs(), code) for name in plan.baselines}


def _calls(
    pool: WorkerPool,
    exercise: Exercise,
    spec: MachineSpec,
    name: str,
    inputs: Iterable[dict[str, Any]],
    code: ExerciseCode,
) -> tuple[Call, ...]:
    worker = pool.take()
    try:
        submission = Submission(name, exercise.file(name))
        observation = conduct(worker, exercise, spec, submission, inputs, code.given_source, Plan())
    finally:
        pool.release(worker)
    if observation.trouble is not None:
        raise CourseError(
            f"{exercise.folder / name}: the baseline does not run: {observation.trouble.finding.got}",
            "Mend it: it is graded against, and has to do what the solution does.",
        )
    return observation.run.calls
