"""Indices that a launcher could pass: valid, too large, and -1 for the CPU."""

from __future__ import annotations


def draw(seed: int, case: int) -> dict[str, object]:
    """An index for each case; the fourth is random and far too large."""
    return {"index": [0, 1, 2, 3 + seed % 5, -1][case]}
