"""A network that is much wider inside than its rows, with gradients left over from an older step."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

SIZES = ((192, 6, 5, 32), (107, 5, 3, 48), (32, 4, 1, 32), (4, 3, 2, 1))
"""Samples, inputs, outputs and samples of a piece for each case: some last pieces are small, one is the only one."""
WIDE = 64


def draw(seed: int, case: int) -> dict[str, Any]:
    """Return the network's state, the batch, its targets, and the gradients of an older step."""
    chance = torch.Generator().manual_seed(seed * 10 + case)
    samples, inputs, outputs, piece = SIZES[case]
    shapes = {"0.weight": (WIDE, inputs), "0.bias": (WIDE,), "2.weight": (outputs, WIDE), "2.bias": (outputs,)}
    state = {name: torch.randn(shape, generator=chance) / 3 for name, shape in shapes.items()}
    scale = torch.linspace(0.5, 3, samples).unsqueeze(1)  # later samples weigh more: pieces differ
    return {
        "state": state,
        "old": {name: torch.randn(shape, generator=chance) for name, shape in shapes.items()},
        "batch": scale * torch.randn(samples, inputs, generator=chance),
        "targets": 1 + scale * torch.rand(samples, outputs, generator=chance),
        "piece": piece,
    }


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """The network with its state and its old gradients, and the tensors, on the device."""
    inputs, outputs = drawn["batch"].shape[1], drawn["targets"].shape[1]
    model = nn.Sequential(nn.Linear(inputs, WIDE), nn.Tanh(), nn.Linear(WIDE, outputs))
    model.load_state_dict(drawn["state"])
    model.to(device)
    for name, parameter in model.named_parameters():
        parameter.grad = drawn["old"][name].to(device)
    batch, targets = drawn["batch"].to(device), drawn["targets"].to(device)
    return {"model": model, "batch": batch, "targets": targets, "piece": drawn["piece"]}
