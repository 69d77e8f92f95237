"""A wide matrix on the device."""

from __future__ import annotations

from typing import Any

import torch


def draw(seed: int, case: int) -> dict[str, Any]:
    chance = torch.Generator().manual_seed(seed * 10 + case)
    return {"matrix": torch.randn(8, 1000, generator=chance)}


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    return {"matrix": drawn["matrix"].to(device)}
