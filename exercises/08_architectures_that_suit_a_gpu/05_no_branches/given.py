"""Gradients of some samples: short rows, long rows, rows with inf or nan."""

from __future__ import annotations

from typing import Any

import torch

SIZES = ((12, 6, 3), (9, 5, 5), (1, 1, 0), (8, 7, 4))
"""Rows, their size, how many of them are bad: a few, more than half, none, exactly half."""
BAD_VALUES = (float("nan"), float("inf"), -float("inf"))


def draw(seed: int, case: int) -> dict[str, Any]:
    """Norms from a thousandth of the limit to a thousand times the limit."""
    chance = torch.Generator().manual_seed(seed * 10 + case)
    samples, size, bad = SIZES[case]
    limit = round(0.5 + 2.0 * float(torch.rand((), generator=chance)), 3)
    rows = torch.randn(samples, size, generator=chance)
    rows /= rows.norm(dim=1, keepdim=True)
    powers = 6.0 * torch.rand(samples, 1, generator=chance) - 3.0
    if samples > 1:
        powers[-1], powers[-2] = powers[-1].abs() + 0.1, -powers[-2].abs() - 0.1
    else:
        powers = powers.abs() + 0.1
    rows *= limit * 10.0**powers
    # The last two rows stay good: one is too long, the other short.
    for number, row in enumerate(torch.randperm(max(samples - 2, 1), generator=chance)[:bad].tolist()):
        rows[row, int(torch.randint(size, (), generator=chance))] = BAD_VALUES[number % 3]
    return {"gradients": rows, "limit": limit}


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """The gradients are on the device."""
    return {"gradients": drawn["gradients"].to(device), "limit": drawn["limit"]}
