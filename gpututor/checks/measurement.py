"""Measurement: a time that the learner's function measured itself, compared with the device's real time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from gpututor.checks.model import OF_RESULTS, Applies, Call, Check, Finding, Run, first_finding, in_each_call
from gpututor.checks.trees import part_at, part_name
from gpututor.checks.work import missing_work
from gpututor.errors import CourseError
from gpututor.trace.events import WORK, Event, Kind
from gpututor.trace.formatting import duration

WHY = "Read the clock while the device is idle, before and after the work. Otherwise you time something else."
ADVICE = "Is the device idle each time that you read the clock? Does the timed part contain only the work itself?"
LAUNCHES_ONLY = "Nothing in your code waits for this work. A launch returns at once, so the clock was read too early."

Range = tuple[float, float]


class Taken(NamedTuple):
    """Range of seconds that a correct measurement of some work can give."""

    least: float
    most: float
    """The least plus the launch and the wait around the work. On a fast GPU, these take longer than the work."""
    end: int = -1
    """Moment after which the host must wait for the device, on the trace's clock; -1 if it need not."""
    work: str = "it"
    """Name of the work in messages, such as `the product of size 57`."""


UNKNOWN = Taken(math.nan, math.nan)
Truth = Callable[[Call], float | Taken | list[Taken]]
"""Function that returns the true time of a call's work, or a list of times for a list of figures."""

VIRTUAL: Range = (0.9, 1.2)
"""Allowed ratio of the learner's figure to the trace's on the virtual GPU: both are exact."""
REAL: Range = (0.8, 1.3)
"""Allowed ratio on real devices, whose clocks agree with the host's to a few microseconds."""
LARGEST_S = 1e18
"""Seconds above which a figure cannot be a time: more than the age of the universe."""
REAL_CLOCKS = ("datetime.now", "clock_gettime")
"""Functions that read the real time, also on a virtual machine."""
UNITS = (1e3, 1e6)
"""Milliseconds and microseconds in a second."""


def taken(call: Call, events: Sequence[Event], times: int = 1) -> Taken:
    """Return the seconds that `events` took, divided by `times`; `UNKNOWN` if their times are not known.

    The least begins with the first launch, or with the end of the work before it. It ends when the last event is done.
    The most begins when the work and the waits before `events` are over. It ends with the next launch, or with the
    function's return: by then the learner has read the clock. On a fast GPU most of that time is the host's.
    """
    if not events or any(event.launched < 0 or event.end < 0 for event in events):
        return UNKNOWN
    launched, end = min(event.launched for event in events), max(event.end for event in events)
    last = max(event.launched for event in events)
    places = {"cpu", *(event.device for event in events)}
    free, idle, waited = 0, call.span.started, end
    for event in call.trace:
        if event.kind in WORK and event.launched < launched and event.device in places:
            free = max(free, event.end)
        elif event.kind is Kind.SYNCHRONISE and event.launched < launched:
            idle = max(idle, event.end)
        elif event.kind is Kind.SYNCHRONISE and event.launched >= last:
            waited = max(waited, event.end)
        elif event.kind in WORK and event.launched > last:
            waited = max(waited, event.launched)
            break
    else:
        waited = max(waited, call.span.returned)
    # On a real device, two clocks can agree so badly that short work seems to end before its launch.
    least = max(1, end - max(launched, free))
    return Taken(least / 1e9 / times, max(least, waited - max(idle, free)) / 1e9 / times, end)


def enclosed(call: Call, landmarks: Sequence[Event], last: int) -> Taken:
    """Return the seconds of the work around the last `last` of the `landmarks`; `UNKNOWN` if there are fewer.

    Landmarks are kernels that each round of the work has, such as its products. Other kernels of the round may come
    before and after them. The least is the time from the first of them to the last. The most begins after the earlier
    landmarks and waits, and ends with the next wait.
    """
    events = landmarks[-last:]
    if len(events) < last or any(event.start < 0 or event.end < 0 for event in landmarks):
        return UNKNOWN
    waits = [event for event in call.trace if event.kind is Kind.SYNCHRONISE]
    idle = [event.end for event in waits if event.end <= events[0].launched]
    idle += [event.end for event in landmarks[:-last]]
    waited = [event.end for event in waits if event.end >= events[-1].end]
    least = events[-1].end - events[0].start
    most = min(waited, default=events[-1].end) - max([call.span.started, *idle])
    until = min((event.launched for event in waits if event.launched >= events[-1].launched), default=math.inf)
    end = max(event.end for event in call.trace if event.kind in WORK and event.launched <= until)
    return Taken(least / 1e9, max(least, most) / 1e9, end)


def launch_to_end(pattern: str, kernels: int = 1) -> Truth:
    """Take the last `kernels` kernels named `pattern` as the work: seconds for each of them.

    The name is an operator's, such as `aten::mm`. The result is `UNKNOWN` if there are fewer kernels, or if their times
    are not known.
    """
    return _last_of(lambda event: event.kind is Kind.KERNEL and event.name == pattern, kernels)


def copies(source: str, target: str, times: int = 1) -> Truth:
    """Take the last `times` copies from one kind of device to another, such as `cpu` to `cuda`, as the work."""

    return _last_of(
        lambda event: (
            event.kind is Kind.TRANSFER and event.source.startswith(source) and event.target.startswith(target)
        ),
        times,
    )


def _last_of(belongs: Callable[[Event], bool], times: int) -> Truth:
    def truth(call: Call) -> Taken:
        events = [event for event in call.trace if belongs(event)]
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
    """Check the seconds at `part` of the result, such as `gpu.0`, against `truth(call)`.

    The range (low, high) for this kind of machine allows `low` times the least of the truth to `high` times the most.
    If the truth is a list, `part` is a list with as many figures.
    """
    for low, high in (virtual, real):
        if not 0 < low <= 1 <= high:
            raise CourseError(f"check {name!r}: the range {low} to {high} leaves out 1", "Give one such as (0.9, 1.2).")

    def wrong_figure(run: Run, call: Call, part: str, took: Taken) -> Finding | None:
        low, high = virtual if run.machine.virtual else real
        least, most, end, work = took
        reported = _number(part_at(call.output, part))
        tip = advice
        if not abs(reported) <= LARGEST_S:
            expected, got = "a number of seconds", f"{part_name(part, call.output)} is not such a number"
        elif math.isnan(least):
            expected, got = f"work to be measured: {work}" if work != "it" else "work to be measured", "none was done"
        elif not low * least <= reported <= high * most:
            ratio = reported / (least if reported < least else most)
            is_unit = any(low * least <= reported / unit <= high * most for unit in UNITS)
            label = "modelled" if run.machine.virtual else "measured"
            # A range if launch and wait take a visible part of it, `11.2 µs to 15.5 µs`; else `3.76 ms`.
            times = " to ".join(dict.fromkeys(duration(seconds * 1e9) for seconds in (least, most)))
            expected = f"{low:g} to {high:g} times the {times} that {work} took, {label}"
            multiple = f"{ratio:.2g}" if ratio < 100 else f"{ratio:,.0f}"
            got = f"{part_name(part, call.output)} says {duration(reported * 1e9)}, {multiple} times that"
            tip = _advice(ratio, run, call, advice, is_unit)
        elif not _is_waited_for(end, call, run.source):
            # On a fast GPU, launches may take as long as the work: then the figure is right by chance.
            expected, got = "a wait for the device right after the work", "none"
        else:
            return None
        return replace(run.finding(call, expected, got, advice=tip), why=why)

    def wrong_in_call(run: Run, call: Call) -> Finding | None:
        took = _evaluate(truth, call, name)
        if isinstance(took, Taken):
            return wrong_figure(run, call, part, took)
        return first_finding(
            wrong_figure(run, call, f"{part}.{number}".lstrip("."), part_took) for number, part_took in enumerate(took)
        )

    def find(run: Run) -> Finding | None:
        return missing_work(run) or in_each_call(wrong_in_call)(run)

    sentence = "The time that it reports is the time that the work took"
    return Check(name, lambda _: sentence, find, OF_RESULTS, why, on=on, kind="values", timed=True)


def _evaluate(truth: Truth, call: Call, name: str) -> Taken | list[Taken]:
    try:
        took = truth(call)
        if isinstance(took, list):
            return [_possible(part, name) for part in took]
        return _possible(took if isinstance(took, Taken) else Taken(float(took), float(took)), name)
    except CourseError:
        raise
    except Exception as error:
        problem = f"check {name!r}: its truth failed: {type(error).__name__}: {error}"
        raise CourseError(problem, "Fix the exercise's checks.py.") from error


def _possible(took: Taken, name: str) -> Taken:
    """Return `took`. Raises `CourseError` if it is not a time of some work."""
    if took.least <= 0 or took.most < took.least:
        problem = f"check {name!r}: the work took {took.least} to {took.most} s"
        raise CourseError(problem, "Let its truth return the seconds of some work.")
    return took


def _is_waited_for(end: int, call: Call, source: str) -> bool:
    """Return False if the host cannot know that the work was done when the learner read the clock.

    A clock of the host is read before the next launch. Events of the device can be read at any later time, and
    `Event.query()` leaves nothing in the trace.
    """
    if end < 0 or "query(" in source:
        return True
    waits = [event.launched for event in call.trace if event.kind is Kind.SYNCHRONISE and event.end >= end]
    if "elapsed_time(" in source:
        return bool(waits)
    work = [event for event in call.trace if event.kind in WORK]
    last = max((event.launched for event in work if event.end == end), default=math.inf)
    # Work of other devices that was launched later, but ended before `end`, belongs to the measured work.
    further = [event.launched for event in work if event.launched > last and event.end > end]
    following = min(further, default=math.inf)
    return any(launched < following for launched in waits)


def _number(value: Any) -> float:
    """Return the reported number; nan for anything else."""
    try:
        return float(value) if type(value) in (float, int) else math.nan
    except OverflowError:  # a whole number of hundreds of digits
        return math.inf


def _advice(ratio: float, run: Run, call: Call, advice: str, is_unit: bool) -> str:
    """Name a cause only when the trace, the figure or the source shows it."""
    clock = next((clock for clock in REAL_CLOCKS if f"{clock}(" in run.source), "")
    if run.machine.virtual and clock:
        return f"`{clock}()` reads the real time, but this GPU's time is modelled. Use `time.perf_counter()`."
    if is_unit:
        return "The unit is off: report seconds."
    if ratio < 1 and not any(event.kind is Kind.SYNCHRONISE for event in call.trace):
        return f"{LAUNCHES_ONLY} {advice}"
    if ratio > 2:
        return f"Something else was timed too. {advice}"
    return advice
