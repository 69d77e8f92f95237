"""Times a submission against a baseline on a real device, and verifies the results of timed calls."""

from __future__ import annotations

import contextlib
import gc
import os
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from gpututor.checks.model import Call, Check, Finding, Machine, Run, SpeedLimit, Spread, Timing
from gpututor.course.model import Exercise
from gpututor.errors import CourseError
from gpututor.grading.report import Status
from gpututor.grading.report_text import LEAST_TIME
from gpututor.judge.author_code import ExerciseCode, draw_inputs, finding_of_broken_check
from gpututor.judge.devices import to_machine
from gpututor.judge.timing import roofline
from gpututor.judge.timing.sequential_test import (
    Comparison,
    Inputs,
    PairedComparison,
    SequentialSettings,
    SignDecision,
    quartiles,
)
from gpututor.judge.timing.timing_workers import NullWorker, Stopped, SuspendedProcesses, TimingWorker
from gpututor.judge.workers import Worker, WorkerPool
from gpututor.protocol.messages import MachineSpec
from gpututor.trace.columns import Trace
from gpututor.trace.formatting import duration

ALLOWANCE_S = 2.0
"""Seconds for verifying: references run in float64 on the CPU, which may be far slower than the device."""

TIMING_WORKERS = 3
"""Workers of a timing: the baseline's, the submission's, and one for the round trip."""


class ResultVerifier:
    """Verifier of timed results: of all until the allowance is used up, then of one random result in each batch.

    The choice is made after the results arrive. Even after the allowance, two of three timings detect a submission that
    is wrong in a tenth of its calls.
    """

    def __init__(
        self,
        checks: Sequence[Check],
        machine: Machine,
        entry: str,
        chance: random.Random,
        allowance_s: float = ALLOWANCE_S,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Raises `CourseError` if no check can verify timed calls."""
        self._checks = [check for check in checks if check.results_only and check.applies(machine)]
        if not self._checks:
            raise CourseError(
                "The exercise has a speed check, but no check that verifies results on a real device.",
                "Add parity(), structure() or value().",
            )
        self._machine, self._entry, self._chance, self._now_s = machine, entry, chance, now_s
        self._left_s, self._call_s = allowance_s, 0.0
        self.verified = self.calls = 0

    def find(self, inputs: Inputs, outputs: Sequence[Any], source: str) -> Finding | None:
        """Return a finding for the first wrong result among the verified results of a batch; None if they are right."""
        calls = [Call(drawn, {}, output, Trace()) for drawn, output in zip(inputs, outputs, strict=True)]
        order = self._chance.sample(range(len(calls)), len(calls))
        self.calls += len(calls)
        for position, index in enumerate(order):
            if position and self._call_s > self._left_s:
                break
            began = self._now_s()
            run = Run(self._machine, (calls[index],), source, self._entry)
            finding = next(filter(None, (check.find(run) for check in self._checks)), None)
            self._call_s = self._now_s() - began
            self._left_s -= self._call_s
            self.verified += 1
            if finding is not None:
                return finding
        return None


def measure(
    pool: WorkerPool,
    exercise: Exercise,
    spec: MachineSpec,
    submission_source: str,
    baseline_source: str,
    code: ExerciseCode,
    limit: SpeedLimit,
    seed: int,
    settings: SequentialSettings | None = None,
    on_pair: Callable[[int], None] = lambda pairs: None,
    alone: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext,
) -> Timing:
    """Time `submission_source` against `baseline_source` on the real device of `spec`.

    `alone` is entered when the workers are ready: other gradings wait for the device only while this one times.
    Failures of the submission never raise. Raises `CourseError` for a baseline that does not run or is wrong,
    `GradingError` if a worker broke by itself.
    """
    with _take_workers(pool, TIMING_WORKERS) as (null, baseline, submission):
        others = SuspendedProcesses(os.getpid(), [null.pid, baseline.pid], pool.suspended_pids)
        machine = to_machine(spec, baseline.devices)
        chance = random.Random(seed)
        verifier = ResultVerifier(code.checks, machine, exercise.entry, chance)
        peak = roofline.peak_of(machine)
        at_most = limit.at_most if limit.real_at_most is None else limit.real_at_most
        least_s = [float("inf")]

        def draw(rounds: int) -> Inputs:
            cases = [*range(exercise.cases)] * rounds
            return [draw_inputs(code, exercise.folder, chance.getrandbits(31), case) for case in cases]

        def verify(inputs: Inputs, outputs: Sequence[Any]) -> Finding | None:
            try:
                pairs = zip(inputs, outputs, strict=True)
                least_s[0] = min(least_s[0], sum(peak.least_s(limit, drawn, output) for drawn, output in pairs))
                return verifier.find(inputs, outputs, submission_source)
            except Exception as error:  # the same checks accepted the baseline's results
                return finding_of_broken_check(error)

        trusted = (exercise, spec, limit.baseline, baseline_source, others.suspend)
        sides = (TimingWorker(baseline, *trusted), NullWorker(null, *trusted))
        comparison = PairedComparison(*sides, draw, verify, chance, settings)
        path = exercise.folder / limit.baseline
        with _baseline_errors(path):
            for side in sides:
                side.load(code.given_source)
            inputs = [draw_inputs(code, exercise.folder, case, case) for case in range(exercise.cases)]
            if (wrong := verifier.find(inputs, sides[0].time(inputs).outputs, "")) is not None:
                raise Stopped(wrong, wrong.status)
        with alone(), _without_gc():
            with _baseline_errors(path):
                comparison.prepare()
            if comparison.result.too_small:
                return _timing(comparison.result, Status.INCONCLUSIVE, _TOO_SMALL)
            timed = TimingWorker(submission, exercise, spec, "solution.py", submission_source, submission.running)
            try:
                with submission.running():
                    timed.load(code.given_source)
                result = comparison.compare(timed, at_most, on_pair)
            except Stopped as stopped:
                return _timing(comparison.result, stopped.status, "", stopped.finding)
        return decide_timing(result, least_s[0], settings or SequentialSettings())


@contextlib.contextmanager
def _baseline_errors(path: Path) -> Iterator[None]:
    """Convert `Stopped` inside the block to a `CourseError` about the baseline."""
    try:
        yield
    except Stopped as stopped:
        wrong = stopped.finding
        raise CourseError(
            f"{path}: the baseline is wrong: expected {wrong.expected}; got {wrong.got}",
            "Fix it: submissions are timed against it, so it must do what the solution does.",
        ) from None


def decide_timing(result: Comparison, least_s: float, settings: SequentialSettings) -> Timing:
    """Return the result of a comparison. `least_s` is the roofline of one batch."""
    if result.wrong is not None:
        return _timing(result, result.wrong.status, "", result.wrong)
    if result.contended:
        return _timing(result, Status.INCONCLUSIVE, _CONTENDED.format(settings.contention))
    match result.answer:
        case SignDecision.OPEN:
            return _timing(
                result, Status.INCONCLUSIVE, f"{len(result.signs)} pairs decided nothing: the machine is noisy"
            )
        case SignDecision.BEYOND:
            return _timing(result, Status.TOO_SLOW)
    if quartiles(result.submission_s)[2] < least_s:
        call = duration(least_s / result.calls * 1e9)
        return _timing(result, Status.NEEDS_REVIEW, f"{call} a call {LEAST_TIME}")
    return _timing(result, Status.PASSED)


_CONTENDED = "the baseline takes over {:g} × as long as before the submission was loaded: something else is running"


_TOO_SMALL = (
    "the baseline does too little work: copying its inputs and results takes as long. "
    "The exercise must do more with each input"
)


def _timing(result: Comparison, decision: Status, why: str = "", wrong: Finding | None = None) -> Timing:
    if not result.ratios:
        return Timing(decision, why, wrong=wrong)
    low, median, high = quartiles(result.ratios)
    submission, baseline = (_spread(times, result.calls) for times in (result.submission_s, result.baseline_s))
    return Timing(decision, why, median, low, high, submission, baseline, len(result.signs), result.calls, wrong)


def _spread(times: Sequence[float], calls: int) -> Spread:
    low, median, high = quartiles([seconds / calls for seconds in times])
    return Spread(median, low, high)


@contextlib.contextmanager
def _take_workers(pool: WorkerPool, number: int) -> Iterator[list[Worker]]:
    with contextlib.ExitStack() as taken:
        pool.warm(number)  # they start at the same time
        workers = []
        for _ in range(number):
            workers.append(worker := pool.take())
            taken.callback(pool.release, worker)
        yield workers


@contextlib.contextmanager
def _without_gc() -> Iterator[None]:
    """Switch off the judge's garbage collector, whose pauses would be timed."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
