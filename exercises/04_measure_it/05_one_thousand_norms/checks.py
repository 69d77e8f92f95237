"""A single copy and wait, the right norms, and clearly less time than reading them one by one."""

from __future__ import annotations

import torch

from gpututor.checks import parity, placement, speed, structure, syncs, transfers


def reference(matrices: torch.Tensor) -> torch.Tensor:
    """The drawn value is one tensor; the function gets its matrices as a list."""
    return torch.einsum("nij,njk->nik", matrices, matrices).square().sum((1, 2)).sqrt()


checks = [
    structure(
        reference,
        advice="torch.stack makes one tensor of many numbers; the result is (n,), float32.",
    ),
    placement(outputs="cpu", advice="Copy the norms to the CPU when all of them are computed: .cpu()."),
    transfers(
        to_host=1,
        to_device=0,
        bytes_to_host=lambda drawn, machine: (0, 8 * len(drawn["matrices"])),
        why="One copy of all norms is enough, and each further copy is another wait. A matrix has 10,000 numbers.",
        advice="Take the norms on the device, collect them as tensors, torch.stack them, and copy once.",
    ),
    syncs(
        at_most=1,
        why="The copy at the end waits for everything. Any other wait makes the device idle.",
        advice="No .item(), float(), print or synchronize() in the loop.",
    ),
    parity(reference),
    speed(
        0.9,
        compared_with="reading them one at a time",
        real_at_most=0.95,
        why="Such small products cost little more than their launches: extra launches take as long as waits do.",
        advice="Two launches for each matrix, the product and its norm, or fewer. `out[i] = …` would be a third one.",
    ),
]
