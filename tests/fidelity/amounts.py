"""Amounts of memory for programs of the corpus."""

from __future__ import annotations

import torch

MIB = 2**20


def allocated() -> int:
    return torch.cuda.memory_allocated()


def reserved() -> int:
    return torch.cuda.memory_reserved()


def taken(size_bytes: int) -> torch.Tensor:
    return torch.empty(size_bytes, dtype=torch.uint8, device="cuda")
