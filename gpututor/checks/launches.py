"""Launches: the number of kernels that a call makes the host launch, in all and by operator name."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

from gpututor.checks.bounds import Amount, describe_lines, describe_names, format_bounds, line_with_most, parse_bounds
from gpututor.checks.model import Applies, Call, Check, Finding, Run, first_finding
from gpututor.errors import CourseError
from gpututor.trace.events import GRAPH_REPLAY, Event, Kind

WHY = "Each launch costs the host a few microseconds. Many small kernels keep the device waiting for the host."
ADVICE = "Replace the loop with an operation on the whole tensor; `gpututor trace` shows the lines."


def launches(
    in_all: Amount | None = None,
    by_name: Mapping[str, Amount] | None = None,
    *,
    name: str = "launches",
    why: str = WHY,
    advice: str = ADVICE,
    on: Applies = "gpu",
) -> Check:
    """Check the number of kernel launches in each call: in all, and of operators whose names match a pattern.

    An amount is exact, (low, high), or a function of (drawn, machine). Patterns are those of file names:
    `aten::*mm`. The replay of a CUDA graph is one launch. On a real GPU its kernels have no names, so it counts for the
    low bound of each pattern. Raises `CourseError` if there is nothing to count.
    """
    wanted = ([("", in_all)] if in_all is not None else []) + list((by_name or {}).items())
    if not wanted:
        raise CourseError(f"check {name!r}: nothing to count", "In checks.py, give it in_all=… or by_name={…}.")

    def find(run: Run) -> Finding | None:
        return first_finding(
            _wrong(run, call, pattern, parse_bounds(amount, call, run.machine, name))
            for call in run.calls
            for pattern, amount in wanted
        )

    sentence = "As many kernels are launched as the work needs, and no more"
    return Check(name, lambda _: sentence, find, (), why, advice, on)


def launches_of(call: Call, pattern: str = "") -> list[Event]:
    """Return one kernel for each launch on a device; for a graph's replay the first whose name matches."""
    launched: dict[tuple[str, int], Event] = {}
    for number, event in enumerate(call.trace):
        if event.kind is Kind.KERNEL and event.device != "cpu" and (not pattern or fnmatchcase(event.name, pattern)):
            # The kernels of a replayed graph have one launch time; a negative time is unknown.
            moment = event.launched if event.launched >= 0 else -1 - number
            launched.setdefault((event.device, moment), event)
    return list(launched.values())


def _wrong(run: Run, call: Call, pattern: str, bounds: tuple[int, int]) -> Finding | None:
    low, high = bounds
    events = launches_of(call, pattern)
    replays = sum(event.name == GRAPH_REPLAY for event in call.trace) if pattern else 0
    if low <= len(events) + replays and len(events) <= high:
        return None
    of = f" of {pattern}" if pattern else ""
    if events:
        amount = format_bounds(len(events), len(events), "launch")
        names = "" if {event.name for event in events} == {pattern} else f": {describe_names(events)}"
        got = f"{amount}{of}, {describe_lines(events)}{names}"
    else:
        others = launches_of(call) if pattern else []
        got = f"none; there were {describe_names(others)}" if others else "none"
    return run.finding(call, f"{format_bounds(low, high, 'launch')}{of} in a call", got, line_with_most(events))
