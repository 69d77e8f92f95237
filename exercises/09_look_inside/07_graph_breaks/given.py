"""Batches whose norms differ, and a limit between them."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

SIZES = ((6, 5, 16), (8, 1, 7), (5, 12, 33))
"""Steps, rows and columns of a batch for each case."""


def draw(seed: int, case: int) -> dict[str, Any]:
    """Batches of small and large numbers in a random order; about half of their norms are above the limit."""
    chance = torch.Generator().manual_seed(seed * 10 + case)
    steps, rows, columns = SIZES[case]
    scales = torch.linspace(0.4, 3.0, steps)[torch.randperm(steps, generator=chance)]
    batches = torch.randn(steps, rows, columns, generator=chance) * scales[:, None, None]
    norms = functional.gelu(batches).flatten(1).norm(dim=1).sort().values
    # Between the two norms that are farthest apart, so that rounding decides nothing.
    gap = int((norms[1:] / norms[:-1])[1:-1].argmax()) + 1
    return {"batches": batches, "limit": float(norms[gap : gap + 2].mean())}


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """Put the batches on the device."""
    return {**drawn, "batches": drawn["batches"].to(device)}
