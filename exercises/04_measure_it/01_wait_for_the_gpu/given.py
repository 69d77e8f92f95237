"""Matrices of random sizes, so that no time can be hard-coded: large, odd, and one column."""

from __future__ import annotations

from typing import Any

import torch

SIZES = ((420, 400, 440), (451, 333, 397), (1200, 1100, 1))
"""Rows, inner size and columns for each case; up to 63 are added to all but the one column."""
TIMES = (5, 3, 4)


def draw(seed: int, case: int) -> dict[str, Any]:
    """Two matrices, and how often their product is timed."""
    chance = torch.Generator().manual_seed(seed * 10 + case)
    more = torch.randint(64, (3,), generator=chance).tolist()
    rows, inner, columns = (size + extra if size > 1 else 1 for size, extra in zip(SIZES[case], more, strict=True))
    return {
        "a": torch.randn(rows, inner, generator=chance),
        "b": torch.randn(inner, columns, generator=chance),
        "times": TIMES[case],
    }


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """Put both matrices on the device."""
    return {"a": drawn["a"].to(device), "b": drawn["b"].to(device), "times": drawn["times"]}
