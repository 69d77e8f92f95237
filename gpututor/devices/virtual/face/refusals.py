"""Calls that would crash or quietly do something else on virtual tensors: they say so instead."""

from __future__ import annotations

from typing import Any

import torch

from gpututor.devices.virtual import errors, private
from gpututor.devices.virtual.machine import meant_device
from gpututor.devices.virtual.tensors.gradients import seen_device
from gpututor.devices.virtual.tensors.names import DeviceNames
from gpututor.devices.virtual.tensors.tensor import VirtualTensor

_real_nested: Any = torch.nested.nested_tensor


def _holds_virtual(value: Any) -> bool:
    if isinstance(value, torch.nn.Module):
        return any(type(one) is VirtualTensor for one in (*value.parameters(), *value.buffers()))
    if isinstance(value, list | tuple):
        return any(_holds_virtual(one) for one in value)
    if isinstance(value, dict):
        return any(_holds_virtual(one) for one in value.values())
    return type(value) is VirtualTensor


def run_backward(*args: Any, **kwargs: Any) -> Any:
    """Stands in for the call of the autograd engine: hooks and custom Functions name devices too."""
    with DeviceNames():
        return private.run_engine(*args, **kwargs)


def to_dlpack(tensor: Any) -> Any:
    """Stands in for `torch.utils.dlpack.to_dlpack`."""
    return tensor.__dlpack__() if type(tensor) is VirtualTensor else private.to_dlpack(tensor)


def to_dlpack_versioned(tensor: Any, **options: Any) -> Any:
    """Stands in for what `Tensor.__dlpack__` calls."""
    return tensor.__dlpack__() if type(tensor) is VirtualTensor else private.to_dlpack_versioned(tensor, **options)


def nested_tensor(tensor_list: Any, *args: Any, **kwargs: Any) -> Any:
    """Stands in for `torch.nested.nested_tensor`."""
    device = kwargs.get("device")
    if _holds_virtual(tensor_list) or (device is not None and meant_device(device).type == "cuda"):
        raise errors.unsupported("torch.nested.nested_tensor")
    return _real_nested(tensor_list, *args, **kwargs)


def parse_to(*args: Any, **kwargs: Any) -> Any:
    """Stands in for what reads the arguments of `module.to(...)`, such as a GPU's number, or a tensor that is there."""
    if args and type(args[0]) is int:
        args = (meant_device(args[0]), *args[1:])
    device, *rest = private.parse_to(*args, **kwargs)
    like = args[0] if args else kwargs.get("tensor")
    return seen_device(device) if isinstance(like, torch.Tensor) else device, *rest
