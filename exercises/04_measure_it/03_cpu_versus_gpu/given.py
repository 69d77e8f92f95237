"""Matrices in float64 of random sizes, so that no time can be hard-coded: nearly square, odd, oblong."""

from __future__ import annotations

from typing import Any

import torch

SIZES = ((400, 420, 380), (451, 433, 377), (380, 700, 430))
"""Rows, inner size and columns for each case; up to 63 are added to each."""


def draw(seed: int, case: int) -> dict[str, Any]:
    """Return positive values: no sum cancels to almost nothing, and rounding shows."""
    chance = torch.Generator().manual_seed(seed * 10 + case)
    more = torch.randint(64, (3,), generator=chance).tolist()
    rows, inner, columns = (size + extra for size, extra in zip(SIZES[case], more, strict=True))
    return {
        "a": torch.rand(rows, inner, generator=chance, dtype=torch.float64),
        "b": torch.rand(inner, columns, generator=chance, dtype=torch.float64),
    }


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """Leave both matrices on the CPU, and add the device."""
    return {**drawn, "device": device}
