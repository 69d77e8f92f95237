"""The author's code in the judge: checks, inputs, baselines and the reference solution."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from gpututor.checks.authors import Frame, authors_frames, check_fits, definition, describe_error, fault_at, fault_of
from gpututor.checks.model import Call, Check, Finding, Run
from gpututor.course.model import Exercise
from gpututor.errors import CourseError, GradingError, TutorError
from gpututor.grading.report import Status, Verdict
from gpututor.judge.runner import RunPlan, Submission, run_submission, with_opened
from gpututor.judge.verdicts import found, verdict_of
from gpututor.judge.workers import WorkerPool
from gpututor.protocol.messages import MachineSpec


@dataclass(frozen=True)
class ExerciseCode:
    """`given.py` and `checks.py`, loaded."""

    draw: Callable[[int, int], dict[str, Any]]
    given_source: str
    """Sent to the worker, which needs `build` of it."""
    checks: tuple[Check, ...]


def load_code(exercise: Exercise) -> ExerciseCode:
    """Raises `CourseError` that names the file, the line and what to do."""
    given_path, checks_path = exercise.folder / "given.py", exercise.folder / "checks.py"
    given = exercise.given
    checks = getattr(_execute(checks_path, exercise.checks), "checks", None)
    module = _execute(given_path, given)
    draw, build = getattr(module, "draw", None), getattr(module, "build", None)
    if not callable(draw):
        raise CourseError(f"{given_path}: there is no function draw(seed, case)", "Write one.")
    check_fits(draw, "draw(seed, case)", 0, 0)
    if callable(build):
        check_fits(build, "build(drawn, device)", {}, torch.device("cpu"))
    if not isinstance(checks, list) or not checks or not all(isinstance(check, Check) for check in checks):
        raise CourseError(
            f"{checks_path}: `checks` must be a list with at least one check", "Such as checks = [value(expected)]."
        )
    twice = [name for name, times in Counter(check.name for check in checks).items() if times > 1]
    if twice:
        raise CourseError(f"{checks_path}: two checks are called {twice[0]!r}", "Give one of them another name=.")
    return ExerciseCode(draw, given, tuple(checks))


def draw_inputs(code: ExerciseCode, folder: Path, seed: int, case: int) -> dict[str, Any]:
    """What is drawn for one call. Raises `CourseError` when the author's draw breaks."""
    try:
        drawn = code.draw(seed, case)
    except (Exception, SystemExit) as error:
        raise fault_of(error, folder / "given.py") from error
    at, file = definition(code.draw), folder / "given.py"
    if not isinstance(drawn, dict) or not all(isinstance(name, str) for name in drawn):
        raise fault_at(at, "draw() must return a dict with names as keys", file, "Return one.")
    if odd := _odd_part(drawn):
        advice = "Return CPU tensors, numbers, text, lists, tuples and dicts; let build() make everything else."
        raise fault_at(at, f"draw() returns {odd}, which does not travel to the worker", file, advice)
    return drawn


_PLAIN = (type(None), bool, int, float, str, torch.Tensor, torch.nn.Parameter, torch.device, torch.dtype, torch.Size)


def _odd_part(value: Any, path: str = "") -> str:
    """Return words for the first part that cannot be sent to a worker, such as `a Linear at 'model'`; or nothing."""
    if isinstance(value, torch.Tensor) and value.device.type != "cpu":
        return f"a tensor on {value.device} at {path!r}"
    if type(value) in _PLAIN:
        return ""
    if isinstance(value, dict):
        return next(filter(None, (_odd_part(part, f"{path}.{key}".strip(".")) for key, part in value.items())), "")
    if isinstance(value, list | tuple):
        parts = enumerate(value)
        return next(filter(None, (_odd_part(part, f"{path}.{index}".strip(".")) for index, part in parts)), "")
    return f"a {type(value).__name__} at {path!r}"


def _execute(path: Path, source: str) -> ModuleType:
    module = ModuleType(path.stem)
    module.__file__ = str(path)
    try:
        exec(compile(source, str(path), "exec"), module.__dict__)
    except (Exception, SystemExit) as error:
        raise fault_of(error, path) from error
    return module


def run_baselines(
    pool: WorkerPool,
    exercise: Exercise,
    spec: MachineSpec,
    plan: RunPlan,
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
            ran = run_author_file(pool, exercise, spec, name, inputs(), code)
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


def run_author_file(
    pool: WorkerPool,
    exercise: Exercise,
    spec: MachineSpec,
    name: str,
    inputs: Iterable[dict[str, Any]],
    code: ExerciseCode,
    plan: RunPlan | None = None,
) -> Run:
    """The run of one file of the exercise's folder, without baselines.

    Raises `CourseError` for a file that does not run, `GradingError` for a worker that broke by itself.
    """
    plan = plan or RunPlan()
    worker = pool.take()
    try:
        submission = Submission(name, exercise.file(name))
        observation = run_submission(worker, exercise, spec, submission, inputs, code.given_source, plan)
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


class ReferenceSolution:
    """In one scenario, with the inputs that the submission had. It runs when it is first needed."""

    def __init__(
        self,
        pool: WorkerPool,
        exercise: Exercise,
        spec: MachineSpec,
        plan: RunPlan,
        inputs: Callable[[], Iterable[dict[str, Any]]],
        code: ExerciseCode,
    ) -> None:
        self._pool = pool
        self._exercise = exercise
        self._spec = spec
        self._plan = plan
        self._inputs = inputs
        self._code = code
        self._run: Run | None = None

    def run(self) -> Run:
        """Raises `CourseError` where it does not run, and `GradingError` where the worker breaks with it too."""
        if self._run is None:
            parts = (self._pool, self._exercise, self._spec, "solution.py", self._inputs(), self._code, self._plan)
            self._run = run_author_file(*parts)
        return self._run

    def verdict_of(self, check: Check, run: Run) -> Verdict:
        """What `check` says about the submission's run: for a person to tell where it breaks on that one only.

        Raises what it raises where it breaks on the solution's run too.
        """
        try:
            return verdict_of(check, run)
        except Exception as error:
            own = replace(self.run(), baselines=run.baselines, timings=run.timings)
            try:
                verdict_of(check, own)
            except Exception:
                if isinstance(error, TutorError) or authors_frames(error):
                    raise fault_of(error, self._exercise.folder / "checks.py", f"check {check.name!r}: ") from None
                problem = f"Check {check.name!r} broke with the exercise's own solution, too: {describe_error(error)}"
                raise GradingError(problem, "Report this with the exercise, if its checks.py is right.") from error
            finding = broke(error)
            return replace(found(check.name, check.sentence(run.machine), finding, run.machine), of=check.points)


def broke(error: Exception) -> Finding:
    """What a person should look at where a check broke on what a submission did, and not on what others did."""
    frames = authors_frames(error)
    at = f", at line {frames[-1].line} of {os.path.basename(frames[-1].file)}" if frames else ""
    return Finding(
        "a result that the check can look at",
        f"the check broke on it, and not on that of the exercise's own file{at}: {describe_error(error)}",
        why="What nobody thought of can be right or wrong: a person has to look.",
        advice="Compare what your function returns with the example in the task.",
        status=Status.NEEDS_REVIEW,
    )
