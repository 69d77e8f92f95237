"""Pictures of a few classes in host memory, and a small conv net with normalization, on the CPU."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.utils.data import TensorDataset

CASES = (
    {"training": 20, "validation": 9, "batch": 8, "side": 12, "classes": 3, "rates": [0.2], "shift": 0},
    {"training": 22, "validation": 9, "batch": 8, "side": 9, "classes": 4, "rates": [0.2, 0.3, 0.5], "shift": 1},
    {"training": 24, "validation": 10, "batch": 9, "side": 10, "classes": 3, "rates": [0.1, 0.02, 0.4], "shift": 0},
)
"""Epoch 1 trains on inverted pictures, which makes the loss worse. If labels are shifted by one class, it is the only
epoch that makes the loss better. So the best epoch is the only epoch, the middle one or the last."""
FILTERS = 8
SPREAD = {"0": 3.0, "5": 0.5}
"""Scale of the weights, by layer: gradients, 65,536 times as large, must stay in float16's range."""


def network(classes: int) -> nn.Sequential:
    """The network, with any weights."""
    return nn.Sequential(
        nn.Conv2d(3, FILTERS, 3, padding=1),
        nn.BatchNorm2d(FILTERS),
        nn.Tanh(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(4 * FILTERS, classes),
    )


def pictures(count: int, classes: int, side: int, chance: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Pictures whose brightness shows the class, with noise, and about as many of each class."""
    labels = torch.randperm(count, generator=chance) % classes
    brightness = labels.float().view(-1, 1, 1, 1) / (classes - 1) * 150
    noise = torch.rand(count, 3, side, side, generator=chance) * 100
    return (brightness + noise).to(torch.uint8), labels


def draw(seed: int, case: int) -> dict[str, Any]:
    """Both sets, the weights, and the settings."""
    chance = torch.Generator().manual_seed(seed * 10 + case)
    chosen = CASES[case]
    classes, side = chosen["classes"], chosen["side"]
    training, training_labels = pictures(chosen["training"], classes, side, chance)
    validation, validation_labels = pictures(chosen["validation"], classes, side, chance)
    weights = network(classes).state_dict()
    for name, tensor in weights.items():
        if name[0] in SPREAD:
            fan = tensor[0].numel() if tensor.ndim > 1 else 16
            weights[name] = SPREAD[name[0]] * torch.randn(tensor.shape, generator=chance) / fan**0.5
    maps = nn.functional.conv2d(training / 255, weights["0.weight"], weights["0.bias"], padding=1)
    weights["1.running_mean"], weights["1.running_var"] = maps.mean((0, 2, 3)), maps.var((0, 2, 3))
    return {
        "weights": dict(weights),
        "training": training,
        "training_labels": (training_labels + chosen["shift"]) % classes,
        "validation": validation,
        "validation_labels": validation_labels,
        "rates": chosen["rates"],
        "batch_size": chosen["batch"],
    }


def mark_old_gradients(model: nn.Sequential) -> None:
    """Mark each backward pass that adds to gradients of an earlier one: the losses hardly show it."""
    bias = model[-1].bias

    def mark(_: torch.Tensor) -> None:
        if bias.grad is not None:
            torch.cuda.nvtx.mark("backward pass on old gradients")

    bias.register_hook(mark)


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """The network and the data sets, on the CPU."""
    model = network(len(drawn["weights"]["5.bias"]))
    model.load_state_dict(drawn["weights"])
    mark_old_gradients(model)
    return {
        "model": model,
        "training": TensorDataset(drawn["training"], drawn["training_labels"]),
        "validation": TensorDataset(drawn["validation"], drawn["validation_labels"]),
        "rates": list(drawn["rates"]),
        "batch_size": drawn["batch_size"],
        "device": device,
    }
