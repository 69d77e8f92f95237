"""Matrices of several shapes: more columns than a block, fewer, and a single row."""

from __future__ import annotations

from typing import Any

import torch

SIZES = ((40, 136), (71, 48), (1, 100))


def draw(seed: int, case: int) -> dict[str, Any]:
    """A matrix whose elements all differ."""
    chance = torch.Generator().manual_seed(seed * 10 + case)
    return {"x": torch.randn(SIZES[case], generator=chance)}


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """The matrix on the device."""
    return {"x": drawn["x"].to(device)}
