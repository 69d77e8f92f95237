"""Measurement: a time that the learner's function measured by itself, held against what the device really took."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from gpututor.checks.core import Applies, Call, Check, Finding, Machine, Run, named
from gpututor.errors import CourseError
from gpututor.trace.events import Event, Kind
from gpututor.trace.units import duration

WHY = "A launch returns at once: a clock that is read before the device is done measures the launch, not the work."
ADVICE = "Each time you read the clock: is the device idle then? And does the timed part hold only the work itself?"

Truth = Callable[[Call], float]
Range = tuple[float, float]

VIRTUAL: Range = (0.9, 1.2)
"""The learner's figure over the trace's, on the virtual GPU: both are exact, and waiting costs a little."""
REAL: Range = (0.7, 1.5)
"""The same on real devices, where the trace's own events take time too."""
LARGEST_S = 1e18
"""Above that it is no time: the universe is younger."""


def launch_to_end(pattern: str, kernels: int = 1) -> Truth:
    """Seconds per kernel from the launch of the first to the end of the last of the last `kernels` named `pattern`.

    The name is an operator's, such as `aten::mm`; `nan` when there are fewer of them, or their times are not known.
    """

    def truth(call: Call) -> float:
        found = [event for event in call.trace if event.kind is Kind.KERNEL and event.name == pattern]
        return _seconds(found[-kernels:], kernels)

    return truth


def copies(source: str, target: str, times: int = 1) -> Truth:
    """The same for the last `times` copies from one kind of device to another, such as `cpu` to `cuda`."""

    def truth(call: Call) -> float:
        found = [
            event
            for event in call.trace
            if event.kind is Kind.TRANSFER and event.source.startswith(source) and event.target.startswith(target)
        ]
        return _seconds(found[-times:], times)

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
    """The number of seconds at `part` of the result, such as `gpu.0`, is `truth(call)` within a factor of the range."""
    for low, high in (virtual, real):
        if not 0 < low <= 1 <= high:
            raise CourseError(f"check {name!r}: the range {low} to {high} leaves out 1", "Use such as (0.9, 1.2).")

    def find(run: Run) -> Finding | None:
        low, high = virtual if run.machine.virtual else real
        for call in run.calls:
            took = _asked(truth, call, name)
            reported = _number(_at(call.output, part))
            if not abs(reported) <= LARGEST_S:
                got = f"{named(part)} is no such number{run.which(call)}"
                return Finding("a number of seconds", got, run.line_of(call), why, advice)
            if math.isnan(took):
                return Finding("work to be measured", f"none was done{run.which(call)}", run.line_of(call), why, advice)
            if not low * took <= reported <= high * took:
                truth_in_words = f"{duration(took * 1e9)} that it took, {_label(run.machine)}"
                return Finding(
                    expected=f"{low:g} to {high:g} times the {truth_in_words}",
                    got=f"{named(part)} says {duration(reported * 1e9)}, {_ratio(reported / took)}{run.which(call)}",
                    line=run.line_of(call),
                    why=why,
                    advice=_advice(reported / took, advice),
                )
        return None

    sentence = "The time that it reports is the time that the work took"
    return Check(name, lambda _: sentence, find, (), why, "", on, kind="values")


def _seconds(events: Sequence[Event], wanted: int) -> float:
    if len(events) < wanted or any(event.launched < 0 or event.end < 0 for event in events):
        return math.nan
    first, last = min(event.launched for event in events), max(event.end for event in events)
    return (last - first) / 1e9 / wanted


def _asked(truth: Truth, call: Call, name: str) -> float:
    try:
        took = float(truth(call))
    except Exception as error:
        problem = f"check {name!r}: its truth failed: {type(error).__name__}: {error}"
        raise CourseError(problem, "Mend the exercise's checks.py.") from error
    if took <= 0:
        raise CourseError(f"check {name!r}: the work took {took} s", "Let its truth give the seconds of some work.")
    return took


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


def _advice(ratio: float, advice: str) -> str:
    if ratio < 0.5:
        return f"The clock was read too early. {advice}"
    if 800 < ratio < 1200 or 8e5 < ratio < 1.2e6:
        return "The unit is off: report seconds."
    if ratio > 2:
        return f"Something else was timed too: the first call, a copy, or several calls as one. {advice}"
    return advice


def _ratio(ratio: float) -> str:
    return f"{ratio:.2g} times that" if ratio < 100 else f"{ratio:,.0f} times that"


def _label(machine: Machine) -> str:
    return "modelled" if machine.virtual else "measured"
