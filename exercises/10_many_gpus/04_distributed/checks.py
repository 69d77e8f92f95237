"""Both processes train one model together, each on its own GPU and its own share, and end their group."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import torch

from gpututor.checks import (
    Call,
    Check,
    Finding,
    Machine,
    Run,
    parity,
    placement,
    processes,
    structure,
    syncs,
    unmodified,
)
from gpututor.trace.events import Kind

RANKS = 2
OWN_WAITS = 2
"""Waits in each rank: the wrapper itself waits in the second step, when it lays out its buckets."""


def share(rows: int, epoch: int, rank: int) -> list[int]:
    """The rows of one rank in one epoch: every second row of a shuffled list. Its first row pads an odd list."""
    order = torch.randperm(rows, generator=torch.Generator().manual_seed(epoch)).tolist()
    order += order[: -rows % RANKS]
    return list(order[rank::RANKS])


def reference(
    weights: dict[str, torch.Tensor], inputs: torch.Tensor, targets: torch.Tensor, batch_size: int, epochs: int
) -> list[OrderedDict[str, torch.Tensor]]:
    """A single process that takes both shares in each step, and the mean of their gradients."""
    state = {name: tensor.detach().requires_grad_() for name, tensor in weights.items()}
    for epoch in range(epochs):
        shares = [share(len(inputs), epoch, rank) for rank in range(RANKS)]
        for begin in range(0, len(shares[0]), batch_size):
            losses = []
            for rows in (order[begin : begin + batch_size] for order in shares):
                hidden = torch.tanh(inputs[rows] @ state["0.weight"].T + state["0.bias"])
                losses.append((hidden @ state["2.weight"].T + state["2.bias"] - targets[rows]).square().mean())
            gradients = torch.autograd.grad(sum(losses) / RANKS, list(state.values()))
            state = {
                name: (tensor - 0.1 * gradient).detach().requires_grad_()
                for (name, tensor), gradient in zip(state.items(), gradients, strict=True)
            }
    return [OrderedDict((name, tensor.detach()) for name, tensor in state.items()) for _ in range(RANKS)]


def own_gpu(drawn: dict[str, Any], machine: Any) -> list[Any]:
    return [f"cuda:{rank}" for rank in range(RANKS)]


def rows_computed(drawn: dict[str, Any], rank: Call) -> float:
    """Rows that a rank computed, from the FLOPs of its products forward and backward."""
    hidden, features = drawn["weights"]["0.weight"].shape
    outputs = len(drawn["weights"]["2.bias"])
    flops = sum(event.flops for event in rank.trace if event.kind is Kind.KERNEL and event.name.endswith("mm"))
    return float(flops / (4 * features * hidden + 6 * hidden * outputs))


def others_work(run: Run) -> Finding | None:
    """A rank that goes through much more than its own share."""
    for call in run.calls:
        drawn = call.drawn
        own = drawn["epochs"] * len(share(len(drawn["inputs"]), 0, 0))
        for number, rank in enumerate(call.ranks):
            computed = rows_computed(drawn, rank)
            if computed > 1.4 * own:
                got = f"about {computed:.0f} rows in rank {number}{run.which(call)}"
                return Finding(f"{own} rows in each rank: its share of each epoch", got, run.line_of(call))
    return None


def share_sentence(machine: Machine) -> str:
    return "Each rank computes on its own share of the rows"


checks = [
    structure(
        reference,
        why="A checkpoint has to load without the wrapper, which puts `module.` before each name.",
        advice="Return the state dict of the model that you were given, not that of DistributedDataParallel.",
    ),
    placement(
        own_gpu,
        why="Unless you choose a GPU, all processes work on the first one, and the others are idle.",
        advice="Call torch.cuda.set_device(rank) first, or name torch.device('cuda', rank) at each move.",
    ),
    processes(
        same=("",),
        why="Ranks that do not average their gradients train separate models; a group that never ends keeps its GPU.",
    ),
    Check(
        "share",
        share_sentence,
        others_work,
        why="Two GPUs that both go through all rows take as long as one. Shares make training faster.",
        advice="DistributedSampler gives each rank its rows; DistributedDataParallel averages what they give.",
        on=lambda machine: machine.virtual and machine.gpus > 1,
    ),
    syncs(
        at_most=lambda drawn, machine: RANKS * (OWN_WAITS + drawn["epochs"]),
        loop_of="aten::*mm",
        why="One rank that waits for its GPU keeps the others waiting, too.",
        advice="No step needs a value on the CPU: look for .item(), print and .cpu(). Log once in each epoch.",
    ),
    unmodified(may_change=("model",)),
    parity(
        reference,
        why="Each row counts once per epoch, in a new order each time, and each step uses the mean of all ranks.",
        advice="Give the loader one DistributedSampler, tell it about each new epoch, and do not scale the gradients.",
    ),
]
