"""Parameters without a shape yet: they stay on the CPU, remember their device and are made there later."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter

from gpututor.devices.virtual import private
from gpututor.devices.virtual.machine import meant_device
from gpututor.devices.virtual.modules.swapping import swap_tensors
from gpututor.devices.virtual.tensors.tensor import VirtualTensor

_PLACE = "_virtual_device"
_real_materialize: Any = UninitializedParameter.materialize
_real_device: Any = private.device_of
_real_is_cuda: Any = private.is_cuda_of


def _place(tensor: Any) -> torch.device | None:
    """The GPU that it will be made on; None for the CPU."""
    found = tensor.__dict__.get(_PLACE)
    return found if isinstance(found, torch.device) else None


def _at(tensor: Any) -> torch.device:
    found = _place(tensor)
    return _real_device.__get__(tensor) if found is None else found


# How the class sees its device while the virtual GPU is on.
device = property(_at)
is_cuda = property(lambda self: _place(self) is not None or _real_is_cuda.__get__(self))


def move(tensor: Any, fn: Any) -> None:
    """What `module.to(...)` does to a tensor without a shape."""
    where = _place(tensor)
    dtype = tensor.data.dtype
    stand_in = torch.empty(0, dtype=dtype, device=_at(tensor))
    with torch.no_grad():
        moved = fn(stand_in)
    if moved.dtype is not dtype:
        tensor.data = torch.empty(
            0, dtype=moved.dtype, device="cpu" if where is not None else _real_device.__get__(tensor)
        )
    if type(moved) is VirtualTensor:
        setattr(tensor, _PLACE, moved.device)
    elif where is not None:
        delattr(tensor, _PLACE)


def materialize(self: Any, shape: Any, device: Any = None, dtype: torch.dtype | None = None) -> None:
    """Stands in for `UninitializedParameter.materialize`: it becomes an ordinary tensor, on its device."""
    where = _place(self) if device is None else meant_device(device)
    if where is None or where.type != "cuda":
        _real_materialize(self, shape, device, dtype)
        return
    made = torch.empty(shape, device=where, dtype=dtype or self.data.dtype)
    if isinstance(self, torch.nn.Parameter):
        made = torch.nn.Parameter(made, self.requires_grad)
    kept = {name: value for name, value in self.__dict__.items() if name != _PLACE}
    # First, for a class without a shape refuses every question.
    self.__class__ = self.cls_to_become
    swap_tensors(self, made)
    self.__dict__.update(kept)


def _without_shape(cls: Any, device: Any, dtype: torch.dtype | None, requires_grad: bool) -> Any:
    """An empty tensor of `cls`, on the CPU if `device` is a GPU."""
    like = torch.empty(0, device=device, dtype=dtype)
    if type(like) is not VirtualTensor:
        return private.make_subclass(cls, like, requires_grad)
    made = private.make_subclass(cls, torch.empty(0, device="cpu", dtype=like.dtype), requires_grad)
    setattr(made, _PLACE, like.device)
    return made


def _new_parameter(
    cls: Any, requires_grad: bool = True, device: Any = None, dtype: torch.dtype | None = None
) -> UninitializedParameter:
    made: UninitializedParameter = _without_shape(cls, device, dtype, requires_grad)
    return made


def _new_buffer(
    cls: Any,
    requires_grad: bool = False,
    device: Any = None,
    dtype: torch.dtype | None = None,
    persistent: bool = True,
) -> UninitializedBuffer:
    made = _without_shape(cls, device, dtype, requires_grad)
    made.persistent = persistent
    made._is_buffer = True
    buffer: UninitializedBuffer = made
    return buffer


def deep_copy(self: Any, memo: dict[int, Any]) -> Any:
    """Stands in for `UninitializedParameter.__deepcopy__`, which asks for the device of what is on the CPU."""
    if id(self) not in memo:
        memo[id(self)] = type(self)(self.requires_grad, _at(self), self.data.dtype)
    return memo[id(self)]


# What a class holds under `__new__`.
new_parameter = staticmethod(_new_parameter)
new_buffer = staticmethod(_new_buffer)
