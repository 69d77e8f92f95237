"""Both times are those that the trace shows, the GPUs work together, and the efficiency follows from the times."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch

from gpututor.checks import Call, Check, Finding, Taken, measurement, overlap, structure, taken
from gpututor.trace.events import Event, Kind

PRODUCT = "aten::mm"


def reference(batch: torch.Tensor, weight: torch.Tensor) -> dict[str, float]:
    return {"one": 0.0, "all": 0.0, "efficiency": 0.0}


def work(batch: torch.Tensor, weight: torch.Tensor) -> float:
    """Floating-point operations of the whole product."""
    return 2.0 * batch.shape[0] * batch.shape[1] * weight.shape[1]


def products(call: Call, least: float, most: float) -> list[Event]:
    """The last product of each GPU whose operations are between two shares of the whole work."""
    whole = work(**call.drawn)
    last: dict[str, Event] = {}
    for event in call.trace:
        if event.kind is Kind.KERNEL and event.name == PRODUCT and least * whole <= event.flops <= most * whole:
            last[event.device] = event
    return list(last.values())


def on_one(call: Call) -> Taken:
    """The last whole product on cuda:0."""
    return taken(call, [event for event in products(call, 1, 1) if event.device == "cuda:0"])


def on_all(call: Call) -> Taken:
    """The last parts of the product, and the copies of them to cuda:0 that came after; all of it where one GPU is."""
    parts = products(call, 0, 0.9)
    if not parts:
        return on_one(call)
    launched = min(event.launched for event in parts)
    gathered = [
        event
        for event in call.trace
        if event.between_devices and event.target == "cuda:0" and event.launched >= launched
    ]
    return taken(call, parts + gathered)


def brought_together(run: Any) -> Finding | None:
    """The first call that copies less to cuda:0 than the parts of the product that begin elsewhere."""
    for call in run.calls:
        batch, weight = call.drawn["batch"], call.drawn["weight"]
        wanted = 8 * (len(batch) - len(batch.chunk(run.machine.gpus)[0])) * weight.shape[1]
        copied = sum(event.size_bytes for event in call.trace if event.between_devices and event.target == "cuda:0")
        if copied < wanted:
            got = f"{copied:,} bytes{run.which(call)}"
            return Finding(f"{wanted:,} bytes of the product copied to cuda:0", got, run.line_of(call))
    return None


def all_take_part(run: Any) -> Finding | None:
    """The first call in which a GPU did no part of the product."""
    for call in run.calls:
        done = {event.device for event in products(call, 0, 0.9)}
        for gpu in (f"cuda:{index}" for index in range(run.machine.gpus)):
            if gpu not in done:
                got = f"{gpu} multiplied no part of the rows{run.which(call)}"
                return Finding("a part of the product on each GPU", got, run.line_of(call))
    return None


def efficiency_of(run: Any) -> Finding | None:
    """The first call whose efficiency is not that of its own two times."""
    for call in run.calls:
        single, together, efficiency = (call.output[name] for name in ("one", "all", "efficiency"))
        wanted = single / (run.machine.gpus * together)
        if not math.isclose(efficiency, wanted, rel_tol=1e-6):
            got = f"{efficiency:.4g}{run.which(call)}"
            gpus = "one GPU" if run.machine.gpus == 1 else f"{run.machine.gpus} GPUs"
            return Finding(f"{wanted:.4g}, of your times and {gpus}", got, run.line_of(call))
    return None


def several(machine: Any) -> bool:
    return bool(machine.gpus > 1)


checks = [
    structure(reference),
    Check(
        "every_gpu",
        lambda _: "Every GPU multiplies a part of the rows",
        all_take_part,
        why="The time on all GPUs is that of the same work, divided among them.",
        advice="batch.chunk(number of GPUs) gives the parts. Send each to its GPU, and weight to all.",
        on=several,
    ),
    Check(
        "gathered",
        lambda _: "The parts of the product are brought to one GPU",
        brought_together,
        why="The parts must come together on one GPU: that cost belongs to the time on two.",
        advice="Within the timed part, move each part of the product to cuda:0.",
        on=several,
    ),
    overlap(
        kernels=0.35,
        why="GPUs that take turns take as long as one, and their efficiency is at most 0.5.",
        advice="Launch the product on every GPU before you move or wait for any part.",
        on=several,
    ),
    replace(
        measurement(on_one, part="one", name="one_gpu"),
        sentence=lambda _: "The time on one GPU is the time that the work took there",
    ),
    replace(
        measurement(
            on_all,
            part="all",
            name="all_gpus",
            advice="Synchronize each GPU, read the clock; launch and gather all parts; synchronize, read the clock.",
        ),
        sentence=lambda _: "The time on all GPUs is the time that the work took on them",
    ),
    Check(
        "efficiency",
        lambda _: "The efficiency follows from the two times",
        efficiency_of,
        needs=("structure", "one_gpu", "all_gpus"),
        why="It says whether another GPU is worth its price.",
        advice="Divide the time on one GPU by the number of GPUs times the time on all of them.",
        on="gpu",
    ),
]
