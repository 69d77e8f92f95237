"""Operators that draw random numbers: each GPU has a generator of its own, and they are computed on the CPU."""

from __future__ import annotations

from typing import Any

import torch

from gpututor.devices.virtual.operator_registry import Operator


def draw(op: Operator, args: Any, kwargs: dict[str, Any], generator: torch.Generator) -> Any:
    """Run an operator that draws random numbers, with the GPU's own generator."""
    if op.takes_generator:
        return op.call(*args, **{**kwargs, "generator": kwargs.get("generator") or generator})
    host_state = torch.default_generator.get_state()
    torch.default_generator.set_state(generator.get_state())
    try:
        return op.call(*args, **kwargs)
    finally:
        generator.set_state(torch.default_generator.get_state())
        torch.default_generator.set_state(host_state)
