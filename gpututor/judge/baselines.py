"""Running files of an exercise's author in workers of their own: baselines, with which a submission is compared."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpututor.checks.authors import Frame, fault_at
from gpututor.checks.core import Call, Run
from gpututor.course.exercise import Exercise
from gpututor.errors import CourseError
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
    seed: int,
    code: ExerciseCode,
) -> dict[str, tuple[Call, ...]]:
    """The calls of each of `plan.baselines`, by file name, each in a worker of its own.

    A submission's process never holds a baseline: it would hold right answers. On the virtual GPU all that a baseline
    does depends on its inputs alone, so the last few are kept: a class, and the author's gate, ask with one seed.
    Results are left out. Raises `CourseError` for a baseline that does not run, `GradingError` for a worker that broke
    by itself.
    """

    def calls_of(name: str) -> tuple[Call, ...]:
        kept = (exercise.folder, exercise.file(name), exercise.given, exercise.cases, json.dumps(spec.to_json()), seed)
        if kept not in _KEPT:
            ran = run_of_file(pool, exercise, spec, name, inputs(), code)
            calls = tuple(replace(call, output=None) for call in ran.calls)
            if spec.kind != "virtual":
                return calls
            if len(_KEPT) >= MOST_KEPT:
                _KEPT.pop(next(iter(_KEPT)))
            _KEPT[kept] = calls
        return _KEPT[kept]

    return {name: calls_of(name) for name in plan.baselines}


MOST_KEPT = 4
_KEPT: dict[Hashable, tuple[Call, ...]] = {}
"""Of the last baselines: their calls, by all that decides on them."""


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
    if observation.trouble is not None and observation.trouble.worker_broke is not None:
        broke = observation.trouble.worker_broke
        if broke.given is None:
            raise broke
        given = str(exercise.folder / "given.py")
        raise fault_at([Frame(given, *frame) for frame in broke.given.frames], broke.given.said, Path(given))
    if observation.trouble is not None and observation.trouble.exited:
        problem = f"it or {name} ended the worker's process: {observation.trouble.finding.got}"
        raise CourseError(
            f"{exercise.folder / 'given.py'}: {problem}", "Remove os._exit() and the like from both files."
        )
    if observation.trouble is not None:
        raise CourseError(
            f"{exercise.folder / name}: it does not run: {observation.trouble.finding.got}",
            "Fix it: other files are graded against it.",
        )
    return with_opened(pool, exercise, plan, observation.run)
