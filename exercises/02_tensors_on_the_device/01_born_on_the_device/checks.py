"""A grid made on the device: right, in the right place, and nothing copied."""

from __future__ import annotations

import torch

from gpututor.checks import parity, placement, structure, transfers


def reference(height: int, width: int) -> torch.Tensor:
    """The grid from its definition, on the CPU."""
    down = (torch.arange(height, dtype=torch.float64) + 0.5) / height
    right = (torch.arange(width, dtype=torch.float64) + 0.5) / width
    return torch.stack(torch.meshgrid(down, right, indexing="ij"), dim=-1).to(torch.get_default_dtype())


checks = [
    structure(reference),
    placement(
        outputs="device",
        advice="Factories such as torch.arange take device=...; without it they make CPU tensors.",
    ),
    transfers(
        to_device=0,
        to_host=0,
        why="The device can compute these numbers itself. That is faster than a copy across the bus.",
        advice="Pass device=device to the factory (torch.arange, torch.linspace) instead of moving its result. A number"
        " that is written to one element, as in grid[i, j, 0] = 0.5, is copied, too: compute whole rows or grids.",
    ),
    parity(
        reference,
        why="If the grid is transposed or off by half a pixel, every lookup with it is wrong.",
        advice="Compare with the task: the centers are (i + 0.5) / height, and the first number runs down.",
    ),
]
