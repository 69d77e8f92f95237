"""A single compilation, right values, and times of warm calls that match the timeline."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
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
from gpututor.trace.events import COMPILES, REGION, Event, Kind

TIMES = ("first_seconds", "seconds", "eager_seconds", "traced_seconds")
PRODUCTS = 2
"""Kernels of one call of the model."""
MARK = "call of the traced model"
"""The range with which given.py marks each call of the traced model: its kernels are those of the model itself."""
WHY = "A launch returns at once: the clock has to be read when the GPU is idle, before and after the calls."
ADVICE = (
    "Warm up. Then torch.cuda.synchronize(), read the clock, do all repeats, torch.cuda.synchronize(), read the clock"
    " again, and divide by `repeats`."
)


def reference(model: dict[str, torch.Tensor], times: int, batch: torch.Tensor, repeats: int) -> dict[str, Any]:
    """The network written out; the times are zeros."""
    hidden = torch.relu(batch @ model["0.weight"].T + model["0.bias"])
    pooled = hidden.repeat(1, times).unflatten(1, (-1, 1024)).mean(dim=2)
    output = pooled @ model["4.weight"].T + model["4.bias"]
    return {"output": output, **dict.fromkeys(TIMES, 0.0)}


def products(call: Call) -> list[Event]:
    """All products of the call, in their order."""
    return [event for event in call.trace if is_product(event)]


def is_product(event: Event) -> bool:
    return event.kind is Kind.KERNEL and event.name.endswith("mm")


def is_compiled(call: Call, product: Event) -> bool:
    """True if the product belongs to a call of a compiled model."""
    regions = (event for event in call.trace if event.kind is Kind.RANGE and event.name.startswith(REGION))
    return any(ran.launched < product.launched <= ran.end for ran in regions)


def models_of(call: Call) -> list[str]:
    """The model of each round of products, in their order."""
    models: list[str] = []
    marked, done = False, 0
    for event in call.trace:
        if event.kind is Kind.RANGE and event.name == MARK:
            marked = True
        elif is_product(event):
            if done % PRODUCTS == 0:
                models.append("traced" if marked else "compiled" if is_compiled(call, event) else "eager")
                marked = False
            done += 1
    return models


def calls_of(call: Call, model: str) -> list[Taken]:
    """The time of each call of one of the models, by its products.

    A call takes at most the time from the work or the wait before it to the work or the wait after it. The host must
    wait after the model's timed calls, `repeats` or more. Further calls, such as one for the output, need no wait.
    """
    work = products(call)
    rounds = list(zip(work[::PRODUCTS], work[PRODUCTS - 1 :: PRODUCTS], strict=False))
    launched = [first.launched for first, _ in rounds]
    waits = [event for event in call.trace if event.kind is Kind.SYNCHRONISE]
    times: list[Taken] = []
    timed = -1
    idle = call.span.started
    for number, (of, (first, last)) in enumerate(zip(models_of(call), rounds, strict=False)):
        following = launched[number + 1 :]
        before = max([idle, *(wait.end for wait in waits if wait.end <= first.launched)])
        after = [wait for wait in waits if wait.end >= last.end]
        most = max(last.end, min([*(wait.end for wait in after), *following], default=0)) - before
        if of == model:
            times.append(Taken((last.end - first.start) / 1e9, most / 1e9, last.end))
            is_waited_for = any(not following or wait.launched < following[0] for wait in after)
            if is_waited_for and len(times) > call.drawn["repeats"]:
                timed = last.end
        idle = last.end
    return [taken._replace(end=timed if timed >= 0 else times[-1].end) for taken in times]


def first_call(call: Call) -> Taken:
    """The time of the compiled model's first call: at least that of its compilation."""
    compilations = [event for event in call.trace if event.kind is Kind.RANGE and event.name.startswith(COMPILES)]
    times = calls_of(call, "compiled")
    if not times or not compilations:
        return UNKNOWN
    least = (compilations[0].end - compilations[0].launched) / 1e9
    return Taken(least, max(taken.most for taken in times), times[-1].end)


def warm_call(model: str, warm_up: int) -> Callable[[Call], Taken]:
    """The time of a call of this model after `warm_up` others."""

    def truth(call: Call) -> Taken:
        times = calls_of(call, model)
        if len(times) <= warm_up:
            return UNKNOWN
        return Taken(times[-1].least, max(taken.most for taken in times[warm_up:]), times[-1].end)

    return truth


def find_cold(run: Run) -> Finding | None:
    """A call in which one of the models was not called often enough to be warm. The traced model marks its calls."""
    for call in run.calls:
        repeats = call.drawn["repeats"]
        ranges = [event.name for event in call.trace if event.kind is Kind.RANGE]
        regions = sum(name.startswith(REGION) for name in ranges)
        traced = ranges.count(MARK)
        uncompiled = sum(not is_compiled(call, product) for product in products(call)) // PRODUCTS
        for calls, warm_up, of in (
            (regions, 1, "the compiled model"),
            (uncompiled - traced, 1, "the model itself"),
            (traced, 2, "the traced model"),
        ):
            if calls < warm_up + repeats:
                expected = f"{warm_up + repeats} calls or more of {of}: {warm_up} to warm up, and {repeats} to be timed"
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
    return "Each model is called to warm up, and then to be timed"


def compiled_sentence(machine: Machine) -> str:
    return "The compilation is in the first call, and in no other"


def virtual(machine: Machine) -> bool:
    return machine.virtual


def time_of(part: str, truth: Callable[[Call], Taken], name: str, work: str) -> Check:
    """Check one of the four figures against the trace."""
    check = measurement(truth, part, name=name, why=WHY, advice=ADVICE, on=virtual)
    return replace(check, sentence=lambda machine: f"{part} matches the time of {work}")


checks = [
    source(
        require=("torch.compile",),
        forbid=(in_loop("torch.compile"),),
        why="A compiled model compiles when it is called, for the inputs that it gets: make it once, call it often.",
        advice="compiled = torch.compile(model), once, before anything is timed.",
    ),
    structure(reference, advice="The times are floats, in seconds; the output is the tensor as the model gives it."),
    placement(
        {"output": "device", **dict.fromkeys(TIMES)},
        advice="Leave the output on the GPU.",
    ),
    Check(
        "warm_up",
        warm_sentence,
        find_cold,
        needs=("structure",),
        why="The first call of a compiled model compiles: it takes seconds, and later calls take milliseconds or less.",
        advice="Time the first call by itself, then `repeats` more. Warm up: call `model` once, `traced` twice.",
        on=virtual,
    ),
    transfers(
        to_host=0,
        why="The clock would include the copies of outputs to the host.",
        advice="Wait with torch.cuda.synchronize(), before and after what you time.",
        on=virtual,
    ),
    parity(reference, why="A compiled model has to give what the model gives.", advice="Return compiled(batch)."),
    time_of("first_seconds", first_call, "first", "the first compiled call"),
    time_of("seconds", warm_call("compiled", 1), "compiled", "a later one"),
    time_of("eager_seconds", warm_call("eager", 1), "eager", "a call of the model itself"),
    time_of("traced_seconds", warm_call("traced", 2), "traced", "a call of the traced model"),
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
