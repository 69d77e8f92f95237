"""Measurement: a time that the learner's function measured by itself, held against what the device really took."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from gpututor.checks.core import Applies, Call, Check, Finding, Machine, Run, named
from gpututor.errors import CourseError
from gpututor.trace.events import Event, Kind
from gpututor.trace.units import duration

WHY = "The time of the work lies between two moments at which the device is idle: before it, and after it."
ADVICE = "Each time you read the clock: is the device idle then? And does the timed part hold only the work itself?"
LAUNCHES_ONLY = "Nothing in your code waits for this work. A launch returns at once, so the clock was read too early."

Range = tuple[float, float]
Truth = Callable[[Call], float | Range]
"""Seconds; or the least and the most seconds that a right measurement can give, see `taken`."""

VIRTUAL: Range = (0.9, 1.2)
"""The learner's figure over the trace's, on the virtual GPU: both are exact."""
REAL: Range = (0.7, 1.5)
"""The same on real devices, where the trace's own events take time too."""
LARGEST_S = 1e18
"""Above that it is no time: the universe is younger."""
_WORK = (Kind.KERNEL, Kind.TRANSFER, Kind.COLLECTIVE)


def taken(call: Call, events: Sequence[Event], times: int = 1) -> Range:
    """Return the least and the most seconds, divided by `times`, that a right measurement of `events` can give.

    The least is the time from the first launch, or from the end of the work before it, until the last event is done.
    The most begins when the work and the waits before `events` are over, and ends with the waits or the launch right
    after them: so it holds a launch and a wait, which on a fast GPU take longer than the work. `nan` when unknown.
    """
    if not events or any(event.launched < 0 or event.end < 0 for event in events):
        return math.nan, math.nan
    launched, end = min(event.launched for event in events), max(event.end for event in events)
    last = max(event.launched for event in events)
    places = {"cpu", *(event.device for event in events)}
    free, idle, waited = 0, call.span.started, end
    for event in call.trace:
        if event.kind in _WORK and event.launched < launched and event.device in places:
            free = max(free, event.end)
        elif event.kind is Kind.SYNCHRONISE and event.launched < launched:
            idle = max(idle, event.end)
        elif event.kind is Kind.SYNCHRONISE and event.launched >= last:
            waited = max(waited, event.end)
        elif event.kind in _WORK and event.launched > last:
            waited = max(waited, event.launched)
            break
    least = end - max(launched, free)
    return least / 1e9 / times, max(least, waited - max(idle, free)) / 1e9 / times


def launch_to_end(pattern: str, kernels: int = 1) -> Truth:
    """Take the last `kernels` kernels named `pattern` as the work: seconds for each of them.

    The name is an operator's, such as `aten::mm`; `nan` when there are fewer of them, or their times are not known.
    """

    def truth(call: Call) -> Range:
        events = [event for event in call.trace if event.kind is Kind.KERNEL and event.name == pattern]
        return taken(call, events[-kernels:] if len(events) >= kernels else (), kernels)

    return truth


def copies(source: str, target: str, times: int = 1) -> Truth:
    """Take the last `times` copies from one kind of device to another, such as `cpu` to `cuda`, as the work."""

    def truth(call: Call) -> Range:
        events = [
            event
            for event in call.trace
            if event.kind is Kind.TRANSFER and event.source.startswith(source) and event.target.startswith(target)
        ]
        return taken(call, events[-times:] if len(events) >= times else (), times)

    return truth


def measurement(
    truth: Truth,
    part: str = "",
    *,
    virtual: Range = VIRTUAL,
    real: Range = REAL,
    name: str = "measurement",
    why: str = WHY,
    advice: str = ADVICE,
    on: Applies = "gpu",
) -> Check:
    """Check the number of seconds at `part` of the result, such as `gpu.0`, against `truth(call)`.

    It may be `low` times the least of the truth to `high` times the most, by the range for this kind of machine.
    """
    for low, high in (virtual, real):
        if not 0 < low <= 1 <= high:
            raise CourseError(f"check {name!r}: the range {low} to {high} leaves out 1", "Use such as (0.9, 1.2).")

    def find(run: Run) -> Finding | None:
        low, high = virtual if run.machine.virtual else real
        for call in run.calls:
            least, most = _asked(truth, call, name)
            reported = _number(_at(call.output, part))
            if not abs(reported) <= LARGEST_S:
                got = f"{named(part)} is no such number{run.which(call)}"
                return Finding("a number of seconds", got, run.line_of(call), why, advice)
            if math.isnan(least):
                return Finding("work to be measured", f"none was done{run.which(call)}", run.line_of(call), why, advice)
            if not low * least <= reported <= high * most:
                ratio = reported / (least if reported < least else most)
                return Finding(
                    expected=f"{low:g} to {high:g} times the {_in_words(least, most)} that it took, "
                    f"{_label(run.machine)}",
                    got=f"{named(part)} says {duration(reported * 1e9)}, {_ratio(ratio)}{run.which(call)}",
                    line=run.line_of(call),
                    why=why,
                    advice=_advice(ratio, call, advice),
                )
        return None

    sentence = "The time that it reports is the time that the work took"
    return Check(name, lambda _: sentence, find, (), why, "", on, kind="values")


def _asked(truth: Truth, call: Call, name: str) -> Range:
    try:
        took = truth(call)
        least, most = took if isinstance(took, tuple) else (took, took)
        least, most = float(least), float(most)
    except Exception as error:
        problem = f"check {name!r}: its truth failed: {type(error).__name__}: {error}"
        raise CourseError(problem, "Fix the exercise's checks.py.") from error
    if least <= 0 or most < least:
        problem = f"check {name!r}: the work took {least} to {most} s"
        raise CourseError(problem, "Let its truth give the seconds of some work.")
    return least, most


def _at(output: Any, part: str) -> Any:
    """The part of a result that `part` leads to; None where there is none."""
    for step in part.split(".") if part else ():
        match output:
            case dict() if step in output:
                output = output[step]
            case list() | tuple() if step.isdigit() and int(step) < len(output):
                output = output[int(step)]
            case _:
                return None
    return output


def _number(value: Any) -> float:
    """What was reported; nan for what is no number."""
    try:
        return float(value) if type(value) in (float, int) else math.nan
    except OverflowError:  # a whole number of hundreds of digits
        return math.inf


def _advice(ratio: float, call: Call, advice: str) -> str:
    """Name a cause only when the trace or the figure shows it."""
    if 800 < ratio < 1200 or 8e5 < ratio < 1.2e6:
        return "The unit is off: report seconds."
    if ratio < 1 and not any(event.kind is Kind.SYNCHRONISE for event in call.trace):
        return f"{LAUNCHES_ONLY} {advice}"
    if ratio > 2:
        return f"Something else was timed too. {advice}"
    return advice


def _in_words(least: float, most: float) -> str:
    """`3.76 ms`, or `11.2 µs to 15.5 µs` when a launch and a wait make a difference."""
    words = [duration(seconds * 1e9) for seconds in (least, most)]
    return " to ".join(dict.fromkeys(words))


def _ratio(ratio: float) -> str:
    return f"{ratio:.2g} times that" if ratio < 100 else f"{ratio:,.0f} times that"


def _label(machine: Machine) -> str:
    return "modelled" if machine.virtual else "measured"
