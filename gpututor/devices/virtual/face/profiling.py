"""Profilers: the CPU's work is measured as ever; a virtual GPU's has no times, and asking for them is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.profiler.profiler

from gpututor.devices.virtual import errors, private
from gpututor.devices.virtual.machine import active

_CUDA = torch.profiler.ProfilerActivity.CUDA
_real_activities: Callable[[], set[Any]] = torch.profiler.supported_activities
_real_profiler: Any = private.Profiler.__init__
_real_old_profiler: Any = torch.autograd.profiler.profile.__init__
_ADVICE = "Ask for ProfilerActivity.CPU alone."


def supported_activities() -> set[Any]:
    """Stands in for `torch.profiler.supported_activities`: what is profiled where nobody says what."""
    return _real_activities() - {_CUDA}


def profiler(self: Any, *args: Any, activities: Any = None, **options: Any) -> None:
    """Stands in for the making of every `torch.profiler.profile`; raises `NotImplementedError` where CUDA is asked."""
    wanted = None if activities is None else list(activities)
    # One can be a dictionary of activities too, from torch 2.13 on. Without GPUs torch itself says that there are none.
    asked = any(one == _CUDA or (isinstance(one, dict) and _CUDA in one) for one in wanted or ())
    if asked and active().gpus:
        raise errors.unsupported("torch.profiler's ProfilerActivity.CUDA", _ADVICE)
    _real_profiler(self, *args, activities=wanted, **options)


def old_profiler(
    self: Any, enabled: bool = True, *, use_cuda: bool = False, use_device: Any = None, **options: Any
) -> None:
    """Stands in for the making of every `torch.autograd.profiler.profile`, on which the newer one is built."""
    if enabled and (use_cuda or use_device == "cuda") and active().gpus:
        raise errors.unsupported("torch.autograd.profiler.profile(use_device='cuda')", "Profile the CPU alone.")
    _real_old_profiler(self, enabled, use_cuda=use_cuda, use_device=use_device, **options)


def emit_nvtx(self: Any) -> Any:
    """Stands in for the entering of `torch.autograd.profiler.emit_nvtx`."""
    raise errors.unsupported("torch.autograd.profiler.emit_nvtx")
