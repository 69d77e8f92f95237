"""What an operator gave, back on its device."""

from __future__ import annotations

from typing import Any

import torch

from gpututor.devices.virtual import private
from gpututor.devices.virtual.tensors.sparse import blocks_for, known_blocks, sparse_on_device
from gpututor.devices.virtual.tensors.tensor import VirtualTensor, on_device

Tensor = torch.Tensor


def resolved(host: Tensor) -> Tensor:
    """A new tensor has no conjugate or negative bit, though a CPU kernel may give it one; only complex ones do."""
    if not host.dtype.is_complex and not host.is_neg():
        return host
    if host.is_conj():
        host = host.resolve_conj()
    return host.resolve_neg() if host.is_neg() else host


def fresh(out: Any, device: torch.device) -> Any:
    """New tensors, each with a block of its own, on `device`."""
    if type(out) is Tensor:
        return on_device(resolved(out), device)
    return [on_device(resolved(one), device) for one in out]


def wrap(out: Any, wrappers: list[VirtualTensor], device: torch.device) -> Any:
    """What the CPU gave, on `device`: an argument comes back as itself, a view shares its block."""
    if isinstance(out, Tensor):
        if type(out) is VirtualTensor:
            return out
        if out.layout is not torch.strided:
            return sparse_on_device(VirtualTensor, out, device, blocks_for(out, device, known_blocks(wrappers)))
        storage = private.storage_id(out)
        block = None
        for wrapper in wrappers:
            if wrapper._host is out:
                return wrapper
            if private.storage_id(wrapper._host) == storage:
                block = wrapper._block
        return on_device(resolved(out) if block is None else out, device, block)
    if type(out) is list or type(out) is tuple:
        return type(out)([wrap(one, wrappers, device) for one in out])
    return out


def follow_host(wrapper: VirtualTensor) -> None:
    """An operator changed the shape of the values in place: the wrapper follows, and its block grows."""
    host = wrapper._host
    wrapper._block.grow(host.untyped_storage().nbytes())
    if wrapper.size() != host.size() or wrapper.stride() != host.stride():
        private.set_data(wrapper, VirtualTensor(host, wrapper._device, wrapper._block))
