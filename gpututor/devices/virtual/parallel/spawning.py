"""Children that `multiprocessing` starts, and device tensors on their way to them."""

from __future__ import annotations

import multiprocessing.spawn
from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch

from gpututor.devices.virtual import errors, private
from gpututor.devices.virtual.machine import active
from gpututor.devices.virtual.parallel import inheritance
from gpututor.devices.virtual.tensors.tensor import VirtualTensor

_real_preparation_data: Any = multiprocessing.spawn.get_preparation_data


def get_preparation_data(name: str) -> dict[str, Any]:
    """Stands in for `multiprocessing.spawn.get_preparation_data`."""
    return inheritance.preparation_data(_real_preparation_data, name)


def _reduce(tensor: VirtualTensor) -> tuple[Any, ...]:
    """As CUDA shares by handle: the other process sees the same memory (torch/multiprocessing/reductions.py)."""
    if tensor.requires_grad and not tensor.is_leaf:
        raise RuntimeError(
            "Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd does not support "
            "crossing process boundaries.  If you just want to transfer the data, call detach() on the tensor before "
            "serializing (e.g., putting it on the queue)."
        )
    if not active().values:
        raise errors.NoValues("A tensor on its way to another process")
    with private.host_only():
        host = tensor._host.detach()
    is_parameter = bool(getattr(tensor, "_is_param", False))
    return _rebuild, (host, tensor._device.index, tensor.requires_grad, is_parameter)


def _rebuild(host: torch.Tensor, index: int, requires_grad: bool, is_parameter: bool) -> torch.Tensor:
    tensor = VirtualTensor(host, active().gpu(index).device)
    return torch.nn.Parameter(tensor, requires_grad) if is_parameter else tensor.requires_grad_(requires_grad)


# Of our own class only: nothing of torch's is changed.
ForkingPickler.register(VirtualTensor, _reduce)
