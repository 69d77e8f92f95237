"""What is most worth changing in a program, with the time that it costs, as far as a trace tells.

A gain is an estimate from the trace alone: time in which the device did nothing and the host only waited, or the other
way round. No more can be gained, and less where what takes its place costs time itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gpututor.trace.advice_rules import RULES, Advice, Rates, found
from gpututor.trace.arrays import Place, TraceArrays
from gpututor.trace.events import Kind
from gpututor.trace.hazards import HazardGroup

WORTH_IT = 0.02
"""Of the whole span: less is left out."""


def collect_advice(
    rows: TraceArrays, hazards: Iterable[HazardGroup], rates: Mapping[str, Rates], most: int | None = 3
) -> tuple[Advice, ...]:
    """The `most` important pieces of advice: what is wrong comes first, then what saves most."""
    wrong = [
        found(rows, "hazard", f"{one.sentence}{_times(one.count)}.", one.place, 0, one.what_to_do)
        for one in sorted(hazards, key=lambda one: -one.count)
    ]
    wrong += _out_of_memory(rows)
    slow = [
        one
        for device in rows.accelerators()
        for rule in RULES
        for one in rule(rows, device, rates.get(device))
        if one.share >= WORTH_IT
    ]
    chosen: list[Advice] = []
    taken: set[Place] = set()
    for one in sorted(slow, key=lambda one: (-one.gain, one.rule, str(one.place))):
        # Two rules that see the same line see the same lost time; launches are of no one line.
        if one.rule == "launches" or one.place not in taken:
            taken |= {one.place, *one.others} if one.rule != "launches" else set()
            chosen.append(one)
    return tuple((wrong + _waits_first(chosen))[:most])


def _waits_first(chosen: list[Advice]) -> list[Advice]:
    """Waits come before launches: as long as the host waits in the loop, other remedies for launches help little."""
    first = next((one for one in chosen if one.rule == "waits in a loop"), None)
    if first is None:
        return chosen
    later = [one for one in chosen if one is not first]
    at = min(chosen.index(first), *(number for number, one in enumerate(later) if one.rule == "launches"), len(later))
    return [*later[:at], first, *later[at:]]


def _times(count: int) -> str:
    return f" ({count:,} times)" if count > 1 else ""


def _out_of_memory(rows: TraceArrays) -> list[Advice]:
    return [
        found(
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
