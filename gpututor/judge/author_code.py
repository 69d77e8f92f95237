"""The author's code in the judge: checks, inputs, baselines and the reference solution."""

from __future__ import annotations

import contextlib
import functools
import json
import os
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import torch

from gpututor.checks.author_errors import (
    AuthorFrame,
    authors_frames,
    check_fits,
    definition,
    describe_error,
    fault_at,
    fault_of,
)
from gpututor.checks.model import Call, Check, Finding, Machine, Run
from gpututor.course.loader import load_exercise
from gpututor.course.model import Exercise
from gpututor.errors import CourseError, GradingError, NotGradableHere, TutorError
from gpututor.grading.description import CheckDescription, description_to_json
from gpututor.grading.events import GradeRequest
from gpututor.grading.report import BROKEN_CHECK, Outcome, Status, Verdict
from gpututor.hardware.scenario import ACCELERATORS
from gpututor.judge.devices import machine_specs, to_machine
from gpututor.judge.runner import Opener, RunPlan, SourceFile, run_submission
from gpututor.judge.verdicts import IMPLICIT_CHECKS, failed_verdict, verdict_of
from gpututor.judge.workers import WorkerPool
from gpututor.protocol.messages import MachineSpec


@dataclass(frozen=True)
class ExerciseCode:
    """`given.py` and `checks.py`, loaded."""

    draw: Callable[[int, int], dict[str, Any]]
    given_source: str
    """Source for the worker, which calls its `build`."""
    checks: tuple[Check, ...]


def load_code(exercise: Exercise) -> ExerciseCode:
    """Load the exercise's code. Raises `CourseError` with the file, the line and advice."""
    given_path, checks_path = exercise.folder / "given.py", exercise.folder / "checks.py"
    checks = getattr(_execute(checks_path, exercise.checks), "checks", None)
    module = _execute(given_path, exercise.given)
    draw, build = getattr(module, "draw", None), getattr(module, "build", None)
    if not callable(draw):
        raise CourseError(f"{given_path}: there is no function draw(seed, case)", "Define it.")
    check_fits(draw, "draw(seed, case)", 0, 0)
    if callable(build):
        check_fits(build, "build(drawn, device)", {}, torch.device("cpu"))
    if not isinstance(checks, list) or not checks or not all(isinstance(check, Check) for check in checks):
        raise CourseError(
            f"{checks_path}: `checks` must be a list with at least one check", "Example: checks = [value(expected)]."
        )
    repeated = [name for name, times in Counter(check.name for check in checks).items() if times > 1]
    if repeated:
        raise CourseError(f"{checks_path}: two checks are called {repeated[0]!r}", "Give one of them another name=.")
    _check_real_limits(exercise, checks)
    return ExerciseCode(draw, exercise.given, tuple(checks))


def _check_real_limits(exercise: Exercise, checks: Sequence[Check]) -> None:
    """Raise `CourseError` for an impossible time limit on real devices, even if this machine has none."""
    limited = [check for check in checks if check.speed is not None and check.speed.real_at_most is not None]
    if not limited:
        return
    lead = f"{exercise.folder / 'checks.py'}: check {limited[0].name!r} has a limit for real devices"
    if exercise.kind != "function":
        advice = "Leave out real_at_most: only functions are timed on real devices."
        raise CourseError(f"{lead}, but the exercise's kind is {exercise.kind!r}", advice)
    if not any(check.results_only for check in checks):
        raise CourseError(f"{lead}, but no check verifies timed results", "Add parity(), structure() or value().")


def draw_inputs(code: ExerciseCode, folder: Path, seed: int, case: int) -> dict[str, Any]:
    """Draw the inputs of one call. Raises `CourseError` if the author's `draw` breaks."""
    try:
        drawn = code.draw(seed, case)
    except (Exception, SystemExit) as error:
        raise fault_of(error, folder / "given.py") from error
    at, file = definition(code.draw), folder / "given.py"
    if not isinstance(drawn, dict) or not all(isinstance(name, str) for name in drawn):
        raise fault_at(at, "draw() must return a dict with names as keys", file, 'Example: return {"x": x}.')
    if unsupported := _unsupported_part(drawn):
        advice = "Return CPU tensors, numbers, text, lists, tuples and dicts; let build() make everything else."
        raise fault_at(at, f"draw() returns {unsupported}, which cannot be sent to the worker", file, advice)
    return drawn


_PLAIN = (type(None), bool, int, float, str, torch.Tensor, torch.nn.Parameter, torch.device, torch.dtype, torch.Size)


def _unsupported_part(value: Any, path: str = "") -> str:
    """Describe the first part that cannot be sent to a worker, such as `a Linear at 'model'`; empty if none."""
    if isinstance(value, torch.Tensor) and value.device.type != "cpu":
        return f"a tensor on {value.device} at {path!r}"
    if type(value) in _PLAIN:
        return ""
    if not isinstance(value, dict | list | tuple):
        return f"a {type(value).__name__} at {path!r}"
    parts = value.items() if isinstance(value, dict) else enumerate(value)
    return next(filter(None, (_unsupported_part(part, f"{path}.{key}".strip(".")) for key, part in parts)), "")


def _execute(path: Path, source: str) -> ModuleType:
    module = ModuleType(path.stem)
    module.__file__ = str(path)
    try:
        exec(_compiled(source, str(path)), module.__dict__)
    except (Exception, SystemExit) as error:
        raise fault_of(error, path) from error
    return module


@functools.lru_cache(64)
def _compiled(source: str, file_name: str) -> CodeType:
    return compile(source, file_name, "exec")


MAX_BASELINES = 4
_BASELINES: dict[Hashable, tuple[Call, ...]] = {}
"""Cached calls of the last baselines, by everything that determines them."""


@dataclass
class AuthorRuns:
    """Runs of the author's files in one scenario, on the submission's inputs, each in a worker of its own."""

    pool: WorkerPool
    exercise: Exercise
    spec: MachineSpec
    plan: RunPlan
    inputs: Callable[[], Iterable[dict[str, Any]]]
    seed: int
    code: ExerciseCode
    _solution: Run | None = None

    def baselines(self) -> dict[str, tuple[Call, ...]]:
        """Run each of `plan.baselines`; return the calls, without results, by file name.

        A submission's process never runs a baseline, which would give it right answers. On the virtual GPU, the same
        inputs give the same calls, so the last few are cached: `gpututor verify` grades many files with one seed.
        Raises what `_run` does.
        """
        return {name: self._calls_of(name) for name in self.plan.baselines}

    def _calls_of(self, name: str) -> tuple[Call, ...]:
        exercise, spec = self.exercise, json.dumps(self.spec.to_json())
        key = (exercise.folder, exercise.file(name), exercise.given, exercise.cases, spec, self.seed)
        if key not in _BASELINES:
            calls = tuple(replace(call, output=None) for call in self._run(name, RunPlan()).calls)
            if self.spec.kind != "virtual":
                return calls
            if len(_BASELINES) >= MAX_BASELINES:
                _BASELINES.pop(next(iter(_BASELINES)))
            _BASELINES[key] = calls
        return _BASELINES[key]

    def _run(self, name: str, plan: RunPlan) -> Run:
        """Run one file.

        Raises `CourseError` if it does not run, `GradingError` if it takes too long or the worker broke by itself.
        """
        exercise, worker = self.exercise, self.pool.take()
        try:
            submission, source = SourceFile(name, exercise.file(name)), self.code.given_source
            observation = run_submission(worker, exercise, self.spec, submission, self.inputs(), source, plan)
        finally:
            self.pool.release(worker)
        failure, given = observation.failure, exercise.folder / "given.py"
        if failure is None:
            with contextlib.closing(Opener(self.pool, exercise)) as opener:
                return opener.read_output_files(plan, observation.run)
        if (broke := failure.worker_broke) is not None:
            if broke.given is None:
                raise broke
            raise fault_at([AuthorFrame(str(given), *frame) for frame in broke.given.frames], broke.given.said, given)
        if failure.exited:
            problem = f"this file or {name} ended the worker's process: {failure.finding.got}"
            raise CourseError(f"{given}: {problem}", "Remove os._exit() and similar calls from both files.")
        if failure.outcome is Outcome.TIMEOUT:
            problem = f"{exercise.folder / name}: {failure.finding.got}"
            raise GradingError(problem, "Grade again on an idle computer, or raise limits.wall_s in exercise.toml.")
        problem = f"{exercise.folder / name}: it does not run: {failure.finding.got}"
        raise CourseError(problem, "Fix it: other files are graded against it.")

    @property
    def has_solution(self) -> bool:
        """False in a students' copy."""
        return (self.exercise.folder / "solution.py").exists()

    def solution(self) -> Run:
        """Run the solution once, and return its run. Raises what `_run` does."""
        if self._solution is None:
            self._solution = self._run("solution.py", self.plan)
        return self._solution

    def verdict_of(self, check: Check, run: Run) -> Verdict:
        """Return the verdict of `check` on the submission's run.

        If the check raises an error only on that run, the verdict is `needs review`; also without a solution. Raises
        `CourseError` or `GradingError` if the check breaks on the solution's run too.
        """
        try:
            return verdict_of(check, run)
        except Exception as error:
            if self.has_solution:
                self._try_on_solution(check, run, error)
            finding = finding_of_broken_check(error, is_compared=self.has_solution)
            verdict = failed_verdict(check.name, check.sentence(run.machine), finding, run.machine)
            return replace(verdict, of=check.points)

    def _try_on_solution(self, check: Check, run: Run, error: Exception) -> None:
        """Raise `CourseError` or `GradingError` if the check breaks on the solution's run, too."""
        own = replace(self.solution(), baselines=run.baselines, timings=run.timings)
        try:
            verdict_of(check, own)
        except Exception:
            if isinstance(error, TutorError) or authors_frames(error):
                raise fault_of(error, self.exercise.folder / "checks.py", f"check {check.name!r}: ") from None
            problem = f"Check {check.name!r} broke with the exercise's own solution, too: {describe_error(error)}"
            raise GradingError(problem, "Report this with the exercise, if its checks.py is right.") from error


def finding_of_broken_check(error: Exception, *, is_compared: bool = True) -> Finding:
    """Return the finding for a check that broke on the submission, but not on the solution, if there is one."""
    but = ", but not on the result of the exercise's own file" if is_compared else ""
    frames = authors_frames(error)
    at = f", at line {frames[-1].line} of {os.path.basename(frames[-1].file)}" if frames else ""
    return Finding(
        BROKEN_CHECK,
        f"the check broke on it{but}{at}: {describe_error(error)}",
        why="The author did not expect such a result. It may be right or wrong: a person has to decide.",
        advice="Compare what your function returns with the example in the task.",
        status=Status.NEEDS_REVIEW,
    )


def answer_describe(exercise_folder: str) -> dict[str, Any]:
    """Describe the checks in JSON form, or report why they cannot be described. Never raises."""
    try:
        return description_to_json(describe(Path(exercise_folder)))
    except TutorError as error:
        return {"title": error.title, "advice": error.advice}
    except (Exception, SystemExit) as error:  # an author's check may do anything
        title = f"{exercise_folder}: its checks cannot be described ({type(error).__name__}: {error})"
        return {"title": title, "advice": "Check the exercise with `gpututor verify`."}


def describe(exercise_folder: Path) -> tuple[CheckDescription, ...]:
    """Describe the author's checks, then the implicit checks. Raises `CourseError`."""
    exercise = load_exercise(exercise_folder)
    request = GradeRequest(str(exercise_folder), "", "", device="virtual")
    machines: list[Machine] = []
    with contextlib.suppress(NotGradableHere):  # the exercise is for real devices only
        machines = [to_machine(machine, ()) for machine in machine_specs(exercise, request, ())]
    has_real = bool(set(ACCELERATORS) & set(exercise.devices))
    checks = load_code(exercise).checks
    own = {check.name for check in checks}
    every = (*checks, *(check for check in IMPLICIT_CHECKS if check.name not in own))
    return tuple(_describe_check(check, machines, has_real) for check in every)


def _describe_check(check: Check, machines: Sequence[Machine], has_real: bool) -> CheckDescription:
    applying = [machine for machine in machines if check.applies(machine)]
    on_real = has_real and any(check.applies(replace(machine, virtual=False)) for machine in machines)
    return CheckDescription(
        name=check.name,
        kind=check.kind,
        points=check.points,
        sentences=tuple(dict.fromkeys(check.sentence(machine) for machine in applying)),
        depends_on_device=has_real and on_real != bool(applying),
    )
