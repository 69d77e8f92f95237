"""Launches: how often a call makes the host launch kernels, in all and by the operators' names."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

from gpututor.checks.bounds import Amount, in_words, line_with_most, names, parse_bounds, where
from gpututor.checks.model import Applies, Call, Check, Finding, Machine, Run
from gpututor.errors import CourseError
from gpututor.trace.events import Event, Kind

WHY = "Each launch costs the host a few microseconds. Many small kernels keep the device waiting for the host."
ADVICE = "Do in one operation over a whole tensor what a loop does piece by piece; `gpututor trace` shows the lines."


def launches(
    in_all: Amount | None = None,
    by_name: Mapping[str, Amount] | None = None,
    *,
    name: str = "launches",
    why: str = WHY,
    advice: str = ADVICE,
    on: Applies = "gpu",
) -> Check:
    """Launches of kernels on devices in each call: in all, and of operators whose names match a pattern.

    An amount is exact, (low, high), or a function of (drawn, machine). Patterns are those of file names:
    `aten::*mm`. The replay of a CUDA graph is one launch. Raises `CourseError` when there is nothing to count.
    """
    wanted = ([("", in_all)] if in_all is not None else []) + list((by_name or {}).items())
    if not wanted:
        raise CourseError(f"check {name!r}: nothing to count", "In checks.py, give it in_all=… or by_name={…}.")

    def sentence(_: Machine) -> str:
        return "As many kernels are launched as the work needs, and no more"

    def find(run: Run) -> Finding | None:
        for call in run.calls:
            launched = launches_of(call)
            for pattern, amount in wanted:
                finding = _wrong(run, call, launched, pattern, amount, name)
                if finding is not None:
                    return finding
        return None

    return Check(name, sentence, find, (), why, advice, on)


def launches_of(call: Call, pattern: str = "") -> list[Event]:
    """One kernel for each launch on a device; of a graph's replay the first whose name matches."""
    seen: set[tuple[str, int]] = set()
    found = []
    for event in call.trace:
        if event.kind is not Kind.KERNEL or event.device == "cpu":
            continue
        if pattern and not fnmatchcase(event.name, pattern):
            continue
        # The kernels of a replayed graph were launched together, at one moment.
        moment = (event.device, event.launched)
        if event.launched < 0 or moment not in seen:
            seen.add(moment)
            found.append(event)
    return found


def _wrong(run: Run, call: Call, launched: list[Event], pattern: str, amount: Amount, name: str) -> Finding | None:
    low, high = parse_bounds(amount, call, run.machine, name)
    found = launches_of(call, pattern) if pattern else launched
    if low <= len(found) <= high:
        return None
    of = f" of {pattern}" if pattern else ""
    if not found:
        others = f"; there were {names(launched)}" if pattern and launched else ""
        got = f"none{others}"
    else:
        got = f"{in_words(len(found), len(found), 'launch')}{of}, {where(found)}: {names(found)}"
    line = line_with_most(found) or run.line_of(call)
    return Finding(f"{in_words(low, high, 'launch')}{of} in a call", f"{got}{run.which(call)}", line)
