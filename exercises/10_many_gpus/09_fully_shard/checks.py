"""The same training as on one GPU, and no rank holds all weights, gradients or states at once."""

from __future__ import annotations

from typing import Any

import torch

from gpututor.checks import Machine, collectives, memory, parity, placement, processes, structure, syncs

RANKS = 2
RATE, MOMENTUM = 0.1, 0.9
MOST = 2.1
"""Times the bytes of the weights. Single layers need 1.8, pairs 2.03, and weights that stay gathered 2.16 or more."""
SPARE = 0.25
"""Times the bytes of the weights, for all that is sent besides: a few numbers."""


def reference(
    weights: dict[str, torch.Tensor], inputs: torch.Tensor, targets: torch.Tensor
) -> list[dict[str, torch.Tensor]]:
    """SGD by hand, in a single process that takes the rows of both ranks at once; then each rank's rows."""
    state = {name: tensor.detach().requires_grad_() for name, tensor in weights.items()}
    moving = {name: torch.zeros_like(tensor) for name, tensor in weights.items()}
    for step in range(inputs.shape[1]):
        values = inputs[:, step]
        for layer in range(0, len(state), 2):
            values = torch.tanh(values @ state[f"{layer}.weight"].T + state[f"{layer}.bias"])
        loss = (values - targets[:, step]).square().mean()
        gradients = torch.autograd.grad(loss, list(state.values()))
        for name, gradient in zip(list(state), gradients, strict=True):
            moving[name] = MOMENTUM * moving[name] + gradient
            state[name] = (state[name] - RATE * moving[name]).detach().requires_grad_()
    return [{name: tensor.detach().chunk(RANKS)[rank] for name, tensor in state.items()} for rank in range(RANKS)]


def own_gpu(drawn: dict[str, Any], machine: Any) -> list[Any]:
    return [f"cuda:{rank}" for rank in range(RANKS)]


def weights_of(drawn: dict[str, Any]) -> int:
    """Bytes of all weights, and of their gradients."""
    return sum(tensor.nbytes for tensor in drawn["weights"].values())


def most_bytes(drawn: dict[str, Any], machine: Machine) -> int:
    return int(MOST * weights_of(drawn))


def most_sent(drawn: dict[str, Any], machine: Machine) -> tuple[int, int]:
    """Return the bounds: a rank's part of the weights twice in each step, and all of its gradients once."""
    return 0, int((drawn["inputs"].shape[1] * (2 / RANKS + 1) + SPARE) * weights_of(drawn))


checks = [
    structure(
        reference,
        why="The parts of all ranks together are the model. A rank that returns everything must hold everything.",
        advice="After fully_shard, a parameter is a DTensor. to_local() is the part of this rank, a plain tensor.",
    ),
    placement(
        own_gpu, advice="The starter's first line makes GPU number `rank` the current one. Leave the parts there."
    ),
    processes(why="A group that never ends keeps its GPU."),
    parity(
        reference,
        why="Dividing the weights must not change the training: each step uses all rows of both ranks.",
        advice="fully_shard replaces the parameters and averages the gradients. Which ones does the optimizer hold?",
    ),
    memory(
        peak=most_bytes,
        why="Sharding is for models that do not fit. Layers that are gathered together must fit together.",
        advice="Shard each layer, then the model. Weights that forward has used are freed until backward needs them.",
    ),
    collectives(
        bytes_by_name={"": most_sent},
        why="Sharding gathers the weights for forward and backward, and reduces the gradients once: more only costs.",
        advice="fully_shard sends all that a step needs. Compute with a rank's own parts wherever you can.",
    ),
    syncs(
        loop_of="aten::*mm",
        why="One rank that waits for its GPU keeps the other waiting, too.",
        advice="Nothing in the loop needs a value on the CPU: look for .item(), print and .cpu().",
    ),
]
