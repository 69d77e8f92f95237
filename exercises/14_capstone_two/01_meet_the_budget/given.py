"""The arguments of a run: ordinary, odd, and a single step."""

from __future__ import annotations

from typing import Any

STEPS_AND_BATCH = ((4, 8), (3, 5), (1, 2))


def draw(seed: int, case: int) -> dict[str, Any]:
    """Another seed for each case: it decides on the text and the first weights."""
    steps, batch = STEPS_AND_BATCH[case]
    chosen = (seed * 10 + case) % 2**31
    return {"argv": ["--seed", str(chosen), "--steps", str(steps), "--batch", str(batch)]}
