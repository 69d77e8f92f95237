"""Custom operators (`torch.library`): their bodies run on the virtual tensors, as on CUDA.

Torch implements most of its own operators in C++, and the virtual GPU runs their CPU kernels instead. A custom operator
has a body that calls torch again. The body sees the virtual device, and each of its calls is recorded.
"""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import torch

from gpututor.devices.virtual import cuda_errors, torch_private
from gpututor.devices.virtual.execution.host_work import meter
from gpututor.devices.virtual.machine import active_machine
from gpututor.devices.virtual.operator_registry import TORCHS_OWN
from gpututor.devices.virtual.tensors.tensor import Hooks, VirtualTensor


def run(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run the kernel that CUDA would choose, or the CPU's if no argument is on a GPU, with both modes on."""
    given = torch_private.tree_leaves((args, kwargs))
    if any(isinstance(value, torch.Tensor) and torch_private.is_fake(value) for value in given):
        return func(*args, **kwargs)
    for value in given:
        if type(value) is VirtualTensor:
            active_machine().home(value._device)
    key = _backend(given)
    kernel = torch_private.kernel_of(func, key)
    if kernel is None:
        raise cuda_errors.no_kernel(func.name(), key)
    with torch_private.function_modes_seen(), torch_private.below_autograd_of(func), Hooks.thread_modes():
        try:
            return kernel.call_boxed(torch_private.keys(key), *args, **kwargs)
        finally:
            meter().resume()


def _backend(given: list[Any]) -> str:
    """Return the dispatch key of the tensors' device; without tensors, of the `device` argument."""
    kinds = {value.device.type for value in given if isinstance(value, torch.Tensor)}
    kinds = kinds or {value.type for value in given if isinstance(value, torch.device)}
    # C++ calls a virtual GPU meta:0.
    if "cuda" in kinds or (
        kinds == {"meta"} and any(isinstance(value, torch.device) and value.index is not None for value in given)
    ):
        return "CUDA"
    return "Meta" if kinds == {"meta"} else "CPU"


_real_impl: Any = torch.library.Library.impl
_real_fallback: Any = torch.library.Library.fallback
_real_py_impl: Any = torch_private.OPERATOR_BASE.py_impl


def impl(self: Any, op_name: Any, fn: Any, dispatch_key: str = "", **options: Any) -> Any:
    """Stand in for `torch.library.Library.impl`, which could replace the kernels that compute a GPU's values."""
    if self.ns in TORCHS_OWN and not _is_own_call(sys._getframe(1)):
        raise cuda_errors.unsupported(
            f"torch.library.Library.impl for an operator of torch's own namespace {self.ns}",
            "Define an operator in a namespace of your own.",
        )
    return _real_impl(self, op_name, fn, dispatch_key, **options)


def fallback(self: Any, fn: Any, dispatch_key: str = "", **options: Any) -> Any:
    """Stand in for `torch.library.Library.fallback`, which would also intercept the kernels that compute values."""
    if not _is_own_call(sys._getframe(1)):
        raise cuda_errors.unsupported("torch.library.Library.fallback", "Use a TorchDispatchMode.")
    return _real_fallback(self, fn, dispatch_key, **options)


def py_impl(self: Any, k: Any) -> Any:
    """Stand in for `OpOverload.py_impl`, which could replace the CPU's kernels too."""
    if isinstance(self, torch_private.OPERATOR) and self.namespace in TORCHS_OWN and not _is_own_call(sys._getframe(1)):
        raise cuda_errors.unsupported(f"py_impl of torch.ops.{self}", "Define an operator in a namespace of your own.")
    return _real_py_impl(self, k)


def _is_own_call(frame: FrameType | None) -> bool:
    """Return True if the caller is the virtual GPU or torch, which imports some modules late."""
    while frame is not None:
        module = str(frame.f_globals.get("__name__"))
        if module not in ("torch.library", "torch._ops") and not module.startswith("torch._library."):
            return module.startswith(("torch.", "gpututor."))
        frame = frame.f_back
    return False
