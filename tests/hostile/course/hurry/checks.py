"""A chain of products on the GPU, by the modelled clock, that leaves its argument alone."""

from __future__ import annotations

import torch

from gpututor.checks import parity, placement, speed, structure, unmodified


def reference(matrix: torch.Tensor) -> torch.Tensor:
    product = matrix
    for _ in range(20):
        product = torch.tanh(product @ matrix)
    return product


checks = [structure(reference), placement(), parity(reference, times=10), unmodified(), speed(1.25)]
