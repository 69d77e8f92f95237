"""The arguments of a run: ordinary, odd, and a single step."""

from __future__ import annotations

from typing import Any

STEPS_AND_BATCH = ((4, 8), (3, 5), (1, 9))
"""A single step is the tightest for memory: the script keeps no graph of earlier steps. Good code needs 0.32 of it."""


def draw(seed: int, case: int) -> dict[str, Any]:
    """Another seed for each case: it decides on the text and the first weights."""
    steps, batch = STEPS_AND_BATCH[case]
    chosen = (seed * 10 + case) % 2**31
    return {"argv": ["--seed", str(chosen), "--steps", str(steps), "--batch", str(batch)]}
