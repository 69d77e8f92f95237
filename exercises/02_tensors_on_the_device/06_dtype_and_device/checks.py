"""The right dtype in the right place, and only the narrower dtype's bytes on the bus."""

from __future__ import annotations

from typing import Any

import torch

from gpututor.checks import parity, placement, structure, transfers


def reference(tensor: torch.Tensor, dtype: torch.dtype, **places: str) -> torch.Tensor:
    """The conversion alone, on the CPU."""
    return tensor.to(dtype)


def fewest_bytes(drawn: dict[str, Any], goal: str) -> int:
    """Bytes that must be copied to `goal`, in the narrower dtype."""
    if drawn["goal"] != goal:
        return 0
    return int(drawn["tensor"].numel()) * min(drawn["tensor"].dtype.itemsize, drawn["dtype"].itemsize)


checks = [
    structure(reference, advice="Both steps are needed: .to(dtype) and .to(device). Keep what each of them returns."),
    placement(
        outputs=lambda drawn, machine: drawn["goal"],
        advice="Move to the device that was passed, in both directions, and keep what .to() returns.",
    ),
    transfers(
        bytes_to_device=lambda drawn, machine: fewest_bytes(drawn, "device"),
        bytes_to_host=lambda drawn, machine: fewest_bytes(drawn, "cpu"),
        why="The bus is slow and each byte counts; a conversion on either side is cheap in comparison.",
        advice="If the new dtype is narrower, convert before the copy, otherwise after it: compare their itemsize.",
    ),
    parity(reference),
]
