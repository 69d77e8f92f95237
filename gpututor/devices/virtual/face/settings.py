"""Settings of CUDA's libraries that change nothing here: what can be asked and set as on CUDA."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import torch

from gpututor.devices.virtual import private
from gpututor.devices.virtual.machine import VirtualGpu, active

CUDA_VERSION: str = torch.version.cuda or "12.8"
"""Of a CPU build: the newest CUDA that knows every GPU of gpus.toml, from Pascal to Blackwell."""
_CUDNN_VERSION = 91002
"""cuDNN 9.10.2, the one of PyTorch's builds for CUDA 12.8, and the last series that knows Pascal and Volta."""
_real_cudnn_version: Any = torch.backends.cudnn.version

_PLANS_AT_MOST = 4096
"""cuFFT's default (aten/src/ATen/native/cuda/CuFFTPlanCache.h)."""
_limits: WeakKeyDictionary[VirtualGpu, int] = WeakKeyDictionary()


def has_cudnn() -> bool:
    """Stands in for `torch.backends.cudnn.is_available`: a CUDA build has it, also on a machine without a GPU."""
    return "cuda" in active().backends


def cudnn_version() -> int | None:
    """Stands in for `torch.backends.cudnn.version`: the build's own number where it has one."""
    if not has_cudnn():
        return None
    return (_real_cudnn_version() if torch.version.cuda and private.has_cudnn else None) or _CUDNN_VERSION


def is_off() -> bool:
    """A feature that is never on."""
    return False


class PlanCache:
    """Stands in for the cuFFT plan cache of one GPU, or of the current one: always empty; its limit is remembered."""

    def __init__(self, gpu: VirtualGpu | None = None) -> None:
        self._of = gpu

    def _gpu(self) -> VirtualGpu:
        return active().current if self._of is None else self._of

    @property
    def size(self) -> int:
        self._gpu()
        return 0

    @property
    def max_size(self) -> int:
        return _limits.get(self._gpu(), _PLANS_AT_MOST)

    @max_size.setter
    def max_size(self, limit: int) -> None:
        _limits[self._gpu()] = int(limit)

    def clear(self) -> None:
        """Nothing to forget."""
        self._gpu()


class PlanCaches(PlanCache):
    """Stands in for `torch.backends.cuda.cufft_plan_cache`: by itself the current GPU's, by number any."""

    def __getitem__(self, device: Any) -> PlanCache:
        index = private.cuda_device_index(device)
        gpus = active().gpus
        if not 0 <= index < len(gpus):
            raise RuntimeError(
                f"cufft_plan_cache: expected 0 <= device index < {len(gpus)}, but got device with index {index}"
            )
        return PlanCache(gpus[index])
