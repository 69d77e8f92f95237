"""The arguments of an operator: CPU tensors in the place of virtual ones, and what was found on the way."""

from __future__ import annotations

from typing import Any

import torch

from gpututor.devices.virtual import private, work
from gpututor.devices.virtual.machine import CPU, active, is_on
from gpututor.devices.virtual.operators.overloads import Operator
from gpututor.devices.virtual.tensors import bits
from gpututor.devices.virtual.tensors.tensor import VirtualTensor

Tensor = torch.Tensor


_NUMBERS = frozenset({int, float, bool})
_LEAVES = frozenset({int, float, bool, type(None), str, torch.dtype, torch.device, complex, torch.layout})


def bytes_of(value: Any) -> int:
    """The bytes of the tensors in `value`, lists within lists included."""
    if isinstance(value, Tensor):
        return value.nbytes if value.layout is torch.strided else 0
    if type(value) is tuple or type(value) is list:
        return sum(bytes_of(one) for one in value)
    return 0


class Inputs:
    """What was found while the arguments were unwrapped."""

    __slots__ = ("device", "lazy", "mixed", "size_bytes", "sparse", "wrappers")

    def __init__(self) -> None:
        self.device: torch.device | None = None
        self.lazy = False
        """Whether one of them has a conjugate or negative bit."""
        self.mixed = False
        self.size_bytes = 0
        self.sparse = False
        self.wrappers: list[VirtualTensor] = []

    def unwrap_all(self, args: Any, op: Operator) -> list[Any]:
        """The positional arguments with CPU tensors in the place of virtual ones."""
        hosts = list(args)
        for position, value in enumerate(args):
            kind = type(value)
            if kind is VirtualTensor:
                hosts[position] = self._enter(value)
            elif kind not in _LEAVES:
                hosts[position] = self.unwrap(value, op, position)
        return hosts

    def _enter(self, value: VirtualTensor) -> Tensor:
        device = value._device
        if self.device is not device:
            if self.device is None:
                self.device = device
            else:
                self.mixed = True
        self.wrappers.append(value)
        host = value._host
        if host.layout is torch.strided:
            self.size_bytes += host.nbytes
            if bits.seen and (host.is_conj() or host.is_neg()):
                self.lazy = True
        else:
            self.sparse = True
        return host

    def unwrap(self, value: Any, op: Operator, where: int | str) -> Any:
        """`value` with CPU tensors in the place of virtual ones."""
        kind = type(value)
        if kind is VirtualTensor:
            return self._enter(value)
        if kind is list or kind is tuple:
            if not value or type(value[0]) in _NUMBERS:
                return value
            return [self._enter(one) if type(one) is VirtualTensor else self.unwrap(one, op, where) for one in value]
        if not isinstance(value, Tensor):
            return value
        if value.dim() or op.checks_scalars or where in op.written_places:
            if where not in op.host_places:
                self.mixed = True
            elif self.device is not None and is_on():
                # CUDA moves index tensors to the device of what they index.
                work.copy(active(), CPU, self.device, bytes_of(value), op.name)
        return private.with_memory(value)
