"""The right rows, chosen on the device."""

from __future__ import annotations

import math

import torch

from gpututor.checks import launches, parity, placement, structure, syncs, transfers


def reference(gradients: torch.Tensor, limit: float) -> dict[str, torch.Tensor]:
    """Row by row, with every `if` that the task describes."""
    rows, bad = [], 0
    for row in gradients.tolist():
        norm = math.hypot(*row)
        if not math.isfinite(norm):
            bad += 1
            row = [0.0] * len(row)
        elif norm > limit:
            row = [value * limit / norm for value in row]
        rows.append(row)
    if 2 * bad > len(rows):
        rows = [[0.0] * len(row) for row in rows]
    return {"gradients": torch.tensor(rows, dtype=gradients.dtype), "bad": torch.tensor(bad)}


checks = [
    structure(
        reference,
        advice="The count is an int64 tensor without dimensions; it may stay a tensor.",
    ),
    placement(
        outputs="device",
        why="The optimizer's step runs where the parameters are, and needs the gradients there.",
        advice="Nothing has to move: every step of this can be done where the gradients are.",
    ),
    syncs(
        at_most=0,
        why="A guard runs at every step. If the host waits in it, the device runs out of work at every step.",
        advice="Replace `if` by torch.where(condition, one, other), and x[mask] by a result of the full shape.",
    ),
    transfers(
        to_device=0,
        to_host=0,
        why="Gradients are on the device, and so is everything that is made of them.",
        advice="Python numbers, such as limit and 0.0, travel with the launch: they need no tensor.",
    ),
    launches(
        (1, 40),
        why="A loop over the rows launches some kernels for each of them; a mask treats all rows with the same few.",
        advice="Reduce over dim=1 with keepdim=True: that is one answer for each row, in one kernel.",
        on=lambda machine: machine.virtual and machine.device != "cpu",
    ),
    parity(
        reference,
        advice="Try a row with nan (nan * 0 is nan), a row below the limit, and exactly half of the rows bad.",
    ),
]
