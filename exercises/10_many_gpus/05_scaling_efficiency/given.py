"""A batch and a weight of random sizes, on the CPU, so that no time is known in advance."""

from __future__ import annotations

from typing import Any

import torch

SIZES = ((1500, 1100, 1000), (641, 280, 257), (1180, 40, 1300))
"""The least rows, inner size and columns. The first product keeps the fastest GPUs busy for longer than launches take;
the last one is mostly a result, which is slow to bring together."""


def draw(seed: int, case: int) -> dict[str, Any]:
    """Draw in double precision, which a T4 computes slowly: small matrices keep it busy for a millisecond."""
    chance = torch.Generator().manual_seed(seed * 10 + case)
    rows, inner, columns = SIZES[case]
    rows += int(torch.randint(120, (1,), generator=chance))
    columns += int(torch.randint(90, (1,), generator=chance))
    return {
        "batch": torch.randn(rows, inner, generator=chance, dtype=torch.float64),
        "weight": torch.randn(inner, columns, generator=chance, dtype=torch.float64),
    }


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """Everything stays on the CPU."""
    return dict(drawn)
