"""A chain of products, timed beside its baseline on the CPU."""

from __future__ import annotations

import torch

from gpututor.checks import parity, speed, structure


def reference(matrix: torch.Tensor) -> torch.Tensor:
    product = matrix
    for _ in range(20):
        product = torch.tanh(product @ matrix)
    return product


checks = [structure(reference), parity(reference, times=10), speed(1.25, real_at_most=1.25)]
