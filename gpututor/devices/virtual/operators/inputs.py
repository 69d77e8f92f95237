"""The arguments of an operator: CPU tensors in the place of virtual ones, and what was found on the way."""

from __future__ import annotations

from typing import Any

import torch

from gpututor.devices.virtual.machine import active, is_on
from gpututor.devices.virtual.operators.overloads import Operator
from gpututor.devices.virtual.tensors.tensor import VirtualTensor

Tensor = torch.Tensor


def bytes_of(value: Any) -> int:
    """The bytes of the tensors in `value`, lists within lists included."""
    if isinstance(value, Tensor):
        return value.numel() * value.element_size() if value.layout is torch.strided else 0
    if type(value) is tuple or type(value) is list:
        return sum(bytes_of(one) for one in value)
    return 0


class Inputs:
    """What was found while the arguments were unwrapped."""

    __slots__ = ("device", "mixed", "size_bytes", "wrappers")

    def __init__(self) -> None:
        self.device: torch.device | None = None
        self.mixed = False
        self.size_bytes = 0
        self.wrappers: list[VirtualTensor] = []

    def unwrap(self, value: Any, op: Operator, where: int | str) -> Any:
        """`value` with CPU tensors in the place of virtual ones."""
        kind = type(value)
        if kind is VirtualTensor:
            device = value._device
            if self.device is None:
                self.device = device
            elif device is not self.device:
                self.mixed = True
            host = value._host
            self.wrappers.append(value)
            self.size_bytes += host.numel() * host.element_size()
            return host
        if kind is list or kind is tuple:
            return [self.unwrap(one, op, where) for one in value] if _has_tensor(value) else value
        if isinstance(value, Tensor) and value.dim():
            if where not in op.host_places:
                self.mixed = True
            elif self.device is not None and is_on():
                # CUDA moves index tensors to the device of what they index.
                active().recorder.transfer("cpu", str(self.device), bytes_of(value), name=op.name)
        return value


def _has_tensor(values: Any) -> bool:
    return any(isinstance(one, Tensor) for one in values)
