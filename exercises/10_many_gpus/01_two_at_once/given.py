"""Pairs of matrices that take turns on the GPUs."""

from __future__ import annotations

from typing import Any

import torch

SIZES = (
    ((1250, 1200, 1150), (1200, 1250, 1200)),
    ((281, 333, 317), (577, 295, 313), (285, 307, 329)),
    ((1500, 1, 1400), (1450, 1, 1500)),
)
"""Rows, inner size and columns of each product, for each case. The first ones keep the fastest GPUs busy for longer
than launches take; the last ones have an inner size of one."""


def draw(seed: int, case: int) -> dict[str, Any]:
    """Two or three pairs of matrices, with elements of both signs."""
    chance = torch.Generator().manual_seed(seed * 10 + case)
    pairs = [
        (
            torch.randn(rows, inner, generator=chance, dtype=torch.float64),
            torch.randn(inner, columns, generator=chance, dtype=torch.float64),
        )
        for rows, inner, columns in SIZES[case]
    ]
    return {"pairs": pairs}


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """Put pair number i on GPU number i, modulo the number of GPUs.

    Each GPU has computed a product and allocated memory before: the first of each costs more.
    """
    gpus = max(torch.cuda.device_count(), 1) if device.type == "cuda" else 1
    places = [torch.device("cuda", index) for index in range(gpus)] if device.type == "cuda" else [device]
    pairs = [
        (left.to(places[index % gpus]), right.to(places[index % gpus]))
        for index, (left, right) in enumerate(drawn["pairs"])
    ]
    for left, right in pairs:
        torch.linalg.vector_norm(left[:1] @ right[:, :1])
        left.new_empty(len(left), right.shape[1])
    return {"pairs": pairs}
