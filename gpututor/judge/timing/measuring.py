"""Timing a submission beside a baseline on a real device, from three workers to a decision."""

from __future__ import annotations

import contextlib
import gc
import os
import random
from collections.abc import Iterator, Sequence
from typing import Any

from gpututor.checks.core import Check, Finding, SpeedLimit
from gpututor.checks.speed import Spread, Timing
from gpututor.course.exercise import Exercise
from gpututor.errors import CourseError
from gpututor.grading.report import Status
from gpututor.grading.words import LEAST_TIME
from gpututor.judge.exercise_code import ExerciseCode, draw_inputs
from gpututor.judge.machines import seen_by_checks
from gpututor.judge.solution import broke
from gpututor.judge.timing import floor
from gpututor.judge.timing.pairs import Comparer, Comparison, Inputs, Settings, Tell, tell_nobody
from gpututor.judge.timing.siblings import Null, Sibling, Stopped
from gpututor.judge.timing.statistics import Answer, quartiles
from gpututor.judge.timing.stillness import Stillness
from gpututor.judge.timing.verifying import Verifier
from gpututor.judge.workers import Worker, WorkerPool
from gpututor.trace.units import duration
from gpututor.wire.messages import MachineSpec


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
        stillness = Stillness(os.getpid(), [null.pid, baseline.pid], pool.standing_still)
        machine = seen_by_checks(spec, baseline.devices)
        chance = random.Random(seed)
        verifier = Verifier(code.checks, machine, exercise.entry, chance)
        peak = floor.peak_of(machine)
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
        sides = (Sibling(baseline, *trusted, beside=stillness.still), Null(null, *trusted, beside=stillness.still))
        comparer = Comparer(*sides, draw, verify, chance, settings)
        with _undisturbed():
            _prepare(comparer, sides, exercise, limit, code, verifier)
            if comparer.result.too_small:
                return _too_small(comparer.result)
            timed = Sibling(submission, exercise, spec, "solution.py", submission_source, beside=submission.awake)
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
    comparer: Comparer,
    sides: tuple[Sibling, ...],
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
