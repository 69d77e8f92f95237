"""Speed: the submission takes at most a multiple of the time of a baseline, another file of the exercise.

On the virtual GPU, its clock gives exact times in one run. On a real device, the judge measures pairs (`Timing`); see
`gpututor.judge.timing`.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from gpututor.checks.model import (
    OF_RESULTS,
    Applies,
    Call,
    Check,
    Finding,
    Machine,
    Run,
    SpeedLimit,
    Timing,
    format_ratio,
)
from gpututor.checks.work import missing_work
from gpututor.errors import CourseError
from gpututor.grading.report import Status
from gpututor.trace.events import Kind
from gpututor.trace.formatting import duration, share

WHY = "Correct code can still waste most of the device. Comparing its time with a baseline shows how much."
ROUNDING = 1 + 1e-9
"""Factor for rounding errors of times: a submission that takes exactly the limit passes."""
_BEFORE = 0
"""Line number of the code before the first launch of a call."""
_COSTLY = (Kind.KERNEL, Kind.TRANSFER, Kind.COLLECTIVE, Kind.SYNCHRONISE)
_ADVICE = {
    Status.TOO_SLOW: "Run `gpututor trace` on it: look for waits, copies and launches inside loops.",
    Status.INCONCLUSIVE: "Close other programs, and grade again.",
    Status.NEEDS_REVIEW: "A person will review this. It does not count as a failure.",
}


def speed(
    at_most: float = 1.25,
    baseline: str = "baseline.py",
    *,
    real_at_most: float | None = None,
    compared_with: str = "",
    least_bytes: Callable[[dict[str, Any]], float] | None = None,
    least_flops: Callable[[dict[str, Any]], float] | None = None,
    name: str = "speed",
    why: str = WHY,
    advice: str = "",
    on: Applies = "everywhere",
    beside: str = "",
) -> Check:
    """Check that the submission takes at most `at_most` times as long as `baseline`; 1 / S requires S times as fast.

    `baseline` is a file of the exercise's folder that defines the same function. `compared_with` is what the check's
    sentence calls it, such as `the plain loop`. Its old name `beside` still works, with a warning. `real_at_most` is
    the ratio on real devices; without it nothing is timed there. `least_bytes(drawn)` and `least_flops(drawn)` return
    what every solution must do in one call. Without them, a solution must move the bytes of the result. A submission
    that is faster than the device's peak rates allow needs review.
    """
    if beside:
        warnings.warn("speed(): `beside` is called `compared_with` now", DeprecationWarning, stacklevel=2)
        compared_with = compared_with or beside
    limit = SpeedLimit(baseline, at_most, real_at_most, least_bytes, least_flops)
    for ratio in (at_most, real_at_most):
        if ratio is not None and not 0 < ratio < 1e6:
            raise CourseError(f"check {name!r}: a ratio of {ratio}", "Give it a number above 0, such as 1.25.")

    def allowed(machine: Machine) -> float:
        return at_most if machine.virtual or real_at_most is None else real_at_most

    def applies(machine: Machine) -> bool:
        timed = machine.virtual or real_at_most is not None
        return timed and Check(name, sentence, find, on=on).applies(machine)

    def sentence(machine: Machine) -> str:
        return describe_limit(allowed(machine), compared_with)

    def find(run: Run) -> Finding | None:
        limit_here = allowed(run.machine)
        if not run.machine.virtual:
            return _measured(_timing(run, name), limit_here)
        submission_s, baseline_s = _modelled(run, baseline)
        if (missing := missing_work(run, baseline)) is not None:
            return missing
        if submission_s <= limit_here * baseline_s * ROUNDING:
            return None
        line, cost = _slowest_line(run.calls)
        most = f"; line {line} costs most: {share(cost)} of it" if line is not None else ""
        if line == _BEFORE:
            line, most = None, f"; the host needs {share(cost)} of it before the first launch"
        limit_ns = limit_here * baseline_s * 1e9
        baseline_time = f"{limit_here:g} × the baseline's {duration(baseline_s * 1e9)}"
        return Finding(
            expected=f"at most {baseline_time}: {duration(limit_ns)} (modelled)",
            got=format_ratio(submission_s / baseline_s) + most,
            line=line,
            advice="Look at what that line makes the host or the device do, and how often; `gpututor trace` shows it.",
            status=Status.TOO_SLOW,
        )

    def measured(run: Run) -> str:
        if not run.machine.virtual:
            return _timing(run, name).figures
        return modelled_figures(*_modelled(run, baseline), len(run.calls))

    return Check(name, sentence, find, OF_RESULTS, why, advice, applies, speed=limit, measured=measured, timed=True)


def describe_limit(at_most: float, compared_with: str = "") -> str:
    """Return the sentence for a ratio: `It takes at most 1.25 × the time of the baseline`."""
    if at_most < 1:
        return f"It is at least {1 / at_most:.3g} × as fast as {compared_with or 'the naive way'}"
    if at_most == 1:
        return f"It takes no longer than {compared_with or 'the baseline'}"
    return f"It takes at most {at_most:g} × the time of {compared_with or 'the baseline'}"


def _timing(run: Run, name: str) -> Timing:
    return run.timings.get(name) or Timing(Status.INCONCLUSIVE, "It was not timed.")


def _measured(timing: Timing, at_most: float) -> Finding | None:
    if timing.decision is Status.PASSED:
        return None
    if timing.wrong is not None:
        wrong = timing.wrong
        return Finding(wrong.expected, wrong.got, wrong.line, wrong.why, wrong.advice, timing.decision)
    expected = f"at most {at_most:g} × the baseline's time"
    if timing.baseline is not None:
        expected += f", which is {duration(timing.baseline.median_s * 1e9)} a call here (measured)"
    ratio = "" if timing.ratio is None else format_ratio(timing.ratio)
    got = "; ".join(filter(None, (ratio, timing.why)))
    return Finding(expected, got, status=timing.decision, advice=_ADVICE.get(timing.decision, ""))


def _modelled(run: Run, baseline: str) -> tuple[float, float]:
    """Return the seconds of the submission's calls and of the baseline's, by the virtual clock."""
    calls = run.baselines.get(baseline)
    if calls is None:
        raise CourseError(f"{baseline}: it was not run", "It must be a file of the exercise's folder.")
    baseline_s = _total_s(calls)
    if baseline_s <= 0:
        raise CourseError(f"{baseline}: its calls take no time", "It must do the exercise's work on the device.")
    return _total_s(run.calls), baseline_s


def _total_s(calls: Sequence[Call]) -> float:
    return sum(call.span.elapsed_s for call in calls)


def modelled_figures(submission_s: float, baseline_s: float, calls: int) -> str:
    times = f"{duration(submission_s * 1e9)} against {duration(baseline_s * 1e9)}"
    every = f" for all {calls} calls" if calls > 1 else ""
    return f"{format_ratio(submission_s / baseline_s)}: {times}{every} (modelled)"


def _slowest_line(calls: Sequence[Call]) -> tuple[int | None, float]:
    """Return the line that cost most of the calls' time, and its share; (None, 0) if no line is known.

    The host's time from one launch to the next counts for the line of the first. Its time before the first launch, for
    example for views, counts for `_BEFORE`. Work of the devices after the function has returned counts for the lines
    that launched it.
    """
    costs: Counter[int] = Counter()
    for call in calls:
        events = [event for event in call.trace if event.launched >= call.span.started and event.kind in _COSTLY]
        events.sort(key=lambda event: event.launched)
        if events:
            costs[_BEFORE] += events[0].launched - call.span.started
        ends = [*(event.launched for event in events), call.span.returned][1:]
        for event, end in zip(events, ends, strict=True):
            later = min(event.end, call.span.finished) - max(event.start, call.span.returned)
            if event.line is not None and (cost := max(0, end - event.launched) + max(0, later)):
                costs[event.line] += cost
    total = sum(call.span.finished - call.span.started for call in calls)
    if not costs or total <= 0:
        return None, 0.0
    line, cost = costs.most_common(1)[0]
    return line, min(1.0, cost / total)
