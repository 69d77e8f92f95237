"""The gradients of the plain step, at the peak of a checkpointed one, and a figure that agrees with the meter."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F

from gpututor.checks import (
    Call,
    Check,
    Finding,
    Machine,
    Run,
    launches,
    memory,
    parity,
    placement,
    source,
    structure,
    syncs,
)
from gpututor.trace.columns import Trace
from gpututor.trace.events import Kind


def reference(state: dict[str, torch.Tensor], rows: torch.Tensor, checkpointed: bool) -> dict[str, Any]:
    """Forward and backward pass written out, without autograd."""
    inputs, insides = [], []
    hidden = rows
    depth = len(state) // 4
    for block in range(depth):
        inputs.append(hidden)
        inside = hidden @ state[f"{block}.0.weight"].T + state[f"{block}.0.bias"]
        insides.append(inside)
        hidden = F.softplus(inside) @ state[f"{block}.2.weight"].T + state[f"{block}.2.bias"]
    gradients = {}
    loss = hidden.square().mean()
    backward = 2 * hidden / hidden.numel()
    for block in reversed(range(depth)):
        inside = insides[block]
        gradients[f"{block}.2.weight"] = backward.T @ (F.softplus(inside))
        gradients[f"{block}.2.bias"] = backward.sum(0)
        backward = backward @ state[f"{block}.2.weight"] * torch.sigmoid(inside)
        gradients[f"{block}.0.weight"] = backward.T @ inputs[block]
        gradients[f"{block}.0.bias"] = backward.sum(0)
        backward = backward @ state[f"{block}.0.weight"]
    return {"loss": loss, "gradients": gradients, "peak_bytes": 0}


def most_bytes(drawn: dict[str, Any], machine: Machine) -> int:
    """Return, with checkpoints, the bytes of each block's input, one block's insides, loss, gradient, a little more."""
    depth = len(drawn["state"]) // 4
    rows = -(-drawn["rows"].nbytes // 512) * 512
    return int((depth + 17 if drawn["checkpointed"] else 12 * depth + 17) * rows)


def most_products(drawn: dict[str, Any], machine: Machine) -> tuple[int, int]:
    """Each block has two products, and a checkpointed one computes them again."""
    products = len(drawn["state"]) // 2
    return 0, 2 * products if drawn["checkpointed"] else products


def with_a_graph(run: Run) -> Finding | None:
    """Find a loss that still has an autograd graph."""
    for call in run.calls:
        if call.output["loss"].fact.requires_grad:
            got = f"result['loss'] requires gradients{run.which(call)}"
            return Finding("a loss that requires no gradients", got, run.line_of(call))
    return None


def once_begun(check: Check) -> Check:
    """Return a check that sees a call from its first kernel on: a wait before it costs a training step nothing."""

    def find(run: Run) -> Finding | None:
        return check.find(
            replace(run, calls=tuple(replace(call, trace=_from_first_kernel(call)) for call in run.calls))
        )

    return replace(check, sentence=lambda _: "No wait for the device once the forward pass has begun", find=find)


def _from_first_kernel(call: Call) -> Trace:
    kernels = (number for number, event in enumerate(call.trace) if event.kind is Kind.KERNEL)
    return call.trace.since(next(kernels, 0))


def figure_of_the_peak(run: Run) -> Finding | None:
    """Compare the figure with the device's own meter and the trace, within 1 %."""
    for call in run.calls:
        use = call.memory[run.machine.device]
        taken = [
            event.allocated
            for event in call.trace
            if event.kind is Kind.ALLOCATE and event.device == run.machine.device
        ]
        peak = max([use.peak, *taken]) - use.before
        said = call.output["peak_bytes"]
        if abs(said - peak) > 0.01 * peak:
            return Finding(
                expected=f"result['peak_bytes'] is {peak:,}",
                got=f"{said:,}{run.which(call)}",
                line=run.line_of(call),
            )
    return None


checks = [
    structure(reference),
    placement({"loss": "device", "gradients": "device", "peak_bytes": None}),
    parity(
        reference,
        why="Checkpoints change when something is computed, never what comes out.",
        advice="Clear old gradients first, call loss.backward() once, and pass use_reentrant=False: the older way "
        "gives no gradients if the block's input needs none.",
    ),
    Check(
        "graph",
        lambda machine: "Its loss has no graph",
        with_a_graph,
        ("structure",),
        "A loss with its graph keeps the nodes of that graph; adding to it makes the graph longer.",
        "Return loss.detach().",
    ),
    once_begun(
        syncs(
            at_most=0,
            why="A training step that waits for the device leaves it idle before the next one.",
            advice="Return the loss as a tensor, and read it after later steps are launched.",
        )
    ),
    memory(
        peak=most_bytes,
        why="With checkpoints, only the input of each block should wait for the backward pass.",
        advice="Checkpoint each block by itself. One checkpoint around all of them has to compute, and hold, all of "
        "them again.",
    ),
    source(
        require=("reset_peak_memory_stats",),
        name="peak_reset",
        why="The meter shows the most since it was last reset. A higher peak of earlier work hides this step's peak.",
        advice="Reset the peak before the forward pass: lesson 6 names the call.",
    ),
    Check(
        "figure",
        lambda machine: "Its peak matches the device's meter",
        figure_of_the_peak,
        ("structure",),
        "Checkpoints cost arithmetic. Without a measurement you do not know whether they save memory.",
        "Read memory_allocated before the forward pass, reset the peak, read max_memory_allocated after backward().",
        "gpu",
    ),
    launches(
        by_name={"aten::addmm": most_products},
        name="recomputed",
        why="Computing twice costs time: only a checkpointed step should do it.",
        advice="Without checkpoints, call the blocks as they are.",
    ),
]
