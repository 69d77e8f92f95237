"""Optimisers take their for-each way on a virtual GPU, as they do on CUDA: few launches for many parameters."""

from __future__ import annotations

from typing import Any

import torch

from gpututor.devices.virtual import private
from gpututor.devices.virtual.machine import python_device
from gpututor.devices.virtual.tensors.tensor import VirtualTensor

FOR_OPTIMISERS = [torch.Tensor, torch.nn.Parameter, VirtualTensor]
"""The types whose parameters an optimiser may update together."""
FOR_GRADIENTS = [torch.Tensor, VirtualTensor]
"""The types whose gradients may be clipped together."""


def group_by_device_and_dtype(*args: Any, **kwargs: Any) -> dict[tuple[torch.device, torch.dtype], Any]:
    """Stands in for C++'s grouping, which names the devices of virtual tensors in C++'s way."""
    groups = private.group_tensors(*args, **kwargs)
    return {
        (python_device(device) if device.type == "meta" else device, *rest): group
        for (device, *rest), group in groups.items()
    }


_profiler = torch.autograd.profiler
_real_enter: Any = _profiler.record_function.__enter__
_real_exit: Any = _profiler.record_function.__exit__


def enter_range(self: Any) -> Any:
    """Stands in for `record_function.__enter__`, which every optimiser step calls: an operator, for nobody's use."""
    return _real_enter(self) if _profiler._is_profiler_enabled else self


def leave_range(self: Any, *exception: Any) -> None:
    """Stands in for `record_function.__exit__`."""
    if self.record is not None:
        _real_exit(self, *exception)
