"""Features that the virtual GPU does not support: each raises an error that names it."""

from __future__ import annotations

from typing import Any

import torch

from gpututor.devices.virtual import cuda_errors, torch_private
from gpututor.devices.virtual.machine import requested_device
from gpututor.devices.virtual.tensors.tensor import VirtualTensor, device_from_cpp

_real_nested: Any = torch.nested.nested_tensor


def _holds_virtual(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(_holds_virtual(part) for part in value)
    if isinstance(value, dict):
        return any(_holds_virtual(part) for part in value.values())
    return type(value) is VirtualTensor


def nested_tensor(tensor_list: Any, *args: Any, **kwargs: Any) -> Any:
    device = kwargs.get("device")
    if _holds_virtual(tensor_list) or (device is not None and requested_device(device).type == "cuda"):
        raise cuda_errors.unsupported("torch.nested.nested_tensor")
    return _real_nested(tensor_list, *args, **kwargs)


def parse_to(*args: Any, **kwargs: Any) -> Any:
    """Parse the arguments of `module.to(...)`, in which a GPU's number or a tensor may name the device."""
    if args and type(args[0]) is int:
        args = (requested_device(args[0]), *args[1:])
    device, *rest = torch_private.parse_to(*args, **kwargs)
    like = args[0] if args else kwargs.get("tensor")
    return device_from_cpp(device) if isinstance(like, torch.Tensor) else device, *rest


def unsupported_stub(call: str, instead: str = "") -> Any:
    """Return a class whose every use raises that `call` is not supported; annotations and isinstance can name it."""
    refuse = cuda_errors.refused_function(call, instead)
    body = {"__new__": refuse, "__init__": refuse, "__module__": "torch.cuda", "refuses": call}
    return type(call.rsplit(".", 1)[-1], (), body)


_real_log: Any = torch_private.log_api_usage


def log_api_usage_once(call: str) -> None:
    """Reject the first version of FSDP, which calls `torch._C._log_api_usage_once` as it starts.

    FSDP swaps the storages of its flat parameters in a way that virtual tensors cannot follow.
    """
    if call == "torch.distributed.fsdp":
        name = "torch.distributed.fsdp.FullyShardedDataParallel"
        raise cuda_errors.unsupported(name, "Use torch.distributed.fsdp.fully_shard.")
    _real_log(call)
