"""Optimisers take their for-each way on a virtual GPU, as they do on CUDA: few launches for many parameters."""

from __future__ import annotations

from typing import Any

import torch

from gpututor.devices.virtual import private
from gpututor.devices.virtual.face import nvtx
from gpututor.devices.virtual.machine import active, is_on, python_device
from gpututor.devices.virtual.profiler.session import current
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
_RANGE = "_range_of_virtual_gpu"
_TORCHS_OWN = ("Optimizer.", "enumerate(DataLoader)#", "DistributedDataParallel.")
"""How the names of ranges begin that no program wrote: they are for profiles, and would fill a trace."""


def enter_range(self: Any) -> Any:
    """Stands in for `record_function.__enter__`, which every optimiser step calls: an operator, for nobody's use."""
    session = None
    if _profiler._is_profiler_enabled:
        session = current()
        if session is None:
            return _real_enter(self)
    recorded = is_on() and active().recorder.enabled and not self.name.startswith(_TORCHS_OWN)
    if session is not None or recorded:
        span = None if session is None else session.open("range", self.name)
        vars(self)[_RANGE] = session, span, nvtx.Open.now(self.name) if recorded else None
    return self


def leave_range(self: Any, *exception: Any) -> None:
    """Stands in for `record_function.__exit__`."""
    if self.record is not None:
        _real_exit(self, *exception)
        return
    opened = vars(self).pop(_RANGE, None)
    if opened is not None:
        session, span, named = opened
        if session is not None:
            session.close(span)
        if named is not None and is_on():
            named.end()


# TorchScript compiles the class, by the methods' own names and from the source that is below decorators.
enter_range.__name__, leave_range.__name__ = "__enter__", "__exit__"
enter_range.__wrapped__, leave_range.__wrapped__ = _real_enter, _real_exit  # type: ignore[attr-defined]
