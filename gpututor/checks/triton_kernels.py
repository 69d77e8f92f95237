"""Checks of Triton kernels: accesses in bounds, coalesced and few; enough programs, no two of which race."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from gpututor.checks.bounds import line_with_most
from gpututor.checks.model import (
    Applies,
    Call,
    Check,
    Finding,
    Machine,
    Run,
    count,
    in_each_call,
    in_each_repetition,
    on_virtual_gpu,
)
from gpututor.errors import CourseError
from gpututor.trace.arrays import TraceArrays
from gpututor.trace.events import Event, Kind
from gpututor.trace.formatting import share, size
from gpututor.trace.hazards import OUT_OF_BOUNDS, SAME_ELEMENT, UNWRITTEN, hazards_of

WHY_IN_BOUNDS = "A GPU reads or overwrites whatever follows a tensor in memory, usually without an error."
WHY_NO_RACES = "Programs run in any order, many at once: the result changes from run to run."
WHY_COALESCED = "Memory moves in sectors of 32 bytes. A warp that uses 4 bytes of each moves eight times too much."
WHY_PROGRAMS = "A program runs on one multiprocessor. With too few of them, the others have nothing to do."
WHY_TRAFFIC = "Memory bandwidth limits most kernels: half the bytes take half the time."
_NEARLY = 1e-9
_SECTORS = 8 * 32
"""Bytes allowed for sectors at the ends of tensors, which a kernel may use only in part."""


def in_bounds(
    *, name: str = "in_bounds", why: str = WHY_IN_BOUNDS, advice: str = "", on: Applies = on_virtual_gpu
) -> Check:
    """Check that no Triton kernel loads or stores outside of a tensor, or reads an unwritten element."""
    sentence = "Kernels use only elements that exist and were written"
    return _without_hazards(name, sentence, (OUT_OF_BOUNDS, UNWRITTEN), why, advice, on)


def no_races(
    *, name: str = "no_races", why: str = WHY_NO_RACES, advice: str = "", on: Applies = on_virtual_gpu
) -> Check:
    """Check that no program of a Triton kernel stores to an element that another program uses, except by atomics."""
    sentence = "No program of a kernel stores to an element that another program uses"
    return _without_hazards(name, sentence, (SAME_ELEMENT,), why, advice, on)


def coalesced(
    *,
    at_least: float,
    name: str = "coalesced",
    why: str = WHY_COALESCED,
    advice: str = "Make the last dimension of the offsets the one whose elements are neighbors in memory.",
    on: Applies = on_virtual_gpu,
) -> Check:
    """Check the share, 0 to 1, of its moved bytes that each Triton kernel uses.

    Raises `CourseError` for an impossible share.
    """
    if not 0 < at_least <= 1:
        raise CourseError(f"check {name!r}: a share of {at_least}", "In checks.py, give a share above 0, at most 1.")

    def wrong(kernel: Event, _: Call) -> tuple[str, str] | None:
        if kernel.requested >= (at_least - _NEARLY) * (kernel.moved - _SECTORS):
            return None
        used = kernel.requested / kernel.moved
        got = f"{kernel.name} moves {size(kernel.moved)} and uses {share(used)} of them"
        return f"at least {share(at_least)} of the bytes moved are used", got

    sentence = f"At least {share(at_least)} of the bytes that kernels move are used"
    return Check(name, lambda _: sentence, _in_each_kernel(wrong), (), why, advice, on)


def traffic(
    *,
    at_most: float,
    name: str = "traffic",
    why: str = WHY_TRAFFIC,
    advice: str = "Load each element once, keep it in a variable, and store each result once.",
    on: Applies = on_virtual_gpu,
) -> Check:
    """Check the bytes that each Triton kernel moves, as a multiple of the least: each input once, each output once.

    Raises `CourseError` for a multiple below 1.
    """
    if not at_most >= 1:
        raise CourseError(f"check {name!r}: {at_most} times the least", "In checks.py, give 1 or more.")

    def wrong(kernel: Event, _: Call) -> tuple[str, str] | None:
        if kernel.moved <= at_most * kernel.size_bytes + _SECTORS:
            return None
        times = f"{kernel.moved / kernel.size_bytes:.2f} × the least" if kernel.size_bytes else "for nothing"
        got = f"{kernel.name} moves {size(kernel.moved)}, {times}"
        return f"at most {at_most:g} × {size(kernel.size_bytes)}: each input once, each output once", got

    sentence = f"Kernels move at most {at_most:g} × the bytes of their inputs and outputs"
    return Check(name, lambda _: sentence, _in_each_kernel(wrong), (), why, advice, on)


def programs(
    at_least: int | Callable[[dict[str, Any], Machine], int],
    *,
    name: str = "programs",
    why: str = WHY_PROGRAMS,
    advice: str = "Give each program a part of the work: the grid at the launch has a program for each part.",
    on: Applies = on_virtual_gpu,
) -> Check:
    """Check that each Triton kernel starts at least `at_least` programs.

    `at_least` is a number, or a function of the drawn arguments and the machine. Raises `CourseError` for a number
    below 1.
    """
    if not callable(at_least) and not at_least >= 1:
        raise CourseError(f"check {name!r}: {at_least} programs", "In checks.py, give 1 or more.")

    def find(run: Run) -> Finding | None:
        def wrong(kernel: Event, call: Call) -> tuple[str, str] | None:
            least = at_least(call.drawn, run.machine) if callable(at_least) else at_least
            if kernel.programs >= least:
                return None
            return f"at least {count(least, 'program')}", f"{kernel.name} starts {count(kernel.programs, 'program')}"

        return _in_each_kernel(wrong)(run)

    return Check(name, lambda _: "Kernels start enough programs", find, (), why, advice, on)


def _in_each_kernel(wrong: Callable[[Event, Call], tuple[str, str] | None]) -> Callable[[Run], Finding | None]:
    """Return a `Check.find` that applies `wrong`, which returns expected and actual value, to each Triton kernel."""

    def find(run: Run, call: Call) -> Finding | None:
        kernels = [event for event in call.trace if event.kind is Kind.KERNEL and event.programs]
        if not kernels:
            others = [event for event in call.trace if event.kind is Kind.KERNEL and event.device != "cpu"]
            advice = "Launch it with `kernel[grid](...)`."
            return run.finding(call, "a Triton kernel in each call", "none", line_with_most(others), advice)
        for kernel in kernels:
            if (words := wrong(kernel, call)) is not None:
                return run.finding(call, *words, kernel.line)
        return None

    return in_each_call(find)


def _without_hazards(name: str, sentence: str, kinds: Collection[str], why: str, advice: str, on: Applies) -> Check:
    def find(run: Run, call: Call) -> Finding | None:
        for hazard in hazards_of(TraceArrays(call.trace)):
            if hazard.name in kinds:
                return run.finding(call, sentence, hazard.sentence, hazard.place.line, hazard.what_to_do)
        return None

    return Check(name, lambda _: sentence, in_each_repetition(find), (), why, advice, on)
