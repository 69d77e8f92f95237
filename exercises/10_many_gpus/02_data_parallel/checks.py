"""Every GPU that can take part computes, and the step is the same as on a single device."""

from __future__ import annotations

from collections import Counter, OrderedDict
from typing import Any

import torch

from gpututor.checks import Check, Finding, parity, placement, structure, syncs, unmodified
from gpututor.trace.events import Kind


def reference(
    weights: dict[str, torch.Tensor], batch: torch.Tensor, targets: torch.Tensor
) -> OrderedDict[str, torch.Tensor]:
    """The step by hand: both gradients written out."""
    first, second = weights["0.weight"], weights["2.weight"]
    before = batch @ first.T + weights["0.bias"]
    hidden = before.clamp(min=0)
    error = 2 * (hidden @ second.T + weights["2.bias"] - targets) / targets.numel()
    back = (error @ second) * (before > 0)
    gradients = {
        "0.weight": back.T @ batch,
        "0.bias": back.sum(0),
        "2.weight": error.T @ hidden,
        "2.bias": error.sum(0),
    }
    return OrderedDict((name, weights[name] - 0.1 * gradients[name]) for name in gradients)


def least_work(rows: int, weights: dict[str, torch.Tensor]) -> float:
    """Floating-point operations of the products for so many rows: forward, and the gradients of the weights."""
    return 2.0 * 2 * rows * sum(tensor.numel() for tensor in weights.values() if tensor.ndim == 2)


def products_by_gpu(run: Any) -> Finding | None:
    """The first call in which a GPU multiplied less than its part of the batch asks for."""
    for call in run.calls:
        parts = call.drawn["batch"].chunk(run.machine.gpus)
        worked: Counter[str] = Counter()
        for event in call.trace:
            if event.kind is Kind.KERNEL and event.flops > 0:
                worked[event.device] += event.flops
        for index, part in enumerate(parts):
            gpu = f"cuda:{index}"
            if worked[gpu] < least_work(len(part), call.drawn["weights"]):
                asked = f"{gpu} to multiply for {len(part)} of {len(call.drawn['batch'])} rows, forward and backward"
                got = f"{gpu} did less than that{run.which(call)}" if worked[gpu] else f"no product{run.which(call)}"
                return Finding(asked, got, run.line_of(call))
    return None


checks = [
    structure(
        reference,
        why="A checkpoint has to load on any machine. The wrapper puts `module.` before each of its names.",
        advice="Return the state dict of the model inside the wrapper, not that of the wrapper.",
    ),
    placement(
        "device",
        advice="Move the model to the device before you wrap it; the optimizer then changes its weights there.",
    ),
    Check(
        "every_gpu",
        lambda _: "Every GPU computes on its part of the batch",
        products_by_gpu,
        why="A second GPU that is idle costs as much as one that works.",
        advice="With two GPUs or more, call nn.DataParallel(model) instead of the model. By default it takes all.",
        on="gpu",
    ),
    syncs(
        at_most=0,
        why="While the host waits for a number that is not needed, it launches nothing.",
        advice="Nothing here needs a value on the CPU: leave loss and state on the device.",
    ),
    unmodified(may_change=("model",)),
    parity(
        reference,
        why="Dividing a batch must not change the step: with two GPUs you train the same model, only faster.",
        advice="Compute one loss over all outputs; DataParallel adds up the gradients of the parts by itself.",
    ),
]
