"""Two tensors of the same shapes in every call, on the CPU, and the device."""

from __future__ import annotations

from typing import Any

import torch


def draw(seed: int, case: int) -> dict[str, Any]:
    chance = torch.Generator().manual_seed(seed * 10 + case)
    return {"table": torch.randn(24, 16, generator=chance), "queries": torch.randn(8, 16, generator=chance)}


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    return {**drawn, "device": device}
