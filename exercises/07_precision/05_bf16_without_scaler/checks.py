"""The right losses and the right small changes; products in bfloat16, and the rest in float32."""

from __future__ import annotations

import torch
from torch.nn import functional

from gpututor.checks import launches, parity, placement, precision, structure, syncs, unmodified
from gpututor.checks.model import Check, Finding, Run, tensors_by_path

RATE = 2e-3
MOVED_ERROR = 0.1
"""Relative error of the weights' changes: products in bfloat16 are within 0.02, updates in bfloat16 lose most."""


def trained(
    weights: dict[str, torch.Tensor], batches: torch.Tensor, labels: torch.Tensor
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Losses and weights of a training in the dtype of the inputs."""
    state = {name: weight.clone().requires_grad_() for name, weight in weights.items()}
    losses = []
    for batch, wanted in zip(batches, labels, strict=True):
        hidden = (batch @ state["0.weight"].T + state["0.bias"]).tanh()
        loss = functional.cross_entropy(hidden @ state["2.weight"].T + state["2.bias"], wanted)
        slopes = torch.autograd.grad(loss, list(state.values()))
        with torch.no_grad():
            for weight, slope in zip(state.values(), slopes, strict=True):
                weight -= RATE * slope
        losses.append(loss.detach())
    return torch.stack(losses), {name: weight.detach() for name, weight in state.items()}


def reference(weights: dict[str, torch.Tensor], batches: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The loss of each step."""
    return trained(weights, batches, labels)[0]


def find_narrow(run: Run) -> Finding | None:
    """Find a parameter that is no longer float32."""
    for call in run.calls:
        for path, tensor in tensors_by_path(call.state["model"]).items():
            if tensor.fact.dtype != "float32":
                got = f"model.{path} is {tensor.fact.dtype}{run.which(call)}"
                return Finding("each parameter of the model in float32", got, run.line_of(call))
    return None


def find_other_changes(run: Run) -> Finding | None:
    """Compare how far the weights moved with the same training in float64."""
    for call in run.calls:
        before = {name: weight.double() for name, weight in call.drawn["weights"].items()}
        _, after = trained(before, call.drawn["batches"].double(), call.drawn["labels"])
        now = tensors_by_path(call.state["model"])
        for name, weight in after.items():
            wanted = weight - before[name]
            moved = now[name].values.double() - before[name]
            error = float((moved - wanted).norm() / wanted.norm())
            if not error <= MOVED_ERROR:
                got = f"model.{name} moved by {float(moved.norm()):.2e} in total, {error:.0%} off{run.which(call)}"
                expected = f"model.{name} moves by {float(wanted.norm()):.2e} in total, within {MOVED_ERROR:.0%}"
                return Finding(expected, got, run.line_of(call))
    return None


def find_graph(run: Run) -> Finding | None:
    for call in run.calls:
        if call.output.fact.requires_grad:
            got = f"losses that need gradients{run.which(call)}"
            return Finding("losses without an autograd graph", got, run.line_of(call))
    return None


checks = [
    structure(
        reference,
        why="Losses are compared and added up. In bfloat16, 2.01 and 2.02 are the same number.",
        advice="torch.stack of the losses, one for each step. cross_entropy(scores.float(), …) is float32.",
    ),
    placement("device", advice="Detach each loss, and leave it on the GPU."),
    parity(
        reference,
        inside=torch.bfloat16,
        advice="One step for each batch, in order; each loss comes from the forward pass before the update.",
    ),
    Check(
        "weights",
        lambda _: "The weights stay float32",
        find_narrow,
        ("structure", "parity"),
        "An update is far smaller than the last digit of a bfloat16 weight: it would be rounded away.",
        "Do not convert the model. torch.autocast makes temporary bfloat16 copies of the weights.",
        wants=("arguments",),
        kind="values",
    ),
    Check(
        "updates",
        lambda _: "The weights move as far as in float32",
        find_other_changes,
        ("structure", "parity"),
        "Training is the sum of many small updates. Each must reach the weights.",
        "Each step: zero the gradients, backward, optimizer.step(), and float32 weights all the time.",
        wants=("arguments",),
        kind="values",
    ),
    precision(
        {"aten::*mm": "bfloat16", "aten::_log_softmax|aten::logsumexp|aten::exp": "float32"},
        why="Products suffer little from few digits. A sum of exponentials in bfloat16 suffers a lot.",
        advice="Forward pass inside torch.autocast('cuda', dtype=torch.bfloat16); widen the scores before the loss.",
    ),
    launches(
        by_name={"aten::_amp_*": 0},
        name="no_scaler",
        why="A scaler keeps gradients from becoming zero in float16. bfloat16 reaches down to 1e-38, as float32 does.",
        advice="loss.backward() and optimizer.step(), as in float32.",
    ),
    syncs(
        at_most=0,
        why="Without a scaler, no step needs a value on the host.",
        advice="Keep each loss as a tensor; do not read it.",
    ),
    Check(
        "no_graph",
        lambda _: "The losses carry no autograd graph",
        find_graph,
        ("structure",),
        "A loss with its graph keeps each step's activations in memory.",
        "Collect loss.detach().",
    ),
    unmodified(may_change=("model", "optimizer")),
]
