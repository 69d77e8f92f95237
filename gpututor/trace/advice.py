"""What is most worth changing in a program, with the time that it would save, as far as a trace tells.

A gain is an estimate from the trace alone: time in which the device did nothing and the host only waited, or the other
way round. It never says more than the whole program could save: the device's work has to be done in any case.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gpututor.trace.events import Kind
from gpututor.trace.hazards import HazardGroup
from gpututor.trace.rows import Place, Rows

WORTH_IT = 0.01
"""Of the whole span: less is left out."""


@dataclass(frozen=True, slots=True)
class Rates:
    """How fast a device multiplies matrices, in floating-point operations for each second."""

    float32: float
    """Without tensor cores."""
    tensor: float
    """On tensor cores, with TF32; 0 where it has none."""


@dataclass(frozen=True, slots=True)
class Advice:
    """One thing worth changing."""

    rule: str
    """Which rule found it: a short name that stays the same."""
    sentence: str
    """What was seen, in one sentence."""
    place: Place
    gain: int
    """Nanoseconds that it would save, about; 0 where it is about being right."""
    share: float
    """`gain` by the whole span, 0 to 1."""
    what_to_do: str


def found(rows: Rows, rule: str, sentence: str, place: Place, gain: int, what_to_do: str) -> Advice:
    """One piece of advice, with the share of its gain."""
    gain = min(gain, rows.span)
    return Advice(rule, sentence, place, gain, gain / rows.span if rows.span else 0.0, what_to_do)


def find(
    rows: Rows, hazards: Iterable[HazardGroup], rates: Mapping[str, Rates], most: int | None = 3
) -> tuple[Advice, ...]:
    """The `most` important pieces of advice: what is wrong comes first, then what saves most."""
    from gpututor.trace import rules

    wrong = [
        found(rows, "hazard", f"{one.sentence}{_times(one.count)}.", one.place, 0, one.what_to_do)
        for one in sorted(hazards, key=lambda one: -one.count)
    ]
    wrong += _out_of_memory(rows)
    slow = [
        one
        for device in rows.accelerators()
        for rule in rules.RULES
        for one in rule(rows, device, rates.get(device))
        if one.share >= WORTH_IT
    ]
    chosen: list[Advice] = []
    for one in sorted(slow, key=lambda one: (-one.gain, one.rule, str(one.place))):
        # Two rules that see the same line see the same lost time.
        if all(one.place != other.place for other in chosen):
            chosen.append(one)
    return tuple((wrong + chosen)[:most])


def _times(count: int) -> str:
    return f" ({count:,} times)" if count > 1 else ""


def _out_of_memory(rows: Rows) -> list[Advice]:
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
