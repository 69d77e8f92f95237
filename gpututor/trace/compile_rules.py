"""Rules of advice for compiled code: graph breaks, and compilations that repeat."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from gpututor.trace.advice_rules import MULTIPLIES, Advice, Rates, make_advice, named
from gpututor.trace.arrays import Mask, TraceArrays
from gpututor.trace.events import COMPILES, GRAPH_BREAK, RECOMPILES, REGION, UNCOMPILED, Kind
from gpututor.trace.formatting import duration

_NAMED = 3
"""Maximum number of breaks whose lines and reasons a sentence names."""


def graph_breaks(rows: TraceArrays, device: str, rates: Rates | None) -> Iterator[Advice]:
    """Find the lines at which Dynamo ends a graph. The gain is the time of the graphs that the breaks add.

    If the breaks leave all code uncompiled, the gain is the time of the kernels that could be fused.
    """
    breaks = np.flatnonzero(_ranges(rows, GRAPH_BREAK))
    lines = {int(rows.place[row]): _text(rows, row, GRAPH_BREAK) for row in breaks}
    regions = np.flatnonzero(_ranges(rows, REGION))
    graphs = np.unique(rows.name[regions]).size
    is_skipped = any(reason.endswith(UNCOMPILED) for reason in lines.values())
    if not lines or not (regions.size or is_skipped):
        return
    places = [rows.place_of(number) for number in lines]
    words = [f"{place} ({reason})" for place, reason in zip(places, lines.values(), strict=True)][:_NAMED]
    more = f", and {len(lines) - _NAMED} more" if len(lines) > _NAMED else ""
    count = "A graph break" if len(lines) == 1 else f"{len(lines)} graph breaks"
    sentence = f"{count} in compiled code: {'; '.join(words)}{more}."
    gain = int(rows.duration[regions].sum()) * len(lines) // max(graphs, len(lines))
    if not regions.size:
        fusible = rows.on(device) & rows.of(Kind.KERNEL) & rows.timed & ~named(rows, MULTIPLIES)
        gain = int(rows.duration[fusible].sum())
    what_to_do = (
        "Move that code out of the compiled function, or write it with tensors (`torch.where` in place of `if`)."
        " `fullgraph=True` makes each break an error."
    )
    yield make_advice(rows, "graph breaks", sentence, places[0], gain, what_to_do, tuple(sorted(set(places[1:]))))


def repeated_compilations(rows: TraceArrays, device: str, rates: Rates | None) -> Iterator[Advice]:
    """Find code that is compiled again because a guard failed. The gain is the time to compile it again."""
    again = np.flatnonzero(_ranges(rows, RECOMPILES))
    compiled = np.flatnonzero(_ranges(rows, COMPILES))
    # A compilation's id is CODE/VERSION. Version 0 is the first compilation.
    repeated = [row for row in compiled if _text(rows, row, COMPILES).split(",")[0].split("/")[-1] != "0"]
    if not again.size or not repeated:
        return
    gain = int(rows.duration[repeated].sum())
    places, first, counts = np.unique(rows.place[again], return_index=True, return_counts=True)
    most = min(range(len(places)), key=lambda number: (-counts[number], first[number]))
    place = rows.place_of(int(places[most]))
    reason = _text(rows, again[first[most]], RECOMPILES)
    times = "once" if again.size == 1 else f"{again.size:,} times"
    others = len(places) - 1
    subject = f"{place} makes" if not others else f"{place} and {others} other line{'s' * (others > 1)} make"
    sentence = f"{subject} torch.compile compile again, {times}, {duration(gain)} in all: {reason}."
    what_to_do = "Pass a number that changes as a tensor, or keep it out of the compiled function."
    if "size mismatch" in reason or "stride mismatch" in reason:
        what_to_do = (
            "Keep the shapes the same (drop or pad the last batch), or compile once for all of them"
            " (`torch._dynamo.mark_dynamic(x, 0)`, `dynamic=True`)."
        )
    yield make_advice(rows, "repeated compilation", sentence, place, gain, what_to_do)


def _ranges(rows: TraceArrays, prefix: str) -> Mask:
    named = [number for number, name in enumerate(rows.names) if name.startswith(prefix)]
    mask: Mask = rows.of(Kind.RANGE) & np.isin(rows.name, named)
    return mask


def _text(rows: TraceArrays, row: Any, prefix: str) -> str:
    return rows.names[int(rows.name[row])].removeprefix(prefix)
