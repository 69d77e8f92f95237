"""The arguments of a run: ordinary, odd, and one step with a batch of one."""

from __future__ import annotations

from typing import Any

STEPS_AND_BATCH = ((5, 128), (4, 45), (1, 1))


def draw(seed: int, case: int) -> dict[str, Any]:
    """Another seed for each case: it decides on images, labels and the first weights."""
    steps, batch = STEPS_AND_BATCH[case]
    chosen = (seed * 10 + case) % 2**31
    return {"argv": ["--seed", str(chosen), "--steps", str(steps), "--batch", str(batch)]}
