"""Tables of all patches of torch and Python while the virtual GPU is on: a row with a reason for each attribute."""

from __future__ import annotations

from gpututor.devices.virtual.patches import cuda, torch
from gpututor.devices.virtual.patches.cuda import CPU_BUILD, CUDA_BUILD
from gpututor.devices.virtual.patches.patch import Patch, unsupported_calls
from gpututor.devices.virtual.patches.torch import TIME

__all__ = ["CPU_BUILD", "CUDA_BUILD", "PATCHES", "TIME"]

PATCHES: tuple[Patch, ...] = (
    *cuda.CUDA,
    *cuda.MEMORY,
    *cuda.RANDOM,
    *cuda.ACCELERATOR,
    *torch.TENSORS,
    *torch.MODULES,
    *torch.SAVING,
    *torch.DISTRIBUTED,
    *torch.THREADS,
    *unsupported_calls(),
)
