"""Vectors and a table, for exact products and for those that may be off a little."""

from __future__ import annotations

from typing import Any

import torch

SIZES = ((256, 1024, 1024, False), (64, 512, 512, True), (1, 384, 131, True), (320, 1024, 896, False))
"""For each case: how many vectors, their length, the table's rows, and whether it has to be exact."""


def draw(seed: int, case: int) -> dict[str, Any]:
    """Numbers of both signs, some larger than others."""
    chance = torch.Generator().manual_seed(seed * 10 + case)
    count, length, rows, exact = SIZES[case]
    matrix = torch.randn(count, length, generator=chance) * torch.rand(count, 1, generator=chance).add(0.5)
    table = torch.randn(rows, length, generator=chance) * 4
    return {"vectors": list(matrix), "table": table, "exact": exact}


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """All vectors and the table on the device, on which a product has been made before: the first one costs more."""
    torch.ones(8, 8, device=device) @ torch.ones(8, 8, device=device)
    rows = torch.stack(drawn["vectors"]).to(device)
    return {"vectors": list(rows.unbind()), "table": drawn["table"].to(device), "exact": drawn["exact"]}
