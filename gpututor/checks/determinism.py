"""Determinism: the same inputs give the same result each time; and no two streams race for the same memory."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch

from gpututor.checks.core import Applies, Call, Check, Finding, Machine, Run, named
from gpututor.checks.parity_gates import TIERS, errors_of
from gpututor.checks.trees import first_difference, type_name
from gpututor.errors import CourseError
from gpututor.trace.events import Kind
from gpututor.trace.hazards import HazardGroup, hazards_of
from gpututor.trace.rows import Rows
from gpututor.wire.observed import ObservedObject, ObservedTensor

WHY = "A result that changes from run to run cannot be tested, and a training that uses it cannot be repeated."
WHY_RACES = "Streams run at the same time. Without an order the result is right on one machine and wrong on the next."


def determinism(
    repeats: int = 2,
    *,
    name: str = "determinism",
    why: str = WHY,
    advice: str = "",
    on: Applies = "everywhere",
) -> Check:
    """Each case is called `repeats` times with the same inputs, and all results agree.

    Bit for bit on the virtual GPU and the CPU, within the gates of parity for their dtype on real devices.
    """
    if not 2 <= repeats <= 100:
        raise CourseError(f"determinism: repeats={repeats}", "Use 2 to 100.")

    def find(run: Run) -> Finding | None:
        exact = run.machine.virtual or run.machine.device == "cpu"
        for calls in run.repeated:
            for again, other in enumerate(calls[1:], 2):
                difference = first_difference(calls[0].output, other.output, _same if exact else _near)
                if difference is not None:
                    what = f"{named(difference.path)} of repeat {again}, on the same inputs, is {difference.wrong}"
                    return _differs(run, calls, what)
        return None

    return Check(
        name, lambda _: "The same inputs give the same result each time", find, (), why, advice, on, repeats=repeats
    )


def races(
    *, name: str = "races", why: str = WHY_RACES, advice: str = "", on: Applies = lambda machine: _has_hazards(machine)
) -> Check:
    """No two streams, nor a stream and the host, use the same memory without an order, one of them writing it."""

    def find(run: Run) -> Finding | None:
        for calls in _cases(run):
            for call in calls:
                hazards = hazards_of(Rows(call.trace))
                if hazards:
                    more = f"; {len(hazards) - 1} more like it" if len(hazards) > 1 else ""
                    return Finding(
                        expected="an order between any two uses of the same memory, where one of them writes",
                        got=f"{hazards[0].sentence}{more}{run.which(calls[0])}",
                        line=hazards[0].place.line or run.line_of(call),
                        advice=hazards[0].what_to_do,
                    )
        return None

    return Check(name, lambda _: "No two streams race for the same memory", find, (), why, advice, on)


def _has_hazards(machine: Machine) -> bool:
    """Only the virtual GPU can see them."""
    return machine.virtual and machine.device != "cpu"


def _cases(run: Run) -> Iterator[tuple[Call, ...]]:
    yield from run.repeated or ((call,) for call in run.calls)


def _differs(run: Run, calls: tuple[Call, ...], words: str) -> Finding:
    expected = f"the same result from {len(calls)} calls on the same inputs"
    hazard = _first_hazard(calls)
    if hazard is not None:
        return Finding(
            expected,
            f"{words}{run.which(calls[0])}. This is a race: {hazard.sentence}",
            hazard.place.line or run.line_of(calls[0]),
            advice=hazard.what_to_do,
        )
    return Finding(
        expected,
        f"{words}{run.which(calls[0])}. It differs between two runs on one input: a race, or state left over",
        run.line_of(calls[0]),
        advice="Look for a global, a cache or a counter, for torch.empty that is read before it is written, for random"
        " numbers without a seed, and for streams that nobody waits for.",
    )


def _first_hazard(calls: tuple[Call, ...]) -> HazardGroup | None:
    for call in calls:
        if Kind.HAZARD in call.trace.kinds():
            return hazards_of(Rows(call.trace))[0]
    return None


def _same(path: str, one: Any, other: Any) -> str | None:
    """Words where two parts of equal type differ at all."""
    return _compared(one, other, exact=True)


def _near(path: str, one: Any, other: Any) -> str | None:
    """Words where they differ by more than their dtype allows."""
    return _compared(one, other, exact=False)


def _compared(one: Any, other: Any, *, exact: bool) -> str | None:
    if isinstance(one, ObservedTensor):
        return _tensors_differ(one.values, other.values, exact)
    if type_name(one) == "a NumPy array":
        return _tensors_differ(torch.from_numpy(one), torch.from_numpy(other), exact)
    if isinstance(one, ObservedObject) or one == other:
        return None  # the text of an object may hold its address
    if isinstance(one, float):
        both_nan = math.isnan(one) and math.isnan(other)
        near = not exact and math.isclose(one, other, rel_tol=1e-6)
        if both_nan or near:
            return None
    return f"{str(other)[:80]}, not {str(one)[:80]}"


def _tensors_differ(one: torch.Tensor, other: torch.Tensor, exact: bool) -> str | None:
    if (one.shape, one.dtype) != (other.shape, other.dtype):
        return f"of shape {tuple(other.shape)} and {other.dtype}, not {tuple(one.shape)} and {one.dtype}"
    if not exact and one.dtype in TIERS and errors_of(other, one).within(TIERS[one.dtype]):
        return None
    differs = (one != other) & ~((one != one) & (other != other))
    total = int(differs.sum())
    if not total:
        return None
    place = differs.nonzero()[0].tolist()
    shown = f"{other[tuple(place)].item():.6g} at {place}, not {one[tuple(place)].item():.6g}"
    return f"{shown} ({total:,} of {one.numel():,} elements differ)"
