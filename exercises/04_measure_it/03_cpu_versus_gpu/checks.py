"""Two times by the trace, and two figures that follow from the result."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch

from gpututor.checks import (
    Call,
    Check,
    Finding,
    Run,
    Taken,
    measurement,
    parity,
    placement,
    structure,
    taken,
    transfers,
)
from gpututor.trace.events import WORK, Event, Kind


def reference(a: torch.Tensor, b: torch.Tensor) -> dict[str, Any]:
    """The product in float64, rounded at the end; other checks compare the figures with the trace and the product."""
    product = torch.einsum("mk,kn->mn", a, b).float()
    return {"product": product, "cpu_seconds": 0.0, "gpu_seconds": 0.0, "speedup": 0.0, "largest_difference": 0.0}


def product_in_float32(a: torch.Tensor, b: torch.Tensor) -> dict[str, Any]:
    """Return the same from inputs in float32, which the device computes with."""
    return {**reference(a.float(), b.float())}


def cpu_products(call: Call) -> list[Event]:
    """All products on the CPU in float64."""
    products = [event for event in call.trace if event.name == "aten::mm" and event.device == "cpu"]
    return [event for event in products if event.dtype == "float64"]


def gpu_products(call: Call) -> list[Event]:
    return [event for event in call.trace if event.name == "aten::mm" and event.device != "cpu"]


def on_the_cpu(call: Call) -> float:
    """Seconds of the last product on the CPU in float64."""
    products = cpu_products(call)
    return products[-1].duration / 1e9 if products else math.nan


def on_the_gpu(call: Call) -> Taken:
    """Seconds of a product on the device, from its launch until it was done.

    Take the last product, or the last product that the host waits for: a Timer returns no product, so code that uses
    a Timer computes the product once more.
    """
    products = gpu_products(call)
    work = [event.launched for event in call.trace if event.kind in WORK]
    waits = [event.launched for event in call.trace if event.kind is Kind.SYNCHRONISE]
    for product in reversed(products[1:]):
        following = min((launched for launched in work if launched > product.launched), default=math.inf)
        if any(product.launched <= wait < following for wait in waits):
            return taken(call, [product])
    return taken(call, products[-1:])


def find_cold(run: Run) -> Finding | None:
    """Find a call that computes a product only once. The CPU's products are seen with a virtual GPU only."""
    for call in run.calls:
        products = {"GPU": gpu_products(call)}
        if run.machine.virtual:
            products["CPU"] = cpu_products(call)
        for place, events in products.items():
            if len(events) < 2:
                expected = f"two products or more on the {place}: one to warm up, then the timed one"
                return Finding(expected, f"{len(events)}{run.which(call)}", events[0].line if events else None)
    return None


def wrong_ratio(run: Run) -> Finding | None:
    """A speed-up that is not the ratio of the two reported times."""
    for call in run.calls:
        result = call.output
        ratio = result["cpu_seconds"] / result["gpu_seconds"] if result["gpu_seconds"] else math.inf
        if not math.isclose(result["speedup"], ratio, rel_tol=1e-3):
            return Finding(
                f"cpu_seconds / gpu_seconds, which is {ratio:.4g}",
                f"result['speedup'] says {result['speedup']:.4g}{run.which(call)}",
                run.line_of(call),
            )
    return None


def wrong_difference(run: Run) -> Finding | None:
    """A largest difference that does not match the returned product."""
    for call in run.calls:
        exact = call.drawn["a"] @ call.drawn["b"]
        largest = (exact - call.output["product"].values.double()).abs().max().item()
        reported = call.output["largest_difference"]
        if not math.isclose(reported, largest, rel_tol=0.01):
            return Finding(
                f"{largest:.3g}, by the returned product",
                f"result['largest_difference'] says {reported:.3g}{run.which(call)}",
                run.line_of(call),
            )
    return None


cpu_time = measurement(
    on_the_cpu,
    part="cpu_seconds",
    name="cpu_time",
    virtual=(0.9, 1.15),
    why="The CPU's time is one half of the comparison. It returns when it is done: there is nothing to wait for.",
    advice="Read the clock before and after torch.mm(a, b) in float64, and nothing else between.",
    on=lambda machine: machine.virtual and machine.device != "cpu",
)
gpu_time = measurement(
    on_the_gpu,
    part="gpu_seconds",
    name="gpu_time",
    why="A speed-up is only as good as the two times behind it.",
    advice="Copies first, then one product to warm up, then synchronize, read, compute, synchronize, read.",
)

checks = [
    structure(
        reference,
        advice="A dict of the five names; the product is a float32 tensor, the others are Python floats.",
    ),
    placement(outputs={"product": "cpu"}),
    transfers(
        to_device=2,
        to_host=1,
        why="Each copy crosses the bus; the product needs to come back only once.",
        advice="Both matrices go there once, and one product comes back. Compare on the CPU.",
    ),
    parity(product_in_float32),
    replace(cpu_time, sentence=lambda machine: "cpu_seconds matches the time that the product took"),
    replace(gpu_time, sentence=lambda machine: "gpu_seconds matches the time that the product took"),
    Check(
        "warm_up",
        lambda machine: "It computes each product before the clock starts, too",
        find_cold,
        why="The first use of an operator loads its kernels and libraries: on a real GPU that takes milliseconds.",
        advice="Compute each product once before its clock starts, on the CPU and on the GPU.",
        on="gpu",
    ),
    Check(
        "speedup",
        lambda machine: "The speed-up is the ratio of the two times",
        wrong_ratio,
        needs=("structure",),
        why="Readers expect a speed-up above 1 to mean that the GPU is faster.",
        advice="Divide the CPU's seconds by the GPU's.",
    ),
    Check(
        "difference",
        lambda machine: "The largest difference matches the product that it returns",
        wrong_difference,
        needs=("structure",),
        why="A comparison in the narrow type rounds the exact values first, which hides part of the difference.",
        advice="Widen the product first, then subtract, then take the largest magnitude.",
    ),
]
