"""`Tensor.set_`: a tensor becomes a view of another storage, on the same device."""

from __future__ import annotations

from typing import Any

import torch

from gpututor.devices.virtual import errors, private
from gpututor.devices.virtual.machine import active
from gpututor.devices.virtual.memory.allocator import Block
from gpututor.devices.virtual.operators.outputs import follow_host
from gpututor.devices.virtual.tensors.storage import VirtualStorage
from gpututor.devices.virtual.tensors.tensor import VirtualTensor

_real_set: Any = torch.Tensor.set_


def set_on_host(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Stands in for `Tensor.set_` of a tensor elsewhere; raises CUDA's error for a virtual tensor's storage."""
    source = args[0] if args else kwargs.get("source")
    if isinstance(source, VirtualStorage):
        raise errors.wrong_storage(self.device, source.device)
    return _real_set(self, *args, **kwargs)


def set_source(
    target: VirtualTensor, source: Any = None, storage_offset: int | None = None, size: Any = None, stride: Any = None
) -> VirtualTensor:
    """What `target.set_(...)` does; raises CUDA's error where the source is on another device."""
    geometry = [one for one in (storage_offset, size, stride) if one is not None]
    there: torch.device = target.device if source is None else source.device
    if there != target.device:
        raise errors.wrong_storage(target.device, there)
    memory = active().home(target._device).memory
    with private.host_only():
        if source is None:
            empty: Any = target._host.set_
            empty()
            target._block = Block(memory, 0)
        else:
            target._host.set_(source._host, *geometry)
            target._block = source._block
    follow_host(target)
    return target
