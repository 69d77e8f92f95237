"""The values of AdamW by its formulas, and few more launches than forward and backward need."""

from __future__ import annotations

from typing import Any

import torch

from gpututor.checks import (
    Check,
    Finding,
    Machine,
    Run,
    after_call,
    launches,
    parity,
    placement,
    structure,
    syncs,
    transfers,
    unmodified,
)

DECAY = 0.05
BETAS = (0.9, 0.999)
EPSILON = 1e-8
MORE = 11
"""Launches of a step beyond those of the layers: a mean squared error that is written out needs eight, the update one
to three."""
Batches = list[tuple[torch.Tensor, torch.Tensor]]


def reference(state: dict[str, torch.Tensor], batches: Batches, learning_rate: float) -> torch.Tensor:
    """Return the losses."""
    return torch.stack(steps(state, batches, learning_rate)[1])


def trained(state: dict[str, torch.Tensor], batches: Batches, learning_rate: float) -> dict[str, torch.Tensor]:
    """Return the parameters after the last step, by their paths."""
    return {f"model.{name}": weight.detach() for name, weight in steps(state, batches, learning_rate)[0].items()}


def steps(
    state: dict[str, torch.Tensor], batches: Batches, learning_rate: float
) -> tuple[dict[str, torch.Tensor], list[torch.Tensor]]:
    """AdamW by the formulas of Loshchilov and Hutter: decay, two moments without bias, and the step."""
    weights = {name: weight.clone().requires_grad_() for name, weight in state.items()}
    moments = {name: (torch.zeros_like(weight), torch.zeros_like(weight)) for name, weight in state.items()}
    losses = []
    for number, (inputs, targets) in enumerate(batches, 1):
        hidden = inputs
        for layer in range(0, len(state), 2):
            hidden = torch.tanh(hidden) if layer else hidden
            hidden = hidden @ weights[f"{layer}.weight"].T + weights[f"{layer}.bias"]
        loss = (hidden - targets).square().mean()
        losses.append(loss.detach())
        gradients = torch.autograd.grad(loss, list(weights.values()))
        with torch.no_grad():
            for (name, weight), gradient in zip(weights.items(), gradients, strict=True):
                mean, square = moments[name]
                mean.lerp_(gradient, 1 - BETAS[0])
                square.mul_(BETAS[1]).add_((1 - BETAS[1]) * gradient * gradient)
                weight.mul_(1 - learning_rate * DECAY)
                spread = (square / (1 - BETAS[1] ** number)).sqrt() + EPSILON
                weight.sub_(learning_rate * mean / (1 - BETAS[0] ** number) / spread)
    return weights, losses


def most(drawn: dict[str, Any], machine: Machine) -> tuple[int, int]:
    """Return the least and the most launches of a call; the first step also makes three tensors a parameter."""
    parameters, count = len(drawn["state"]), len(drawn["batches"])
    layers = parameters // 2
    forward = 2 * layers - 1  # products, and activations between them
    backward = 4 * layers - 1  # two products a layer but one in the first, sums, activations, and the gradient 1
    return count, count * (forward + backward + MORE) + 3 * parameters + 1


def once_a_step(drawn: dict[str, Any], machine: Machine) -> tuple[int, int]:
    """Return the bounds for kernels of all parameters: a fused update counts its steps with one."""
    return 0, len(drawn["batches"])


def with_a_graph(run: Run) -> Finding | None:
    """Find losses that still have their graph."""
    for call in run.calls:
        if call.output.fact.requires_grad:
            return Finding(
                "losses that require no gradients", f"they require gradients{run.which(call)}", run.line_of(call)
            )
    return None


checks = [
    structure(reference, advice="torch.stack joins the detached losses of all steps."),
    placement(advice="Leave the losses on the device."),
    syncs(
        at_most=0,
        why="A loss that is read in the loop makes the host wait for the whole step.",
        advice="Collect loss.detach() in a list, and join the losses with torch.stack after the loop.",
    ),
    transfers(to_device=0, to_host=0, why="Everything is on the device already.", advice="Copy nothing."),
    unmodified(may_change=("model",)),
    parity(
        reference,
        why="The fused update is the same AdamW: each step's moments build on those of the step before.",
        advice="One AdamW before the loop, weight_decay=0.05. In the loop: zero_grad, forward, loss, backward, step.",
    ),
    after_call(
        trained,
        why="Training is about the parameters, and decay and moments show in them.",
        advice="AdamW, not Adam: its decay does not pass through the moments. Step after backward, in each step.",
    ),
    Check(
        "graph",
        lambda machine: "Its losses have no graph",
        with_a_graph,
        needs=("structure",),
        why="A loss with its graph keeps all activations of its step in memory.",
        advice="Append loss.detach().",
    ),
    launches(
        most,
        by_name={"aten::_foreach_*": once_a_step},
        why="If each operation on each parameter is a kernel, the update launches more than the model itself.",
        advice="An argument of torch.optim.AdamW turns the whole update into one kernel.",
    ),
]
