"""The gradients of all parts count, and the ranks average them once a step."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import torch

from gpututor.checks import collectives, parity, placement, processes, structure, syncs, unmodified

RANKS = 2
OWN_WAITS = 2
"""Waits in each rank: the wrapper itself waits in the second step, when it lays out its buckets."""
FEW_BYTES = 64
"""Bytes for a loss that is averaged as well."""
AVERAGING = ("allreduce", "c10d::reduce", "allgather")
"""Collectives by which ranks average: DDP's, a sum for one rank or for shares, and all ranks' values."""


def reference(
    weights: dict[str, torch.Tensor], inputs: torch.Tensor, targets: torch.Tensor
) -> list[OrderedDict[str, torch.Tensor]]:
    """A single process that takes the parts of both ranks at once; all parts are equally large."""
    state = {name: tensor.detach().requires_grad_() for name, tensor in weights.items()}
    for step in range(inputs.shape[1]):
        hidden = torch.tanh(inputs[:, step] @ state["0.weight"].T + state["0.bias"])
        loss = (hidden @ state["2.weight"].T + state["2.bias"] - targets[:, step]).square().mean()
        gradients = torch.autograd.grad(loss, list(state.values()))
        state = {
            name: (tensor - 0.1 * gradient).detach().requires_grad_()
            for (name, tensor), gradient in zip(state.items(), gradients, strict=True)
        }
    return [OrderedDict((name, tensor.detach()) for name, tensor in state.items()) for _ in range(RANKS)]


def own_gpu(drawn: dict[str, Any], machine: Any) -> list[Any]:
    return [f"cuda:{rank}" for rank in range(RANKS)]


def once_a_step(drawn: dict[str, Any], machine: Any) -> tuple[int, int]:
    """Return the bounds: bytes of all gradients, for each step. The values show an average that is missing."""
    each = sum(tensor.nbytes for tensor in drawn["weights"].values()) + FEW_BYTES
    return 0, drawn["inputs"].shape[1] * each


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
        why="Without the average before each step, every rank trains a model of its own.",
    ),
    parity(
        reference,
        why="Parts save memory, but must not change the step: it uses all parts of both ranks.",
        advice="Clear the gradients once a step, and divide each part's loss by the number of parts.",
    ),
    collectives(
        bytes_by_name=dict.fromkeys(AVERAGING, once_a_step),
        why="An average of unfinished sums is overwritten by the next one: its time on the link is lost.",
        advice="Only the last part of a step needs the average. For DDP, a part is its forward and its backward pass.",
    ),
    syncs(
        at_most=OWN_WAITS * RANKS,
        loop_of="aten::*mm",
        why="One rank that waits for its GPU keeps the other waiting, too.",
        advice="Nothing in the loop needs a value on the CPU: look for .item(), print and .cpu().",
    ),
    unmodified(may_change=("model",)),
]
