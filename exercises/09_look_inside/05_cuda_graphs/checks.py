"""All steps' outputs, from replays: few launches, little time, no waits and no races."""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch
from torch.nn import functional

from gpututor.checks import (
    Check,
    Finding,
    Machine,
    Run,
    launches,
    parity,
    placement,
    races,
    speed,
    structure,
    syncs,
    transfers,
)
from gpututor.trace.events import Kind

BLOCKS = 4
KERNELS = 3 * BLOCKS + 1
"""Kernels of one forward pass."""


def reference(model: dict[str, torch.Tensor], batches: torch.Tensor) -> torch.Tensor:
    """The network written out, for all batches at once."""
    hidden = batches
    for block in range(BLOCKS):
        hidden = functional.gelu(hidden @ model[f"{block}.0.weight"].T + model[f"{block}.0.bias"])
        weight, bias = model[f"{block}.2.weight"], model[f"{block}.2.bias"]
        hidden = functional.layer_norm(hidden, hidden.shape[-1:], weight, bias)
    return hidden @ model[f"{BLOCKS}.weight"].T + model[f"{BLOCKS}.bias"]


def find_cold(run: Run) -> Finding | None:
    """Find a call that captures a forward pass without a warm-up pass before it."""
    for call in run.calls:
        kernels = [event for event in call.trace if event.kind is Kind.KERNEL and event.device != "cpu"]
        # The kernels of a replay are launched at one moment.
        moments = Counter(event.launched for event in kernels)
        replays = [moment for moment, together in moments.items() if together > 1]
        before = [event for event in kernels if event.name.endswith("mm") and event.launched < min(replays, default=0)]
        if replays and len(before) <= BLOCKS:
            got = f"{len(before)} products before the first replay{run.which(call)}"
            return Finding(
                f"a forward pass, which has {BLOCKS + 1} products, before the capture", got, run.line_of(call)
            )
    return None


def few_launches(drawn: dict[str, Any], machine: Machine) -> tuple[int, int]:
    """Allow a replay for each batch, and up to three copies for each and some passes to warm up."""
    steps = len(drawn["batches"])
    return steps, 4 * steps + 4 * KERNELS


checks = [
    structure(reference, advice="One output for each batch, stacked in their order."),
    placement("device", advice="The outputs are on the GPU already: leave them there."),
    syncs(
        at_most=4,
        why="A wait in each step costs what the graph saves.",
        advice="wait_stream lets one stream wait for another; the host need not wait at all.",
    ),
    transfers(
        to_host=0,
        why="A copy to the host waits for the device, and the host needs no value.",
        advice="Read no value: batches, graph and outputs stay on the GPU.",
    ),
    launches(
        few_launches,
        why="One replay for each batch takes the place of all launches of a forward pass.",
        advice=(
            "Capture the forward pass once, before the loop. In the loop there are a copy, a replay and a copy: the"
            " batches come one by one, so do not join them."
        ),
        on=lambda machine: machine.virtual,
    ),
    Check(
        "warm_up",
        lambda machine: "A forward pass runs before the capture",
        find_cold,
        why="The first pass prepares libraries and allocates memory. Neither is allowed during a capture.",
        advice="Call the model once on a side stream, and let the current stream wait for it; then capture.",
        on=lambda machine: machine.virtual,
    ),
    parity(
        reference,
        why="A replay reads the captured memory, and always writes its output to the same memory.",
        advice=(
            "Copy each batch into the captured input by static_batch.copy_(batch); copy the output away before the"
            " next replay overwrites it."
        ),
    ),
    races(
        why="Work on a side stream may still run when the next one reads its memory.",
        advice="side.wait_stream(current) before the warm-up, current.wait_stream(side) after it.",
    ),
    speed(
        0.45,
        real_at_most=0.9,
        compared_with="the plain loop",
        why="A small model spends most of its time on launches, and a graph removes most of them.",
        advice="Capture once, not in each step, and keep everything but copies and replays out of the loop.",
    ),
]
