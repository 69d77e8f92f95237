"""Whose memory it was that left no room: the lines that held it when a device refused to give more."""

from __future__ import annotations

from gpututor.trace.columns import Trace
from gpututor.trace.events import Kind
from gpututor.trace.memory_curve import Held, MemoryCurve
from gpututor.trace.rows import Rows
from gpututor.trace.units import size

_LISTED = 3


def held_when_refused(trace: Trace) -> str:
    """A sentence about the last time that memory was refused, lines with most of it first; empty where it never was."""
    rows = Rows(trace)
    refused = rows.of(Kind.OUT_OF_MEMORY).nonzero()[0]
    if not refused.size:
        return ""
    device = rows.devices[int(rows.device[refused[-1]])]
    curve = MemoryCurve(rows, device)
    last = curve.refused[-1]
    held = curve.held(last.number)
    older = last.allocated - sum(one.size_bytes for one in held)
    parts = [_words(one) for one in held[:_LISTED]]
    rest = sum(one.size_bytes for one in held[_LISTED:])
    parts += [f"{size(rest)} from other lines"] if rest else []
    parts += [f"{size(older)} from before the call"] if older > 0 else []
    if not parts:
        return f"Nothing was on {device} when memory ran out: {size(last.size_bytes)} alone are too much for it."
    return f"When memory ran out, {device} held {size(last.allocated)}: {', '.join(parts)}."


def _words(held: Held) -> str:
    times = f" ({held.count:,} tensors)" if held.count > 1 else ""
    where = "from outside your file" if held.place.line is None else f"from line {held.place.line}"
    return f"{size(held.size_bytes)} {where}{times}"
