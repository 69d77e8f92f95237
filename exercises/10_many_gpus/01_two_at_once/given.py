"""Pairs of matrices that take turns on the GPUs."""

from __future__ import annotations

from typing import Any

import torch

SIZES = (
    ((352, 320, 384), (336, 352, 352)),
    ((281, 333, 317), (577, 295, 313), (285, 307, 329)),
    ((1500, 1, 1400), (1450, 1, 1500)),
)
"""For each case: rows, inner size and columns of each product. The last ones have an inner size of one."""


def draw(seed: int, case: int) -> dict[str, Any]:
    """Two or three pairs. Both signs: no element of a product is like another."""
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
    """Pair number i goes to GPU number i, from the start again when there are no more."""
    gpus = max(torch.cuda.device_count(), 1) if device.type == "cuda" else 1
    places = [torch.device("cuda", index) for index in range(gpus)] if device.type == "cuda" else [device]
    return {
        "pairs": [
            (left.to(places[index % gpus]), right.to(places[index % gpus]))
            for index, (left, right) in enumerate(drawn["pairs"])
        ]
    }
