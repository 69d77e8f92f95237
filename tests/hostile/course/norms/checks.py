"""A small result that depends on much of the device's memory."""

from __future__ import annotations

import torch

from gpututor.checks import parity, placement, structure, transfers


def reference(matrix: torch.Tensor) -> torch.Tensor:
    return matrix.square().sum(dim=1).sqrt()


checks = [structure(reference), placement(), transfers(to_device=0, to_host=0), parity(reference)]
