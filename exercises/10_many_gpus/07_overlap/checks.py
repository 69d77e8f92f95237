"""The all-reduces are few, and most of their time lies within the backward pass."""

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
    collectives,
    parity,
    placement,
    processes,
    races,
    structure,
    syncs,
    unmodified,
)
from gpututor.trace.events import Kind
from gpututor.trace.formatting import duration, share

RANKS = 2
MOST_SUMS, LEAST_HIDDEN = 10, 0.6
OWN_WAITS = 2
"""Waits in each rank: the wrapper itself waits in the second step, when it lays out its buckets."""


def reference(
    weights: dict[str, torch.Tensor], inputs: torch.Tensor, targets: torch.Tensor
) -> list[OrderedDict[str, torch.Tensor]]:
    """A single process that takes the rows of both ranks at once."""
    state = {name: tensor.detach().requires_grad_() for name, tensor in weights.items()}
    for step in range(inputs.shape[1]):
        values = inputs[:, step]
        for layer in range(0, len(state), 2):
            values = torch.tanh(values @ state[f"{layer}.weight"].T + state[f"{layer}.bias"])
        loss = (values - targets[:, step]).square().mean()
        gradients = torch.autograd.grad(loss, list(state.values()))
        state = {
            name: (tensor - 0.1 * gradient).detach().requires_grad_()
            for (name, tensor), gradient in zip(state.items(), gradients, strict=True)
        }
    return [OrderedDict((name, tensor.detach()) for name, tensor in state.items()) for _ in range(RANKS)]


def own_gpu(drawn: dict[str, Any], machine: Any) -> list[Any]:
    return [f"cuda:{rank}" for rank in range(RANKS)]


def steps_of(drawn: dict[str, Any]) -> int:
    return int(drawn["inputs"].shape[1])


def sums(drawn: dict[str, Any], machine: Machine) -> tuple[int, int]:
    return steps_of(drawn), MOST_SUMS * steps_of(drawn)


def hidden_time(rank: Call, drawn: dict[str, Any]) -> tuple[int, int]:
    """Nanoseconds of a rank's all-reduces before the end of their step's backward pass, and in all, after step one.

    A backward pass has two products for each layer, but one for the first layer: nothing needs its inputs' gradient.
    """
    products = [event for event in rank.trace if event.kind is Kind.KERNEL and event.name == "aten::mm"]
    each = len(drawn["weights"]) - 1
    passes = [products[first : first + each] for first in range(0, len(products), each)]
    hidden = total = 0
    for event in rank.trace:
        if event.kind is not Kind.COLLECTIVE or "allreduce" not in event.name:
            continue
        begun = [part for part in passes if part[0].start <= event.start]
        if len(begun) > 1:
            total += event.duration
            hidden += max(0, min(event.end, begun[-1][-1].end) - event.start)
    return hidden, total


def after_the_backward_pass(run: Run) -> Finding | None:
    """Find a call in which most of a rank's all-reduce time comes after its backward passes."""
    for call in run.calls:
        for number, rank in enumerate(call.ranks):
            hidden, total = hidden_time(rank, call.drawn)
            if hidden < LEAST_HIDDEN * total or not total:
                part = share(hidden / total) if total else "none"
                got = f"{part} of {duration(total)} in rank {number}"
                sent = [event for event in rank.trace if event.kind is Kind.COLLECTIVE and "allreduce" in event.name]
                line = sent[-1].line if sent else None
                expected = f"at least {share(LEAST_HIDDEN)} of the all-reduces' time within the backward passes"
                return run.finding(call, expected, got, line)
    return None


checks = [
    structure(
        reference,
        why="A checkpoint has to load without the wrapper, which puts `module.` before each name.",
        advice="Return the state dict of the model that you were given, not that of DistributedDataParallel.",
    ),
    placement(
        own_gpu, advice="The starter's first line makes GPU number `rank` the current one. Leave the state there."
    ),
    races(advice="Wait for each all-reduce that you started, before anything reads its result."),
    processes(
        {"allreduce": (1, None)},
        same=("",),
        why="Without the average before each step, every rank trains a model of its own.",
    ),
    parity(
        reference,
        why="The order in which gradients travel must not change the step: it uses all rows of both ranks.",
        advice="Average the gradients of the ranks, once in each step. DistributedDataParallel does this by itself.",
    ),
    collectives(
        {"allreduce": sums},
        why="Each all-reduce has a latency, however small it is. Dozens of tiny ones take longer than a few.",
        advice="Make the buckets larger, or choose their number instead of their size.",
    ),
    Check(
        "hidden",
        lambda _: "Most of the all-reduces' time lies within the backward passes",
        after_the_backward_pass,
        why="While the all-reduces after the backward pass run, the GPUs only wait for the link.",
        advice="Compare the size of a bucket with that of all gradients. Only the last one has nothing to hide behind.",
        on="gpu",
    ),
    syncs(
        at_most=OWN_WAITS * RANKS,
        loop_of="aten::*mm",
        why="One rank that waits for its GPU keeps the other waiting, too.",
        advice="Nothing in the loop needs a value on the CPU: look for .item(), print and .cpu().",
    ),
    unmodified(may_change=("model",)),
]
