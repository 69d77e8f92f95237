"""Vectors and a table, for exact and for approximate products."""

from __future__ import annotations

from typing import Any

import torch

SIZES = (
    (256, 1024, 1024, False, False),
    (64, 512, 512, True, True),
    (1, 384, 131, True, False),
    (320, 1024, 896, False, True),
)
"""Number and length of the vectors, the table's rows, `exact`, and True if TF32 is on before, for each case."""


def draw(seed: int, case: int) -> dict[str, Any]:
    """Numbers of both signs, some larger than others."""
    chance = torch.Generator().manual_seed(seed * 10 + case)
    count, length, rows, exact, tf32_on = SIZES[case]
    matrix = torch.randn(count, length, generator=chance) * torch.rand(count, 1, generator=chance).add(0.5)
    table = torch.randn(rows, length, generator=chance) * 4
    return {"vectors": list(matrix), "table": table, "exact": exact, "tf32_on": tf32_on}


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """Put vectors and table on the device, make a first product, and set TF32 as other code may have."""
    torch.ones(8, 8, device=device) @ torch.ones(8, 8, device=device)
    torch.set_float32_matmul_precision("high" if drawn["tf32_on"] else "highest")
    rows = torch.stack(drawn["vectors"]).to(device)
    return {"vectors": list(rows.unbind()), "table": drawn["table"].to(device), "exact": drawn["exact"]}
