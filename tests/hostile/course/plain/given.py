"""Numbers on the device."""

from __future__ import annotations

from typing import Any

import torch


def draw(seed: int, case: int) -> dict[str, Any]:
    return {"numbers": torch.rand(9 + case, generator=torch.Generator().manual_seed(seed * 10 + case)) + 1}


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    return {"numbers": drawn["numbers"].to(device)}
