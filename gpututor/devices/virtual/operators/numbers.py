"""Numbers that stand for tensors: TorchScript keeps sizes as tensors, which Python is handed as numbers."""

from __future__ import annotations

from typing import Any

import torch


def numbers_as_tensors(func: Any, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """The arguments with a CPU tensor in the place of each number that the operator takes as a tensor; None if none."""
    declared = func._schema.arguments
    found = False
    settled = []
    for value, argument in zip(args, declared, strict=False):
        if type(value) in (int, float, bool) and isinstance(argument.type, torch.TensorType):
            found = True
            value = torch.scalar_tensor(value, dtype=_dtype_of(value))
        settled.append(value)
    return tuple(settled) if found else None


def _dtype_of(value: Any) -> torch.dtype:
    return {bool: torch.bool, int: torch.int64}.get(type(value), torch.float64)
