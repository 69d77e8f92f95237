"""A NumPy array with the right numbers, fetched in one copy."""

from __future__ import annotations

import numpy
import torch

from gpututor.checks import parity, structure, transfers


def reference(losses: torch.Tensor) -> numpy.ndarray:
    """The drawn value is one tensor; the function gets its elements as a list."""
    return losses.numpy()


checks = [
    structure(
        reference,
        advice="torch.stack(losses) makes one float32 tensor; .numpy() keeps its dtype.",
    ),
    transfers(
        to_host=1,
        to_device=0,
        why="Each copy to the host waits until the device has finished its work, whatever its size.",
        advice="Put the losses together on the device with torch.stack, then copy once.",
    ),
    parity(reference),
]
