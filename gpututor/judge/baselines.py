"""Running files of an exercise's author in workers of their own: baselines, with which a submission is compared."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from gpututor.checks.core import Call, Run
from gpututor.course.exercise import Exercise
from gpututor.errors import CourseError, GradingError
from gpututor.judge.conduct import Submission, conduct
from gpututor.judge.exercise_code import ExerciseCode
from gpututor.judge.opening import with_opened
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
    that does not run, `GradingError` for a worker that broke by itself.
    """
    return {name: run_of_file(pool, exercise, spec, name, inputs(), code).calls for name in plan.baselines}


def run_of_file(
    pool: WorkerPool,
    exercise: Exercise,
    spec: MachineSpec,
    name: str,
    inputs: Iterable[dict[str, Any]],
    code: ExerciseCode,
    plan: Plan | None = None,
) -> Run:
    """The run of one file of the exercise's folder, without baselines.

    Raises `CourseError` for a file that does not run, `GradingError` for a worker that broke by itself.
    """
    plan = plan or Plan()
    worker = pool.take()
    try:
        submission = Submission(name, exercise.file(name))
        observation = conduct(worker, exercise, spec, submission, inputs, code.given_source, plan)
    finally:
        pool.release(worker)
    if observation.trouble is not None and observation.trouble.worker_broke:
        raise GradingError(observation.trouble.traceback, "Run `gpututor doctor`.")
    if observation.trouble is not None:
        raise CourseError(
            f"{exercise.folder / name}: it does not run: {observation.trouble.finding.got}",
            "Mend it: others are graded against it.",
        )
    return with_opened(pool, exercise, plan, observation.run)
