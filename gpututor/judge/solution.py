"""The author's solution in a submission's place: what breaks with it too is no fault of the submission."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from gpututor.checks.authors import authors_frames, fault_of, in_words
from gpututor.checks.core import Check, Finding, Run
from gpututor.course.exercise import Exercise
from gpututor.errors import GradingError, TutorError
from gpututor.grading.report import Status, Verdict
from gpututor.judge.baselines import run_of_file
from gpututor.judge.exercise_code import ExerciseCode
from gpututor.judge.plan import Plan
from gpututor.judge.verdicts import found, verdict_of
from gpututor.judge.workers import WorkerPool
from gpututor.wire.messages import MachineSpec


class Solution:
    """In one scenario, with the inputs that the submission had. It runs when it is first needed."""

    def __init__(
        self,
        pool: WorkerPool,
        exercise: Exercise,
        spec: MachineSpec,
        plan: Plan,
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
            self._run = run_of_file(*parts)
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
                problem = f"Check {check.name!r} broke with the exercise's own solution, too: {in_words(error)}"
                raise GradingError(problem, "Report this with the exercise, if its checks.py is right.") from error
            finding = broke(error)
            return replace(found(check.name, check.sentence(run.machine), finding, run.machine), of=check.points)


def broke(error: Exception) -> Finding:
    """What a person should look at where a check broke on what a submission did, and not on what others did."""
    frames = authors_frames(error)
    at = f", at line {frames[-1].line} of {os.path.basename(frames[-1].file)}" if frames else ""
    return Finding(
        "a result that the check can look at",
        f"the check broke on it, and not on that of the exercise's own file{at}: {in_words(error)}",
        why="What nobody thought of can be right or wrong: a person has to look.",
        advice="Compare what your function returns with the example in the task.",
        status=Status.NEEDS_REVIEW,
    )
