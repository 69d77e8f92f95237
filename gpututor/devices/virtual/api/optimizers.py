"""Optimizers and profiler ranges that take other paths on CUDA."""

from __future__ import annotations

from typing import Any

import torch

from gpututor.devices.virtual import torch_private
from gpututor.devices.virtual.api import nvtx
from gpututor.devices.virtual.machine import active_machine, is_on, python_device
from gpututor.devices.virtual.profiler.session import current
from gpututor.devices.virtual.tensors.tensor import VirtualTensor

FOR_OPTIMIZERS = [torch.Tensor, torch.nn.Parameter, VirtualTensor]
"""The types whose parameters an optimizer may update together."""
FOR_GRADIENTS = [torch.Tensor, VirtualTensor]
"""The types whose gradients may be clipped together."""


def group_by_device_and_dtype(*args: Any, **kwargs: Any) -> dict[tuple[torch.device, torch.dtype], Any]:
    """Group tensors as C++ does, with Python's names of the devices of virtual tensors."""
    groups = torch_private.group_tensors(*args, **kwargs)
    return {
        (python_device(device) if device.type == "meta" else device, *rest): group
        for (device, *rest), group in groups.items()
    }


_profiler = torch.autograd.profiler
_real_enter: Any = _profiler.record_function.__enter__
_real_exit: Any = _profiler.record_function.__exit__
_RANGE = "_range_of_virtual_gpu"
_TORCHS_OWN = ("Optimizer.", "enumerate(DataLoader)#", "DistributedDataParallel.")
"""Prefixes of torch's own ranges, which are left out of traces because there are too many."""
_DYNAMOS_OWN = " (dynamo_timed)"
"""Ending of ranges of torch 2.10's compiler."""


def enter_range(self: Any) -> Any:
    """Enter a range without running an operator if no profiler listens: every optimizer step calls this."""
    session = None
    if _profiler._is_profiler_enabled:
        session = current()
        if session is None:
            return _real_enter(self)
    is_torchs = self.name.startswith(_TORCHS_OWN) or self.name.endswith(_DYNAMOS_OWN)
    recorded = is_on() and active_machine().recorder.enabled and not is_torchs
    if session is not None or recorded:
        span = None if session is None else session.open("range", self.name)
        vars(self)[_RANGE] = session, span, nvtx.Open.now(self.name) if recorded else None
    return self


def leave_range(self: Any, *exception: Any) -> None:
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


# TorchScript compiles these methods by their `__name__` and the source of `__wrapped__`.
enter_range.__name__, leave_range.__name__ = "__enter__", "__exit__"
enter_range.__wrapped__, leave_range.__wrapped__ = _real_enter, _real_exit  # type: ignore[attr-defined]
