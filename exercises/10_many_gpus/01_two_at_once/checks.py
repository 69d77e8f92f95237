"""Both GPUs work at the same time, and only the norms are copied to the host."""

from __future__ import annotations

from typing import Any

import torch

from gpututor.checks import overlap, parity, placement, speed, structure, transfers


def reference(pairs: list[tuple[torch.Tensor, torch.Tensor]]) -> torch.Tensor:
    """Norms by their definition, on the CPU."""
    return torch.stack([(left @ right).square().sum().sqrt() for left, right in pairs])


def several(machine: Any) -> bool:
    return bool(machine.gpus > 1)


checks = [
    structure(reference),
    placement(
        "cpu",
        why="The norms come from several GPUs, and the caller wants them together in the host's memory.",
        advice="Copy the norms to the CPU after the last launch, then join them.",
    ),
    transfers(
        between=lambda drawn, machine: (0, len(drawn["pairs"])),
        bytes_between=lambda drawn, machine: (0, 8 * len(drawn["pairs"])),
        bytes_to_host=lambda drawn, machine: 8 * len(drawn["pairs"]),
        why="A product holds hundreds of thousands of numbers, but its norm is a single number.",
        advice="Compute each norm on the GPU of its pair. Only one number for each pair has to move.",
    ),
    overlap(
        kernels=0.5,
        why="While a GPU waits for another GPU, you pay for it and do not use it.",
        advice="Launch the work of all pairs first. Only then ask for the first number.",
        on=several,
    ),
    speed(
        0.85,
        compared_with="one GPU after the other",
        why="Two GPUs side by side should take little more than half of the time.",
        advice="Let nothing wait between the launches: no .item(), .cpu(), print or synchronize.",
        on=several,
    ),
    parity(reference),
]
