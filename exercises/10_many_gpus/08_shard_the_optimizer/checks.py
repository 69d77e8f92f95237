"""The same training as Adam's on one GPU, and no rank keeps all of its state."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import torch

from gpututor.checks import (
    Machine,
    collectives,
    memory,
    parity,
    placement,
    processes,
    structure,
    syncs,
    unmodified,
)

RANKS = 2
RATE, BETAS, EPS = 0.01, (0.9, 0.999), 1e-3
MOST = 3.8
"""Times the bytes of the weights."""
SPARE = 0.25
"""Times the bytes of the weights, for all that is sent besides: a few numbers."""
OWN_WAITS = 2
"""Waits in each rank: the wrapper itself waits in the second step, when it lays out its buckets."""


def reference(
    weights: dict[str, torch.Tensor], inputs: torch.Tensor, targets: torch.Tensor
) -> list[OrderedDict[str, torch.Tensor]]:
    """Adam by hand, in a single process that takes the rows of both ranks at once."""
    state = {name: tensor.detach().requires_grad_() for name, tensor in weights.items()}
    means = {name: torch.zeros_like(tensor) for name, tensor in weights.items()}
    squares = {name: torch.zeros_like(tensor) for name, tensor in weights.items()}
    for step in range(inputs.shape[1]):
        values = inputs[:, step]
        for layer in range(0, len(state), 2):
            values = torch.tanh(values @ state[f"{layer}.weight"].T + state[f"{layer}.bias"])
        loss = (values - targets[:, step]).square().mean()
        gradients = torch.autograd.grad(loss, list(state.values()))
        for name, gradient in zip(list(state), gradients, strict=True):
            means[name] = BETAS[0] * means[name] + (1 - BETAS[0]) * gradient
            squares[name] = BETAS[1] * squares[name] + (1 - BETAS[1]) * gradient.square()
            mean = means[name] / (1 - BETAS[0] ** (step + 1))
            deviation = (squares[name] / (1 - BETAS[1] ** (step + 1))).sqrt()
            state[name] = (state[name] - RATE * mean / (deviation + EPS)).detach().requires_grad_()
    return [OrderedDict((name, tensor.detach()) for name, tensor in state.items()) for _ in range(RANKS)]


def own_gpu(drawn: dict[str, Any], machine: Any) -> list[Any]:
    return [f"cuda:{rank}" for rank in range(RANKS)]


def weights_of(drawn: dict[str, Any]) -> int:
    """Bytes of all weights, and of their gradients."""
    return sum(tensor.nbytes for tensor in drawn["weights"].values())


def most_bytes(drawn: dict[str, Any], machine: Machine) -> int:
    return int(MOST * weights_of(drawn))


def most_sent(drawn: dict[str, Any], machine: Machine) -> tuple[int, int]:
    """Return the bounds: bytes of the weights at the start, and of gradients and weights in each step."""
    return 0, int((1 + 2 * drawn["inputs"].shape[1] + SPARE) * weights_of(drawn))


checks = [
    structure(
        reference,
        why="A checkpoint has to load without the wrapper, which puts `module.` before each name.",
        advice="Return the state dict of the model that you were given, not that of DistributedDataParallel.",
    ),
    placement(
        own_gpu, advice="The starter's first line makes GPU number `rank` the current one. Leave the state there."
    ),
    processes(
        same=("",),
        why="A rank that does not get the weights that others have updated continues with old ones.",
    ),
    parity(
        reference,
        why="Dividing the state must not change the training: it is Adam's, on the rows of both ranks.",
        advice="Average the gradients in each step, clear all of them, and pass Adam's settings on.",
    ),
    memory(
        peak=most_bytes,
        why="Adam's state takes twice the memory of the weights. With many ranks, a share of it is almost nothing.",
        advice="Keep the state of this rank's own parameters only. Clear gradients before the forward pass, so that"
        " DDP's second buckets do not come on top of its first.",
    ),
    collectives(
        bytes_by_name={"": most_sent},
        why="The price of a divided optimizer is one more transfer of the weights in each step, and no more.",
        advice="Average each gradient once, and send each updated weight once, from the rank that updated it.",
    ),
    syncs(
        at_most=OWN_WAITS * RANKS,
        loop_of="aten::*mm",
        why="One rank that waits for its GPU keeps the other waiting, too.",
        advice="Nothing in the loop needs a value on the CPU: look for .item(), print and .cpu().",
    ),
    unmodified(may_change=("model",)),
]
