"""Checks of streams: the share of copies and kernels that run at the same time, and races between streams."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gpututor.checks.model import Applies, Call, Check, Finding, Run, first_finding, in_each_repetition, on_virtual_gpu
from gpututor.checks.work import missing_work
from gpututor.errors import CourseError
from gpututor.trace.arrays import Mask, TraceArrays, common, intervals_of, merged
from gpututor.trace.events import Kind
from gpututor.trace.formatting import duration, share
from gpututor.trace.hazards import hazards_of

WHY = "A device can copy and compute at the same time: a copy during a kernel costs almost nothing."
WHY_RACES = "Streams run at the same time. Without an order the result is right on one machine and wrong on the next."
ADVICE = (
    "A copy runs during a kernel only if nothing makes it wait: check that its memory is pinned, which stream it is on,"
    " and what you launch in the meantime."
)
LANES_ADVICE = "Put independent work on separate streams, and wait at the end."
_WORDS = {"to_device": "host-to-device copies", "to_host": "device-to-host copies", "between": "copies between devices"}
_NEARLY = 1e-9


def overlap(
    *,
    to_device: float | None = None,
    to_host: float | None = None,
    between: float | None = None,
    kernels: float | None = None,
    name: str = "overlap",
    why: str = WHY,
    advice: str = "",
    on: Applies = "gpu",
) -> Check:
    """Check the share of time, 0 to 1, that overlaps in each call; each argument is a minimum.

    For the copies of a direction: the share of their time in which a kernel runs on the same device. For kernels: the
    time saved by running concurrently, (sum of times - time in which any runs) / (sum of times - longest lane). A lane
    is one stream of one device; 1 is the most that these lanes could save. Raises `CourseError` for impossible shares.
    """
    directions = {"to_device": to_device, "to_host": to_host, "between": between}
    wanted = {direction: least for direction, least in directions.items() if least is not None}
    for least in (*wanted.values(), *(() if kernels is None else (kernels,))):
        if not 0 < least <= 1:
            raise CourseError(f"check {name!r}: a share of {least}", "In checks.py, give shares above 0, at most 1.")
    if not wanted and kernels is None:
        advice_to_author = "In checks.py, give it to_device=, to_host=, between= or kernels=."
        raise CourseError(f"check {name!r}: nothing to check", advice_to_author)

    words = ["copies are hidden behind kernels"] * bool(wanted) + ["kernels overlap"] * bool(kernels)
    sentence = ", and ".join(words).capitalize()

    def find(run: Run) -> Finding | None:
        return missing_work(run) or first_finding(finding for call in run.calls for finding in findings(run, call))

    def findings(run: Run, call: Call) -> Iterator[Finding | None]:
        rows = TraceArrays(call.trace)
        for direction, least in wanted.items():
            yield _copies(run, call, rows, direction, least)
        if kernels is not None:
            yield _kernels(run, call, rows, kernels)

    return Check(name, lambda _: sentence, find, (), why, advice, on, timed=True)


def races(
    *,
    name: str = "races",
    why: str = WHY_RACES,
    advice: str = "",
    on: Applies = on_virtual_gpu,
) -> Check:
    """Check that no two streams, nor a stream and the host, use the same memory without an order if one writes it.

    It applies to virtual GPUs: only their traces contain hazards. `advice` is about an order; a hazard of memory that
    is freed too early has advice of its own.
    """

    def find(run: Run, call: Call) -> Finding | None:
        hazards = [hazard for hazard in hazards_of(TraceArrays(call.trace)) if not hazard.is_in_kernel]
        if not hazards:
            return None
        more = f"; {len(hazards) - 1} more like it" if len(hazards) > 1 else ""
        first = hazards[0]
        tip = first.what_to_do if first.is_of_memory or not advice else advice
        expected = "an order between any two uses of the same memory if one of them writes"
        return run.finding(call, expected, first.sentence + more, first.place.line, tip)

    sentence = "No two streams race for the same memory"
    return Check(name, lambda _: sentence, in_each_repetition(find), (), why, on=on)


def _copies(run: Run, call: Call, rows: TraceArrays, direction: str, least: float) -> Finding | None:
    words = _WORDS[direction]
    expected = f"at least {share(least)} of the time of {words} during a kernel"
    mask = {"to_device": rows.from_host, "to_host": rows.to_host, "between": rows.between}[direction]
    if not mask.any():
        return run.finding(call, expected, f"no {words}", advice=ADVICE)
    hidden = total = 0
    alone: dict[int, int] = {}
    for device in np.unique(rows.device[mask]):
        here = mask & (rows.device == device)
        work = rows.of(Kind.KERNEL) & (rows.device == device)
        if not (rows.timed | ~(here | work)).all():
            return _unknown(run, call, expected)
        busy = merged(rows.intervals(work))
        copies = merged(rows.intervals(here))
        hidden += common(copies, busy)
        total += copies.total
        for (line,), group in rows.groups(here, rows.line):
            own = merged(intervals_of(rows, group))
            alone[line] = alone.get(line, 0) + own.total - common(own, busy)
    if total == 0:
        return _unknown(run, call, expected)
    if hidden >= (least - _NEARLY) * total:
        return None
    lines = sorted((line for line in alone if alone[line]), key=lambda line: -alone[line])
    places = [
        f"{duration(alone[line])} {f'from line {line}' if line else 'from outside your file'}" for line in lines[:3]
    ]
    got = f"{share(hidden / total)} of {duration(total)}; not hidden: {', '.join(places)}"
    return run.finding(call, expected, got, lines[0] if lines else None, ADVICE)


def _kernels(run: Run, call: Call, rows: TraceArrays, least: float) -> Finding | None:
    expected = f"at least {share(least)} of what kernels on several streams or devices can save by running together"
    work = rows.of(Kind.KERNEL) & ~rows.on_host()
    if not (rows.timed | ~work).all():
        return _unknown(run, call, expected)
    lanes = [
        (int(rows.duration[group].sum()), int(rows.line[group[0]]))
        for _, group in rows.groups(work, rows.device, rows.stream)
    ]
    if len(lanes) < 2:
        got = "all kernels on one stream" if lanes else "no kernels"
        return run.finding(call, expected, got, advice=LANES_ADVICE)
    total = sum(time for time, _ in lanes)
    longest = max(lanes)[0]
    if total <= longest:
        return _unknown(run, call, expected)
    could = min(total - longest, total - _without_waits(rows, work))
    saved = total - merged(rows.intervals(work)).total
    if saved >= (least - _NEARLY) * could:
        return None
    got = f"{share(saved / could)}: {duration(saved)} of {duration(could)}, on {len(lanes)} streams"
    _, line = sorted(lanes)[-2]
    return run.finding(call, expected, got, line, LANES_ADVICE)


def _without_waits(rows: TraceArrays, work: Mask) -> int:
    """Return the time in which any kernel would run if the host launched all of them without a wait.

    On a fast GPU a kernel may end before the host has launched the next one: then nothing can be saved.
    """
    waits = merged(rows.intervals(rows.of(Kind.SYNCHRONISE) & rows.timed))
    waited = np.concatenate([[0], np.cumsum(waits.end - waits.start)])
    order = np.flatnonzero(work)[np.argsort(rows.launched[work], kind="stable")]
    free: dict[tuple[int, int], int] = {}
    busy = until = 0
    spans = []
    for row in order:
        lane = (int(rows.device[row]), int(rows.stream[row]))
        moment = int(rows.launched[row])
        launched = moment - int(waited[np.searchsorted(waits.end, moment, side="right")])
        start = max(launched, free.get(lane, launched))
        free[lane] = start + int(rows.duration[row])
        spans.append((start, free[lane]))
    for start, end in sorted(spans):
        busy += max(0, end - max(start, until))
        until = max(until, end)
    return busy


def _unknown(run: Run, call: Call, expected: str) -> Finding:
    return run.inconclusive(call, expected, "these times are unknown here")
