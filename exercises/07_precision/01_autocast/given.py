"""An encoder with large features, a head that makes small logits of them, and a batch."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

SIZES = ((16, 24, 32, 40, 10), (7, 13, 48, 33, 5), (1, 9, 40, 64, 12), (33, 1, 24, 50, 17))
"""Rows, inputs, hidden units, features and classes for each case."""
SPREAD = 400.0
"""Features are about this large; the square of 256 is more than float16 holds."""


def draw(seed: int, case: int) -> dict[str, Any]:
    """The weights of both models by name, and a batch."""
    chance = torch.Generator().manual_seed(seed * 10 + case)
    rows, inputs, hidden, features, classes = SIZES[case]
    encoder = {
        "0.weight": (hidden, inputs),
        "0.bias": (hidden,),
        "1.weight": (hidden,),
        "1.bias": (hidden,),
        "3.weight": (features, hidden),
        "3.bias": (features,),
    }
    weights = {name: torch.randn(shape, generator=chance) for name, shape in encoder.items()}
    weights["3.weight"] *= SPREAD / hidden**0.5
    weights["3.bias"] *= SPREAD / 4
    head = {
        "weight": torch.randn(classes, features, generator=chance) * 0.5 / (SPREAD * features**0.5),
        "bias": torch.randn(classes, generator=chance) * 0.5,
    }
    return {"encoder": weights, "head": head, "batch": torch.randn(rows, inputs, generator=chance)}


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """Both models and the batch, on the device. Nothing trains here, so nothing needs gradients."""
    (hidden, inputs), features = drawn["encoder"]["0.weight"].shape, drawn["encoder"]["3.weight"].shape[0]
    encoder = nn.Sequential(nn.Linear(inputs, hidden), nn.LayerNorm(hidden), nn.GELU(), nn.Linear(hidden, features))
    encoder.load_state_dict(drawn["encoder"])
    head = nn.Linear(features, drawn["head"]["weight"].shape[0])
    head.load_state_dict(drawn["head"])
    encoder, head = encoder.to(device).requires_grad_(False), head.to(device).requires_grad_(False)
    return {"encoder": encoder, "head": head, "batch": drawn["batch"].to(device)}
