"""Every place where torch is changed while the virtual GPU is on, and why: one file for each room, rows only."""

from __future__ import annotations

from gpututor.devices.virtual.patch_table import (
    accelerator,
    cuda,
    memory,
    modules,
    parallel,
    random,
    saving,
    tensors,
    threads,
    time,
)
from gpututor.devices.virtual.patches import Patch

PATCHES: tuple[Patch, ...] = (
    *cuda.PATCHES,
    *memory.PATCHES,
    *random.PATCHES,
    *accelerator.PATCHES,
    *tensors.PATCHES,
    *modules.PATCHES,
    *saving.PATCHES,
    *parallel.PATCHES,
    *threads.PATCHES,
)

CUDA_BUILD: tuple[Patch, ...] = cuda.CUDA_BUILD
"""What more is changed where cuda is among the backends: a value that nothing asks a function for."""

TIME: tuple[Patch, ...] = time.TIME
"""What more is changed where time is virtual."""
