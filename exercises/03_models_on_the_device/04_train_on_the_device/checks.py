"""State, gradients and momentum on the device, no wait in the loop, and the values of textbook SGD."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from gpututor.checks import (
    Check,
    Finding,
    Machine,
    Run,
    after_call,
    parity,
    placement,
    structure,
    syncs,
    transfers,
    unmodified,
)

STATE = 4
"""Parameters: one copy for each."""
MOMENTUM = 0.9
NAMES = ("0.weight", "0.bias", "2.weight", "2.bias")
Batches = list[tuple[torch.Tensor, torch.Tensor]]


def reference(state: dict[str, torch.Tensor], batches: Batches, learning_rate: float) -> dict[str, Any]:
    """Return the trained classifier, the losses and the momentum."""
    weights, losses, velocity, _ = steps(state, batches, learning_rate)
    return {
        "model": trained(weights),
        "losses": torch.stack(losses),
        "momentum": {number: {"momentum_buffer": speed} for number, speed in enumerate(velocity)},
    }


def last_gradients(state: dict[str, torch.Tensor], batches: Batches, learning_rate: float) -> dict[str, torch.Tensor]:
    """Return the gradient that each parameter holds after the last step."""
    *_, gradients = steps(state, batches, learning_rate)
    return {f"model.{name}.grad": gradient for name, gradient in zip(NAMES, gradients, strict=True)}


def steps(
    state: dict[str, torch.Tensor], batches: Batches, learning_rate: float
) -> tuple[list[torch.Tensor], list[torch.Tensor], list[torch.Tensor], tuple[torch.Tensor, ...]]:
    """SGD with momentum by its formulas: v becomes 0.9 v + gradient, the weights lose learning_rate times v."""
    weights = [state[name].requires_grad_() for name in NAMES]
    velocity = [torch.zeros_like(weight) for weight in weights]
    losses: list[torch.Tensor] = []
    gradients: tuple[torch.Tensor, ...] = ()
    for inputs, labels in batches:
        hidden = torch.tanh(inputs @ weights[0].T + weights[1])
        scores = hidden @ weights[2].T + weights[3]
        right = scores.gather(1, labels[:, None])[:, 0]
        loss = (scores.logsumexp(dim=1) - right).mean()
        gradients = torch.autograd.grad(loss, weights)
        losses.append(loss.detach())
        with torch.no_grad():
            for weight, speed, gradient in zip(weights, velocity, gradients, strict=True):
                speed.mul_(MOMENTUM).add_(gradient)
                weight.sub_(learning_rate * speed)
    return weights, losses, velocity, gradients


def trained(weights: list[torch.Tensor]) -> nn.Module:
    """The classifier with these weights."""
    classes, hidden = weights[2].shape
    model = nn.Sequential(nn.Linear(weights[0].shape[1], hidden), nn.Tanh(), nn.Linear(hidden, classes))
    for parameter, weight in zip(model.parameters(), weights, strict=True):
        parameter.data = weight.detach()
    return model


def with_a_graph(run: Run) -> Finding | None:
    """Find losses that still have an autograd graph."""
    for call in run.calls:
        if call.output["losses"].fact.requires_grad:
            got = f"result['losses'] requires gradients{run.which(call)}"
            return Finding("losses that require no gradients", got, run.line_of(call))
    return None


def copies(drawn: dict[str, Any], machine: Machine) -> tuple[int, int]:
    """Copies of the model and of two tensors for each batch; fewer if all batches cross in one copy."""
    return STATE + 2, STATE + 2 * len(drawn["batches"])


checks = [
    structure(
        reference,
        why="An optimizer has a state only for parameters of its own model, and only after its first step.",
        advice="Give the optimizer the parameters of your model. For each batch: zero_grad, backward, step.",
    ),
    placement(
        outputs="device",
        why="An optimizer's state is made where the parameters are at its first step, and follows no later move.",
        advice="model.to(device) first, then the optimizer, then the loop. Keep the losses on the device.",
    ),
    transfers(
        to_device=copies,
        to_host=0,
        why="Each tensor has to cross only once: the model before the loop, each batch in its own step.",
        advice="Move the model once before the loop, inputs and labels once in it, and bring nothing back.",
    ),
    syncs(
        at_most=0,
        why="A loss that is read in the loop makes the host wait for the whole step, and the device for the host.",
        advice="Collect loss.detach() in a list, and join it with torch.stack after the loop.",
    ),
    unmodified(may_change=("model",)),
    parity(
        reference,
        why="Each gradient comes from one step's batch only, with the weights before that step.",
        advice="In each step: zero_grad, forward, loss, backward, step. Momentum is 0.9; cross-entropy takes a mean.",
    ),
    after_call(
        last_gradients,
        why="Code that logs or clips gradients after a step reads .grad, which is None after zero_grad().",
        advice="Call zero_grad at the beginning of a step, so that .grad stays as it is after the last one.",
    ),
    Check(
        "graph",
        lambda machine: "Its losses have no graph",
        with_a_graph,
        needs=("structure",),
        why="A loss with its graph keeps the nodes of that graph; adding to it makes the graph longer.",
        advice="Append loss.detach().",
    ),
]
