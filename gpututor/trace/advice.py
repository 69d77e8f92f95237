"""Advice on the changes that save the most time, based on a trace.

A gain is an upper bound from the trace alone. It is time in which the device was idle and the host only waited, or the
other way round. The real gain is smaller if the new code takes time too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gpututor.trace.advice_rules import RULES, Advice, Rates, make_advice
from gpututor.trace.arrays import Place, TraceArrays
from gpututor.trace.compile_rules import graph_breaks, repeated_compilations
from gpututor.trace.events import Kind
from gpututor.trace.hazards import HazardGroup

WORTH_IT = 0.05
"""Share of the whole span below which advice is left out."""


def collect_advice(
    rows: TraceArrays, hazards: Iterable[HazardGroup], rates: Mapping[str, Rates], most: int | None = 3
) -> tuple[Advice, ...]:
    """Return at most `most` pieces of advice: errors first, then by gain."""
    errors = [
        make_advice(rows, "hazard", f"{hazard.sentence}{_times(hazard.count)}.", hazard.place, 0, hazard.what_to_do)
        for hazard in sorted(hazards, key=lambda hazard: -hazard.count)
    ]
    errors += _out_of_memory(rows)
    slow = [
        advice
        for device in rows.accelerators()
        for rule in (*RULES, graph_breaks, repeated_compilations)
        for advice in rule(rows, device, rates.get(device))
        if advice.share >= WORTH_IT
    ]
    chosen: list[Advice] = []
    taken: set[Place] = set()
    for advice in sorted(slow, key=lambda advice: (-advice.gain, advice.rule, str(advice.place))):
        # Two rules about a line are about the same lost time, so only the first counts. There are two exceptions:
        # launches belong to no single line, and a graph break costs a call of compiled code besides any wait.
        if advice.rule in ("launches", "graph breaks"):
            chosen.append(advice)
        elif advice.place not in taken:
            taken |= {advice.place, *advice.others}
            chosen.append(advice)
    return tuple((errors + _waits_first(chosen))[:most])


def _waits_first(chosen: list[Advice]) -> list[Advice]:
    """Move waits before launches: while the host waits in the loop, other remedies for launches help little."""
    rules = [advice.rule for advice in chosen]
    waits = rules.index("waits in a loop") if "waits in a loop" in rules else 0
    if "launches" in rules[:waits]:
        chosen.insert(rules.index("launches"), chosen.pop(waits))
    return chosen


def _times(count: int) -> str:
    return f" ({count:,} times)" if count > 1 else ""


def _out_of_memory(rows: TraceArrays) -> list[Advice]:
    return [
        make_advice(
            rows,
            "out of memory",
            f"{place} asks for memory that {rows.devices[device]} does not have{_times(group.size)}.",
            place,
            0,
            "Use a smaller batch, a smaller dtype or checkpointing, and drop tensors that are no longer needed.",
        )
        for (device, number), group in rows.groups(rows.of(Kind.OUT_OF_MEMORY), rows.device, rows.place)
        for place in [rows.place_of(number)]
    ]
