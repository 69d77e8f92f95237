"""A matrix on the device, and how often it is multiplied."""

from __future__ import annotations

from typing import Any

import torch


def draw(seed: int, case: int) -> dict[str, Any]:
    chance = torch.Generator().manual_seed(seed * 10 + case)
    return {"matrix": torch.randn(256, 256, generator=chance) / 16}


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    return {"matrix": drawn["matrix"].to(device)}
