"""Each layer on its GPU, two copies at the seam and nothing else between the GPUs."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from gpututor.checks import parity, placement, structure, syncs, transfers, unmodified


def reference(
    weights: dict[str, torch.Tensor], cut: int, batch: torch.Tensor, targets: torch.Tensor
) -> dict[str, torch.Tensor]:
    """The gradients on one device, without a cut."""
    known = {name: tensor.detach().requires_grad_() for name, tensor in weights.items()}
    values = batch
    for number in range(0, len(known), 2):
        values = functional.linear(values, known[f"{number}.weight"], known[f"{number}.bias"])
        values = values if number == len(known) - 2 else values.tanh()
    error = (values - targets).square().mean()
    return dict(zip(known, torch.autograd.grad(error, list(known.values())), strict=True))


def by_layer(drawn: dict[str, Any], machine: Any) -> dict[str, Any]:
    """The GPU of each layer, by its number: the names of its gradients begin with it."""
    numbers = {name.split(".")[0] for name in drawn["weights"]}
    return {number: "cuda:0" if int(number) < drawn["cut"] else "cuda:1" for number in numbers}


def seam_bytes(drawn: dict[str, Any], machine: Any) -> int:
    """The activations at the cut, and their gradient."""
    biases = [tensor for name, tensor in drawn["weights"].items() if name.endswith("bias")]
    return 2 * 4 * len(drawn["batch"]) * len(biases[(drawn["cut"] - 1) // 2])


checks = [
    structure(
        reference,
        why="A parameter without a gradient does not learn: the graph has to lead back over the seam.",
        advice="Return {name: parameter.grad ...} of model.named_parameters(), after backward().",
    ),
    placement(
        by_layer,
        why="Each GPU has room only for its own layers and their gradients.",
        advice="model[:cut] and model[cut:] are the two parts; each goes to one GPU.",
    ),
    transfers(
        to_device=lambda drawn, machine: len(drawn["weights"]) + 2,
        to_host=0,
        between=2,
        bytes_between=seam_bytes,
        why="Only what crosses the seam has to travel between the GPUs: activations, and their gradient coming back.",
        advice="Send parts, batch and targets straight to their GPUs; move the activations once, at the cut.",
    ),
    syncs(
        at_most=0,
        why="While the host waits for the first GPU, it cannot launch work on the second.",
        advice="Nothing here needs a value on the CPU: look for .item(), print and .cpu().",
    ),
    unmodified(may_change=("model",)),
    parity(
        reference,
        advice="The loss is nn.functional.mse_loss of outputs and targets as they are: the mean over all elements.",
    ),
]
