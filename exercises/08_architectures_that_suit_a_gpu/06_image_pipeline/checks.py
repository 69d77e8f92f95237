"""The same training as on the CPU, with little on the bus, one wait, and no time lost."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from gpututor.checks import launches, parity, placement, speed, structure, syncs, transfers
from gpututor.checks.model import Check, Finding, Run
from gpututor.protocol.values import ObservedTensor

RATE = 0.1
"""Learning rate."""


def reference(
    weights: dict[str, torch.Tensor], images: torch.Tensor, labels: torch.Tensor, epochs: int, batch_size: int
) -> dict[str, Any]:
    """Layers as functions, and the step of gradient descent written out."""
    now = {name: weight.detach().clone().requires_grad_() for name, weight in weights.items()}
    pixels, losses = images.to(now["0.weight"].dtype) / 255, []
    for first in [*range(0, len(images), batch_size)] * epochs:
        x = functional.conv2d(pixels[first : first + batch_size], now["0.weight"], now["0.bias"], padding=1)
        x = functional.conv2d(functional.max_pool2d(x.relu(), 2), now["3.weight"], now["3.bias"], padding=1)
        scores = functional.linear(x.relu().mean(dim=(2, 3)), now["7.weight"], now["7.bias"])
        chosen = labels[first : first + batch_size].unsqueeze(1)
        loss = -scores.log_softmax(dim=1).gather(1, chosen).mean()
        slopes = torch.autograd.grad(loss, list(now.values()))
        now = {
            name: (weight - RATE * slope).detach().requires_grad_()
            for (name, weight), slope in zip(now.items(), slopes, strict=True)
        }
        losses.append(loss.detach())
    model = nn.Sequential(
        *(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, padding=1), nn.ReLU()),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, len(now["7.bias"]))),
    ).to(pixels.dtype)
    model.load_state_dict(now)
    return {"model": model, "losses": torch.stack(losses)}


def bytes_needed(drawn: dict[str, Any], machine: Any) -> tuple[int, int]:
    """Weights, pixels as bytes, labels."""
    every = [*drawn["weights"].values(), drawn["images"], drawn["labels"]]
    return 0, sum(int(tensor.nbytes) for tensor in every)


def copies_needed(drawn: dict[str, Any], machine: Any) -> tuple[int, int]:
    """A copy for each tensor."""
    return 1, len(drawn["weights"]) + 2


def convolutions_needed(drawn: dict[str, Any], machine: Any) -> tuple[int, int]:
    """Two and their backward passes for each step: 4 launches; a step that is replayed as a graph counts once."""
    steps = drawn["epochs"] * -(-len(drawn["images"]) // drawn["batch_size"])
    return steps, 40 + 8 * steps


def graph_found(run: Run) -> Finding | None:
    for call in run.calls:
        losses = call.output["losses"]
        if isinstance(losses, ObservedTensor) and losses.fact.requires_grad:
            return Finding(
                expected="losses without an autograd graph",
                got=f"losses that need gradients{run.which(call)}",
                line=run.line_of(call),
            )
    return None


checks = [
    structure(
        reference,
        advice="One loss for each step, the smaller last batch included, and the module itself under 'model'.",
    ),
    placement(
        outputs={"model": "device", "losses": "cpu"},
        why="Training continues where the model is. The losses are for the host, to be plotted.",
        advice="Move the model before the loop, and copy the losses to the CPU after it, together.",
    ),
    syncs(
        at_most=1,
        why="If each step reads its loss, the host waits for the device, and then the device for the host.",
        advice="Append loss.detach(), which stays on the device; stack and copy once, after the loop.",
    ),
    transfers(
        to_device=copies_needed,
        bytes_to_device=bytes_needed,
        to_host=1,
        why="Each batch that is moved by itself pays a copy's latency again, and a float pixel is four bytes wide.",
        advice="Load, then move the model, once; move images (uint8) and labels whole, and convert batches there.",
    ),
    Check(
        "no_graph",
        lambda _: "The losses carry no autograd graph",
        graph_found,
        ("structure",),
        "A list of losses with their graphs keeps a part of every step in memory.",
        "Append loss.detach().",
    ),
    launches(
        by_name={"aten::*conv*": convolutions_needed},
        why="Each step belongs on the device. Without convolutions there, the CPU did the training.",
        advice="Move the model, the images and the labels before the loop.",
        on=lambda machine: machine.virtual and machine.device != "cpu",
    ),
    speed(
        1.25,
        compared_with="a good solution",
        why="All steps are small, so launches take most of the time: each operator that is not needed counts.",
        advice="One forward and one backward pass for each batch, and no work whose result is not used.",
    ),
    parity(
        reference,
        advice="Batches in order, pixels / 255, gradients cleared in each step, plain SGD with lr=RATE.",
    ),
]
