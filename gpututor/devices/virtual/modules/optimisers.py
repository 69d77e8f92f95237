"""Optimisers take their for-each way on a virtual GPU, as they do on CUDA: few launches for many parameters."""

from __future__ import annotations

from typing import Any

import torch

from gpututor.devices.virtual.machine import python_device
from gpututor.devices.virtual.tensors.tensor import VirtualTensor

FOR_OPTIMISERS = [torch.Tensor, torch.nn.Parameter, VirtualTensor]
"""The types whose parameters an optimiser may update together."""
FOR_GRADIENTS = [torch.Tensor, VirtualTensor]
"""The types whose gradients may be clipped together."""

_real_group: Any = torch._C._group_tensors_by_device_and_dtype


def group_by_device_and_dtype(*args: Any, **kwargs: Any) -> dict[tuple[torch.device, torch.dtype], Any]:
    """Stands in for C++'s grouping, which names the devices of virtual tensors in C++'s way."""
    groups = _real_group(*args, **kwargs)
    return {
        (python_device(device) if device.type == "meta" else device, *rest): group
        for (device, *rest), group in groups.items()
    }
