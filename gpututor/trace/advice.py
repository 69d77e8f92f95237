"""What is most worth changing in a program, with the time that it costs, as far as a trace tells.

A gain is an estimate from the trace alone: time in which the device did nothing and the host only waited, or the other
way round. No more can be gained, and less where what takes its place costs time itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gpututor.trace.events import Kind
from gpututor.trace.hazards import HazardGroup
from gpututor.trace.rows import Numbers, Place, Rows
from gpututor.trace.units import duration, share

WORTH_IT = 0.02
"""Of the whole span: less is left out."""
_WORTH_NAMING = 0.05
"""Of what the line loses that loses most: other lines that lose less are not named."""


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
    """Nanoseconds that it costs, about, so that no more can be gained; 0 where it is about being right."""
    share: float
    """`gain` by the whole span, 0 to 1."""
    what_to_do: str
    others: tuple[Place, ...] = ()
    """More lines that the same would mend; `gain` is of all together."""

    @property
    def costs(self) -> str:
        """What it costs as it is; empty where it is about being right. What takes its place costs something too."""
        if not self.gain:
            return ""
        return f"As it is, this costs about {duration(self.gain)}, {share(self.share)} of the time."


def found(
    rows: Rows,
    rule: str,
    sentence: str,
    place: Place,
    gain: int,
    what_to_do: str,
    others: tuple[Place, ...] = (),
) -> Advice:
    """One piece of advice, with the share of its gain."""
    gain = min(gain, rows.span)
    return Advice(rule, sentence, place, gain, gain / rows.span if rows.span else 0.0, what_to_do, others)


class Seen(NamedTuple):
    """What a rule saw at one line."""

    place: Place
    group: Numbers
    """The rows that it is about."""
    sentence: str
    what_to_do: str


def together(rows: Rows, rule: str, seen: Iterable[Seen], gain_of: Callable[[Numbers], int]) -> Iterator[Advice]:
    """One piece of advice for all lines with the same remedy: the line that loses most in full, then the others.

    `gain_of` tells what some rows lose: of several lines the gain is that of their rows together, as what they lose may
    be the same time.
    """
    remedies: dict[str, list[tuple[int, Seen]]] = {}
    for one in seen:
        if (gain := gain_of(one.group)) > 0:
            remedies.setdefault(one.what_to_do, []).append((gain, one))
    for what_to_do, all_of_it in remedies.items():
        (most, first), *less = sorted(all_of_it, key=lambda pair: (-pair[0], pair[1].place))
        more = [one for gain, one in less if gain >= _WORTH_NAMING * most]
        gain = gain_of(np.sort(np.concatenate([first.group, *(one.group for one in more)])))
        others = tuple(sorted({one.place for one in more}))
        sentence = f"{first.sentence} The same goes for {_lines(first.place, others)}." if others else first.sentence
        yield found(rows, rule, sentence, first.place, gain, what_to_do, others)


def _lines(first: Place, others: Sequence[Place]) -> str:
    """`lines 9 and 12`; of other files with their names."""
    here = [str(one.line) for one in others if one.file == first.file]
    words = [str(one) for one in others if one.file != first.file]
    if here:
        words = [f"line{'s' if len(here) > 1 else ''} {_listed(here)}", *words]
    return _listed(words)


def _listed(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else words[0]


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
