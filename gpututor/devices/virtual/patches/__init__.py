"""Every place where torch is changed while the virtual GPU is on, and why: one file for each room, rows only."""

from __future__ import annotations

from gpututor.devices.virtual.patches import cuda, torch
from gpututor.devices.virtual.patches.patch import Patch

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
)

CUDA_BUILD: tuple[Patch, ...] = cuda.CUDA_BUILD
"""What more is changed where cuda is among the backends: a value that nothing asks a function for."""

TIME: tuple[Patch, ...] = torch.TIME
"""What more is changed where time is virtual."""
