"""A single compilation, right values, and times of warm calls that match the trace."""

from __future__ import annotations

from typing import Any

import torch

from gpututor.checks import (
    UNKNOWN,
    Call,
    Check,
    Finding,
    Machine,
    Run,
    Taken,
    in_loop,
    measurement,
    parity,
    placement,
    source,
    structure,
    transfers,
)
from gpututor.trace.events import Event, Kind

PRODUCTS = 2
"""Kernels of one call of the model."""
COMPILED = "Torch-Compiled Region"
"""Start of the range's name of each call of a compiled model."""
WHY = "A launch returns at once: the clock has to be read when the GPU is idle, before and after the calls."
ADVICE = (
    "Call once before; then torch.cuda.synchronize(), read the clock, all repeats, torch.cuda.synchronize(), read it"
    " again, and divide by the repeats."
)


def reference(model: dict[str, torch.Tensor], times: int, batch: torch.Tensor, repeats: int) -> dict[str, Any]:
    """The network written out; the times are nothing."""
    hidden = torch.relu(batch @ model["0.weight"].T + model["0.bias"])
    pooled = hidden.repeat(1, times).unflatten(1, (-1, 1024)).mean(dim=2)
    output = pooled @ model["4.weight"].T + model["4.bias"]
    return {"output": output, "first_seconds": 0.0, "seconds": 0.0, "eager_seconds": 0.0}


def products(call: Call) -> list[Event]:
    """All products of the call, in their order."""
    return [event for event in call.trace if event.kind is Kind.KERNEL and event.name.endswith("mm")]


def is_compiled(call: Call, product: Event) -> bool:
    """True if the product belongs to a call of a compiled model."""
    regions = (event for event in call.trace if event.kind is Kind.RANGE and event.name.startswith(COMPILED))
    return any(ran.launched < product.launched <= ran.end for ran in regions)


def calls_of(call: Call, *, compiled: bool) -> list[Taken]:
    """The time of each call of one of the models, by its products.

    It is at most that from the work or the wait before it to those after it. The last call to be timed must be waited
    for.
    """
    work = products(call)
    rounds = list(zip(work[::PRODUCTS], work[PRODUCTS - 1 :: PRODUCTS], strict=False))
    waits = [event.end for event in call.trace if event.kind is Kind.SYNCHRONISE]
    timed = rounds[: 2 * call.drawn["repeats"] + 2]
    times = []
    idle = call.span.started
    for number, (first, last) in enumerate(rounds):
        before = max([idle, *(end for end in waits if end <= first.launched)])
        after = [end for end in waits if end >= last.end] + [first.launched for first, _ in rounds[number + 1 :]]
        most = max(last.end, min(after, default=0)) - before
        if is_compiled(call, first) == compiled:
            times.append(Taken((last.end - first.start) / 1e9, most / 1e9, timed[-1][1].end))
        idle = last.end
    return times


def first_call(call: Call) -> Taken:
    """The first call of the compiled model, with all that it has to make ready included."""
    times = calls_of(call, compiled=True)
    return Taken(times[-1].least, max(taken.most for taken in times), times[-1].end) if times else UNKNOWN


def warm_call(call: Call, *, compiled: bool) -> Taken:
    """A call of a model that has been called before."""
    times = calls_of(call, compiled=compiled)
    if len(times) < 2:
        return UNKNOWN
    return Taken(times[-1].least, max(taken.most for taken in times[1:]), times[-1].end)


def warm_compiled_call(call: Call) -> Taken:
    return warm_call(call, compiled=True)


def warm_eager_call(call: Call) -> Taken:
    return warm_call(call, compiled=False)


def find_cold(run: Run) -> Finding | None:
    """A call in which one of the two models was not called often enough to be warm."""
    for call in run.calls:
        repeats = call.drawn["repeats"]
        regions = [event for event in call.trace if event.kind is Kind.RANGE and event.name.startswith(COMPILED)]
        inside = [product for product in products(call) if is_compiled(call, product)]
        eager = len(products(call)) // PRODUCTS - len(inside) // PRODUCTS
        for calls, of in ((len(regions), "the compiled model"), (eager, "the model itself")):
            if calls < repeats + 1:
                expected = f"{repeats + 1} calls or more of {of}: one to warm up, and {repeats} to be timed"
                return Finding(expected, f"{calls or 'no'} calls{run.which(call)}", run.line_of(call))
    return None


def find_compilation(run: Run) -> Finding | None:
    """Find later calls that take nearly as long as the first: they hold the compilation."""
    for call in run.calls:
        first, later = call.output["first_seconds"], call.output["seconds"]
        if not 0 < later < first / 2:
            got = f"{later:.3g} s after a first call of {first:.3g} s{run.which(call)}"
            return Finding("warm calls in less than half the time of the first one", got, run.line_of(call))
    return None


def warm_sentence(machine: Machine) -> str:
    return "Both models are called: once to warm up, and then to be timed"


def compiled_sentence(machine: Machine) -> str:
    return "The compilation is in the first call, and in no other"


def virtual(machine: Machine) -> bool:
    return machine.virtual


checks = [
    source(
        require=("torch.compile",),
        forbid=(in_loop("torch.compile"),),
        why="A compiled model compiles when it is called, for the inputs that it gets: make it once, call it often.",
        advice="compiled = torch.compile(model), once, before anything is timed.",
    ),
    structure(reference, advice="The times are floats, in seconds; the output is the tensor as the model gives it."),
    placement(
        {"output": "device", "first_seconds": None, "seconds": None, "eager_seconds": None},
        advice="Leave the output on the GPU.",
    ),
    Check(
        "warm_up",
        warm_sentence,
        find_cold,
        needs=("structure",),
        why="The first call of a compiled model compiles: it takes seconds, and later calls take milliseconds or less.",
        advice="Time the first call by itself, and then `repeats` further ones. Warm up the model itself, too.",
        on=virtual,
    ),
    transfers(
        to_host=0,
        why="Fetching outputs is timed with the calls.",
        advice="Wait with torch.cuda.synchronize(), before and after what you time.",
        on=virtual,
    ),
    parity(reference, why="A compiled model has to give what the model gives.", advice="Return compiled(batch)."),
    measurement(first_call, "first_seconds", name="first", why=WHY, advice=ADVICE, on=virtual),
    measurement(warm_compiled_call, "seconds", name="compiled", why=WHY, advice=ADVICE, on=virtual),
    measurement(warm_eager_call, "eager_seconds", name="eager", why=WHY, advice=ADVICE, on=virtual),
    Check(
        "compilation",
        compiled_sentence,
        find_compilation,
        needs=("structure",),
        why="A mean that includes the compilation says nothing about later calls.",
        advice="Time the first call alone; divide only the later ones by `repeats`.",
        on=lambda machine: machine.device != "cpu",
    ),
]
