"""Pairs of random sizes, and two or three ways to multiply them row by row."""

from __future__ import annotations

from typing import Any

import torch

WAYS = {
    "mul, sum": "(x * y).sum(1)",
    "bmm": "torch.bmm(x[:, None], y[:, :, None])[:, 0, 0]",
    "mm": "torch.mm(x, y.T).diagonal()",
}
CASES = (
    (("mul, sum", "bmm", "mm"), ((640, 160), (70, 90))),
    (("bmm", "mul, sum"), ((333, 77),)),
    (("mm", "mul, sum"), ((60, 40), (1, 150), (3400, 48))),
)
"""Names of ways, and rows and columns of each pair; up to 31 are added to all that are not one.

On every GPU `mm` wins on the small pairs of the last case and loses on the large one.
"""
NUMBER = 10


def draw(seed: int, case: int) -> dict[str, Any]:
    """Return pairs of random sizes, so that no time can be hard-coded."""
    chance = torch.Generator().manual_seed(seed * 10 + case)
    names, sizes = CASES[case]
    pairs = []
    for rows, columns in sizes:
        more = torch.randint(32, (2,), generator=chance).tolist()
        shape = (rows + more[0] if rows > 1 else 1, columns + more[1])
        pairs.append((torch.randn(shape, generator=chance), torch.randn(shape, generator=chance)))
    return {"ways": {name: WAYS[name] for name in names}, "pairs": pairs, "number": NUMBER}


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """Put all pairs on the device."""
    return {**drawn, "pairs": [(x.to(device), y.to(device)) for x, y in drawn["pairs"]]}
