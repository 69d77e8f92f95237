"""A submission in several processes: what each rank did, and all of it as one call."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

from gpututor.checks.core import Call, MemoryUse, Span
from gpututor.course.exercise import Exercise
from gpututor.errors import NotGradableHere
from gpututor.judge.answers import expect, files_of, read_call
from gpututor.trace.columns import Trace
from gpututor.trace.events import Event
from gpututor.wire.frames import Frame, FrameError
from gpututor.wire.sizes import Sizes

WITHIN = 0.85
"""Of the limit: ranks that hang are told apart before the worker as a whole is stopped."""
_TIMED = ("kind", "name", "device", "partner")


def rank_question(exercise: Exercise) -> dict[str, Any]:
    """What `load` says where the function is to run in several processes.

    Raises `NotGradableHere` where a process that has imported torch cannot be forked safely.
    """
    if exercise.kind != "processes":
        return {}
    if sys.platform != "linux":
        raise NotGradableHere("Exercises in several processes are graded on Linux only.", "Use a machine with Linux.")
    return {"processes": exercise.processes, "within_s": WITHIN * exercise.limits.wall_s}


def read_ranks(
    frame: Frame, drawn: dict[str, Any], source: str, sizes: Sizes, wanted: tuple[str, ...], processes: int
) -> Call:
    """One call in all ranks. Raises what `read_call` does."""
    expect(frame, "returned")
    headers, counts = frame.header.get("ranks"), frame.header.get("buffers_of")
    files, folder, values = files_of(frame, wanted)
    if not isinstance(headers, list) or not all(isinstance(header, dict) for header in headers):
        raise FrameError("the answers of ranks must be a list of objects")
    if not isinstance(counts, list) or not all(type(count) is int and count >= 0 for count in counts):
        raise FrameError("the buffers of ranks must be counted")
    if not len(headers) == len(counts) == processes or sum(counts) != len(values):
        raise FrameError(f"not the answers of {processes} ranks")
    calls = []
    for header, count in zip(headers, counts, strict=True):
        call = read_call(Frame(header, values[:count]), drawn, source, sizes)
        calls.append(replace(call, group_left=header.get("group_left") is True))
        values = values[count:]
    return replace(together(calls), files=files, folder=folder)


def together(calls: Sequence[Call]) -> Call:
    """The calls of all ranks as one: results as a list in the order of ranks, paths of arguments begin with the rank.

    Memory is summed by device: the ranks share it. Their clocks agree, as far as they met.
    """
    return Call(
        drawn=calls[0].drawn,
        arguments=_by_rank([call.arguments for call in calls]),
        output=[call.output for call in calls],
        state=[call.state for call in calls],
        trace=_one_trace([call.trace for call in calls]),
        return_line=next((call.return_line for call in calls if call.return_line), None),
        span=Span(
            min(call.span.started for call in calls),
            max(call.span.returned for call in calls),
            max(call.span.finished for call in calls),
        ),
        unpriced=max((call.unpriced for call in calls), key=lambda work: work.nanoseconds),
        memory={device: _sum([call.memory.get(device) for call in calls]) for device in calls[0].memory},
        before=_by_rank([call.before for call in calls]),
        after=_by_rank([call.after for call in calls]),
        ranks=tuple(calls),
    )


def _by_rank(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {f"{rank}.{path}": value for rank, part in enumerate(parts) for path, value in part.items()}


def _sum(uses: Sequence[MemoryUse | None]) -> MemoryUse:
    known = [use for use in uses if use is not None]
    left = [use.left for use in known if use.left is not None]
    return MemoryUse(
        sum(use.before for use in known),
        sum(use.peak for use in known),
        sum(use.after for use in known),
        sum(left) if left else None,
    )


def _one_trace(traces: Sequence[Trace]) -> Trace:
    names = [field.name for field in fields(Event) if field.name not in _TIMED]
    made = Trace()
    for trace in traces:
        begin = len(made)
        for event in trace:
            partner = -1 if event.partner < 0 else begin + event.partner
            rest = {name: getattr(event, name) for name in names}
            made.add(event.kind, event.name, event.device, partner=partner, **rest)
    return made
