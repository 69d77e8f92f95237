"""Timing a submission against a baseline on a real device, and verifying the results of timed calls."""

from __future__ import annotations

import contextlib
import gc
import os
import random
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from gpututor.checks.model import Call, Check, Finding, Machine, Run, SpeedLimit, Spread, Timing
from gpututor.course.model import Exercise
from gpututor.errors import CourseError
from gpututor.grading.report import Status
from gpututor.grading.report_text import LEAST_TIME
from gpututor.judge.author_code import ExerciseCode, broke, draw_inputs
from gpututor.judge.devices import to_machine
from gpututor.judge.timing import roofline
from gpututor.judge.timing.sequential_test import (
    Answer,
    Comparison,
    Inputs,
    PairedComparison,
    Settings,
    Tell,
    quartiles,
    tell_nobody,
)
from gpututor.judge.timing.timing_workers import NullWorker, Stopped, SuspendedProcesses, TimingWorker
from gpututor.judge.workers import Worker, WorkerPool
from gpututor.protocol.messages import MachineSpec
from gpututor.trace.columns import Trace
from gpututor.trace.formatting import duration

ALLOWANCE_S = 30.0
"""For verifying; references run in float64 on the CPU, which may be far slower than the device."""


class Verifier:
    """Looks at every result while the allowance lasts; afterwards at one of each batch, drawn by chance.

    The draw is made when the results are held: whoever is wrong in a tenth of the calls is seen in two of three timings
    even then.
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
        """Raises `CourseError` where no check can verify timed calls."""
        self._checks = [check for check in checks if check.results_only and check.applies(machine)]
        if not self._checks:
            raise CourseError(
                "The exercise has a speed check, and none that verifies results on a real device.",
                "Add parity(), structure() or value().",
            )
        self._machine = machine
        self._entry = entry
        self._chance = chance
        self._left_s = allowance_s
        self._now_s = now_s
        self._call_s = 0.0
        self.verified = 0
        self.calls = 0

    def find(self, inputs: Inputs, outputs: Sequence[Any], source: str) -> Finding | None:
        """What is wrong with the results of one batch, as far as they are looked at."""
        calls = [Call(drawn, {}, output, Trace()) for drawn, output in zip(inputs, outputs, strict=True)]
        order = self._chance.sample(range(len(calls)), len(calls))
        self.calls += len(calls)
        for position, index in enumerate(order):
            if position and self._call_s > self._left_s:
                break
            began = self._now_s()
            finding = self._wrong(Run(self._machine, (calls[index],), source, self._entry))
            self._call_s = self._now_s() - began
            self._left_s -= self._call_s
            self.verified += 1
            if finding is not None:
                return finding
        return None

    def _wrong(self, run: Run) -> Finding | None:
        return next(filter(None, (check.find(run) for check in self._checks)), None)


def measure(
    pool: WorkerPool,
    exercise: Exercise,
    spec: MachineSpec,
    submission_source: str,
    baseline_source: str,
    code: ExerciseCode,
    limit: SpeedLimit,
    seed: int,
    settings: Settings | None = None,
    tell: Tell = tell_nobody,
) -> Timing:
    """Time `submission_source` beside `baseline_source` on the real device of `spec`.

    Nothing that the submission does raises; `CourseError` for a baseline that does not run or is wrong, `GradingError`
    when a worker broke by itself.
    """
    if exercise.kind != "function":
        raise CourseError(
            f"{exercise.folder / 'checks.py'}: a speed limit of a {exercise.kind!r} exercise on a real device",
            "Leave out its real_at_most: only single functions are timed on real devices.",
        )
    with _workers(pool, 3) as (null, baseline, submission):
        stillness = SuspendedProcesses(os.getpid(), [null.pid, baseline.pid], pool.standing_still)
        machine = to_machine(spec, baseline.devices)
        chance = random.Random(seed)
        verifier = Verifier(code.checks, machine, exercise.entry, chance)
        peak = roofline.peak_of(machine)
        least_s = [float("inf")]

        def draw(rounds: int) -> Inputs:
            cases = range(exercise.cases)
            return [
                draw_inputs(code, exercise.folder, chance.getrandbits(31), case)
                for _ in range(rounds)
                for case in cases
            ]

        def verify(inputs: Inputs, outputs: Sequence[Any]) -> Finding | None:
            try:
                least_s[0] = min(least_s[0], peak.least_for(limit, inputs, list(outputs)))
                return verifier.find(inputs, outputs, submission_source)
            except Exception as error:  # nothing broke when the same checks looked at the baseline's results
                return broke(error)

        trusted = (exercise, spec, limit.baseline, baseline_source)
        sides = (
            TimingWorker(baseline, *trusted, beside=stillness.still),
            NullWorker(null, *trusted, beside=stillness.still),
        )
        comparer = PairedComparison(*sides, draw, verify, chance, settings)
        with _undisturbed():
            _prepare(comparer, sides, exercise, limit, code, verifier)
            if comparer.result.too_small:
                return _too_small(comparer.result)
            timed = TimingWorker(submission, exercise, spec, "solution.py", submission_source, beside=submission.awake)
            try:
                with submission.awake():
                    timed.load(code.given_source)
                result = comparer.compare(timed, _ratio(limit), tell)
            except Stopped as stopped:
                return _timing(comparer.result, stopped.status, "", stopped.finding)
        return decided(result, least_s[0], settings or Settings())


def measure_for(
    check: Check,
    pool: WorkerPool,
    exercise: Exercise,
    spec: MachineSpec,
    submission_source: str,
    code: ExerciseCode,
    seed: int,
    tell: Tell,
) -> Timing:
    """Time a submission for a `check` that has a speed limit. Raises what `measure` does."""
    assert check.speed is not None
    baseline_source = exercise.file(check.speed.baseline)
    return measure(pool, exercise, spec, submission_source, baseline_source, code, check.speed, seed, tell=tell)


def _ratio(limit: SpeedLimit) -> float:
    return limit.at_most if limit.real_at_most is None else limit.real_at_most


def _prepare(
    comparer: PairedComparison,
    sides: tuple[TimingWorker, ...],
    exercise: Exercise,
    limit: SpeedLimit,
    code: ExerciseCode,
    verifier: Verifier,
) -> None:
    """All that is timed before there is a submission. Raises `CourseError` for a baseline that is no good."""
    path = exercise.folder / limit.baseline
    try:
        for side in sides:
            side.load(code.given_source)
        inputs = [draw_inputs(code, exercise.folder, case, case) for case in range(exercise.cases)]
        wrong = verifier.find(inputs, sides[0].time(inputs).outputs, "")
        if wrong is None:
            comparer.prepare()
    except Stopped as stopped:
        wrong = stopped.finding
    if wrong is not None:
        raise CourseError(
            f"{path}: the baseline is no good: expected {wrong.expected}; got {wrong.got}",
            "Mend it: it is timed against, and has to do what the solution does.",
        )


def decided(result: Comparison, least_s: float, settings: Settings) -> Timing:
    """What a comparison comes to. `least_s`: the floor, for one batch."""
    if result.wrong is not None:
        return _timing(result, result.wrong.status, "", result.wrong)
    if result.contended:
        return _timing(result, Status.INCONCLUSIVE, _CONTENDED.format(settings.contention))
    match result.answer:
        case Answer.OPEN:
            return _timing(result, Status.INCONCLUSIVE, f"{len(result.signs)} pairs did not tell: the machine is noisy")
        case Answer.BEYOND:
            return _timing(result, Status.TOO_SLOW)
    if quartiles(result.submission_s).high < least_s:
        call = duration(least_s / result.calls * 1e9)
        return _timing(result, Status.NEEDS_REVIEW, f"{call} a call {LEAST_TIME}")
    return _timing(result, Status.PASSED)


_CONTENDED = "the baseline took over {:g} × what it took before the submission was there: something else is running"


def _too_small(result: Comparison) -> Timing:
    why = (
        "the baseline does too little work to be told from bringing its inputs to the device and its results back: "
        "the exercise has to do more with each input"
    )
    return _timing(result, Status.INCONCLUSIVE, why)


def _timing(result: Comparison, decision: Status, why: str = "", wrong: Finding | None = None) -> Timing:
    if not result.ratios:
        return Timing(decision, why, wrong=wrong)
    ratios = quartiles(result.ratios)
    return Timing(
        decision,
        why,
        ratios.median,
        ratios.low,
        ratios.high,
        _spread(result.submission_s, result.calls),
        _spread(result.baseline_s, result.calls),
        len(result.signs),
        result.calls,
        wrong,
    )


def _spread(times: Sequence[float], calls: int) -> Spread:
    found = quartiles([seconds / calls for seconds in times])
    return Spread(found.median, found.low, found.high)


@contextlib.contextmanager
def _workers(pool: WorkerPool, number: int) -> Iterator[list[Worker]]:
    taken: list[Worker] = []
    try:
        pool.warm(number)  # they start beside each other
        for _ in range(number):
            taken.append(pool.take())
        yield taken
    finally:
        for worker in taken:
            pool.release(worker)


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Without the garbage collector of this process, whose pauses would be timed."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
