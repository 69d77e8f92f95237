"""Operators with sparse arguments or results: computed like others; memory is counted part by part."""

from __future__ import annotations

from typing import Any

import torch

from gpututor.devices.virtual import execution
from gpututor.devices.virtual.machine import CPU, active_machine, python_device
from gpututor.devices.virtual.operator_registry import Operator
from gpututor.devices.virtual.operators import fallbacks
from gpututor.devices.virtual.tensors.moves import record_copy
from gpututor.devices.virtual.tensors.sparse import (
    blocks_for,
    follow_sparse,
    known_blocks,
    parts_of,
    sparse_bytes,
    sparse_on_device,
)
from gpututor.devices.virtual.tensors.tensor import VirtualTensor, on_device

Tensor = torch.Tensor


def is_sparse(value: Any) -> bool:
    if type(value) is VirtualTensor:
        return value._host.layout is not torch.strided
    return isinstance(value, Tensor) and value.layout is not torch.strided


def run_sparse(op: Operator, wrappers: list[VirtualTensor], hosts: Any, kwargs: dict[str, Any], device: Any) -> Any:
    """Run an operator with a sparse argument on one device; `hosts` and `kwargs` hold CPU tensors."""
    if kwargs.get("device") is not None:
        wanted = python_device(kwargs["device"])
        if wanted.type != "cuda":
            return op.call(*hosts, **kwargs)
        kwargs = {**kwargs, "device": CPU}
        device = wanted
    try:
        out = op.call(*hosts, **kwargs)
    except fallbacks.REFUSALS as error:
        out = fallbacks.retry(error, op, hosts, kwargs)
    if op.is_kernel:
        machine = active_machine()
        gpu = machine.home(device)
        execution.kernel_of_bytes(machine, gpu, op.name, all_bytes([*hosts, *kwargs.values()]) + all_bytes(out))
        if op.waits is not None and op.waits(hosts, {}):
            execution.synchronize(machine, gpu, op.name, machine.stream_of(gpu))
    if op.returns_nothing:
        for wrapper in wrappers:
            if is_sparse(wrapper):
                follow_sparse(wrapper)
        return None
    return wrap_parts(out, wrappers, device)


def all_bytes(value: Any) -> int:
    """Return the bytes of CPU tensors, sparse ones by their parts, lists included."""
    if isinstance(value, Tensor):
        return sparse_bytes(value) if is_sparse(value) else value.nbytes
    return sum(all_bytes(part) for part in value) if type(value) in (list, tuple) else 0


def wrap_parts(out: Any, wrappers: list[VirtualTensor], device: torch.device) -> Any:
    """Return the CPU's results on `device`; they share the blocks of arguments, or parts, whose memory they share."""
    if isinstance(out, Tensor):
        for wrapper in wrappers:
            if wrapper._host is out:
                if is_sparse(wrapper):
                    follow_sparse(wrapper)
                return wrapper
        known = known_blocks(wrappers)
        if is_sparse(out):
            return sparse_on_device(VirtualTensor, out, device, blocks_for(out, device, known))
        return on_device(out, device, known.get(out.untyped_storage()._cdata))
    if type(out) in (list, tuple):
        return type(out)(wrap_parts(part, wrappers, device) for part in out)
    return out


def copy_sparse(func: Any, source: torch.device, host: Tensor, target: torch.device, options: dict[str, Any]) -> Any:
    """Copy a sparse tensor to another device or dtype: each part crosses by itself, as on CUDA."""
    non_blocking = bool(options.pop("non_blocking", False))
    if target.type == "cuda":
        active_machine().gpus[target.index].memory.check_fits(sparse_bytes(host))
    out = func(host, **options, device=CPU)
    for before, after in zip(parts_of(host), parts_of(out), strict=True):
        record_copy(
            source,
            target,
            before.numel(),
            before.dtype,
            after.dtype,
            non_blocking=non_blocking,
            host_pinned=False,
            name="aten::_to_copy",
        )
    return sparse_on_device(VirtualTensor, out, target) if target.type == "cuda" else out
