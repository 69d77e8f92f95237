"""Dropout, which is one kernel on CUDA: C++ would choose what it does on the CPU, three kernels and a wide mask.

As `is_fused_kernel_acceptable` of aten/src/ATen/native/Dropout.cpp. Feature and alpha dropout, and those in place, are
several kernels on CUDA too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from gpututor.devices.virtual import private
from gpututor.devices.virtual.tensors.tensor import VirtualTensor

_DROPOUT: Any = torch.ops.aten.dropout.default
_FUSED: Any = torch.ops.aten.native_dropout.default


def _dropout(tensor: torch.Tensor, p: float, train: bool) -> Any:
    if train and 0 < p < 1 and type(tensor) is VirtualTensor and tensor.numel():
        return _FUSED(tensor, p, train)[0]
    return private.run_composite(_DROPOUT, tensor, p, train)


@contextmanager
def fused() -> Iterator[None]:
    """For the time of the block, C++ finds this kernel above autograd, whoever calls dropout."""
    library = torch.library.Library("aten", "IMPL")
    library.impl("dropout", _dropout, private.AUTOGRAD_KEY)
    try:
        yield
    finally:
        library._destroy()


def dropout_rules() -> dict[Any, Any]:
    """Where there is no autograd, in inference mode, the dispatch mode is the first to see it."""
    return {_DROPOUT: lambda func, args, kwargs: _without_autograd(*args, **kwargs)}


def _without_autograd(input: torch.Tensor, p: float, train: bool) -> Any:
    from gpututor.devices.virtual.operators.dispatch import DeviceMode

    with DeviceMode():
        return _dropout(input, p, train)
