"""Two figures by the device's own clock, one wait of the host, and the right scores."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from gpututor.checks import Call, Taken, launches, measurement, parity, placement, structure, syncs, taken
from gpututor.checks.launches import launches_of
from gpututor.trace.events import Event


def reference(batch: torch.Tensor, first: torch.Tensor, second: torch.Tensor) -> dict[str, Any]:
    """The scores; another check compares the figures with the trace."""
    return {"scores": torch.einsum("rf,fh,hc->rc", batch, first, second), "first": 0.0, "second": 0.0}


PRODUCTS = "aten::*mm"
"""Kernels of a product: aten::mm, and aten::bmm for torch.einsum."""


def products(call: Call) -> list[Event]:
    """Return the last two products whose times are known; nothing if there are fewer."""
    kernels = [event for event in launches_of(call, PRODUCTS) if event.end >= 0]
    return kernels[-2:] if len(kernels) > 1 else []


def first_product(call: Call) -> Taken:
    """Seconds from its launch, or from the moment at which the device was idle before it, to its end."""
    return taken(call, products(call)[:1])


def second_product(call: Call) -> Taken:
    """Seconds from the end of the first, or from its own launch when that was later, to its end."""
    return taken(call, products(call)[1:])


ADVICE = "Record one event before the products, one between them and one after them; then synchronize the last one."

first = measurement(
    first_product,
    part="first",
    name="first",
    why="Events on both sides of the product enclose it on the device, whatever the host does meanwhile.",
    advice=ADVICE,
)
second = measurement(
    second_product,
    part="second",
    name="second",
    why="Events on both sides of the product enclose it on the device, whatever the host does meanwhile.",
    advice=ADVICE,
)

checks = [
    structure(reference),
    placement(outputs={"scores": "device"}),
    parity(
        reference,
        why="A time means something only if the result is right.",
        advice="scores = (batch @ first) @ second, and nothing else.",
    ),
    syncs(
        at_most=1,
        why="A wait between the stages leaves the device without work, and changes what is measured.",
        advice="event.record() never waits. Wait once, for the last event, when all work has been launched.",
    ),
    launches(
        by_name={PRODUCTS: (2, 12)},
        name="products",
        why="Computing twice takes twice as long.",
        advice="Compute each product once, and at most five times before that to warm up.",
    ),
    replace(first, sentence=lambda machine: "first matches the measured time of the first product"),
    replace(second, sentence=lambda machine: "second matches the measured time of the second product"),
]
