"""CUDA's errors and warnings, with its messages."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import torch

_ASYNCHRONOUS = (
    "\nCUDA kernel errors might be asynchronously reported at some other API call, "
    "so the stacktrace below might be incorrect."
    "\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1"
    "\nCompile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n"
)


invalid_ordinal = partial(
    torch.AcceleratorError,
    "CUDA error: invalid device ordinal\nGPU device may be out of range, do you have enough GPUs?" + _ASYNCHRONOUS,
)
"""A device number beyond the last GPU (c10/cuda/CUDAException.cpp)."""


def invalid_device_argument(index: int) -> RuntimeError:
    """Return the allocator's error for a number without a GPU (c10/cuda/CUDACachingAllocator.cpp, assertValidDevice).

    C++ prints its type of device numbers as a character: 9 is a tab.
    """
    return RuntimeError(f"Invalid device argument {chr(index % 256)}: did you call init?")


bad_fork = partial(
    RuntimeError,
    "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the 'spawn' "
    "start method",
)
"""CUDA's start in a forked child of a process that had started it (torch/cuda/__init__.py)."""
forked_tensor = partial(torch.AcceleratorError, "CUDA error: initialization error" + _ASYNCHRONOUS)
"""Work on a tensor that a forked child inherited."""


def _cuda_error(name: str, words: str) -> Callable[[], Exception]:
    """Return a function that makes an error with a link to its description (c10/cuda/CUDAMiscFunctions.cpp)."""
    return lambda: torch.AcceleratorError(
        f"CUDA error: {words}\nSearch for `{name}' in https://docs.nvidia.com/cuda/cuda-runtime-api/"
        "group__CUDART__TYPES.html for more information." + _ASYNCHRONOUS
    )


device_assert = _cuda_error("cudaErrorAssert", "device-side assert triggered")
invalid_resource_handle = _cuda_error("cudaErrorInvalidResourceHandle", "invalid resource handle")
"""Raised for `elapsed_time` between events of two GPUs."""
while_capturing = _cuda_error("cudaErrorStreamCaptureUnsupported", "operation not permitted when stream is capturing")
"""Raised for a wait or a query during a capture."""
capture_failed = _cuda_error(
    "cudaErrorStreamCaptureInvalidated", "operation failed due to a previous error during capture"
)
capture_unjoined = _cuda_error("cudaErrorStreamCaptureUnjoined", "capturing stream has unjoined work")
"""The end of a capture with work on another stream that the first stream did not wait for."""
capture_of_uncaptured = _cuda_error(
    "cudaErrorStreamCaptureIsolation", "dependency created on uncaptured work in another stream"
)
"""A wait, in a capture, for an event that was recorded outside of it."""
capture_of_default_stream = _cuda_error(
    "cudaErrorStreamCaptureImplicit", "operation would make the legacy stream depend on a capturing blocking stream"
)
nothing_captured = _cuda_error("cudaErrorIllegalState", "the operation cannot be performed in the present state")
"""The end of a capture that did not begin."""
captured_event = _cuda_error(
    "cudaErrorCapturedEvent", "operation not permitted on an event last recorded in a capturing stream"
)
capture_of_pageable = partial(
    RuntimeError,
    "Cannot copy between CPU and CUDA tensors during CUDA graph capture unless the CPU tensor is pinned. "
    "Please use tensor.pin_memory() or allocate the tensor with pin_memory=True.",
)
"""A copy of pageable memory in a capture (aten/src/ATen/native/cuda/Copy.cu)."""
other_seed_in_capture = partial(
    RuntimeError,
    "CUDAGeneratorImpl::set_current_seed can be called during stream capture only if new seed is the same as the "
    "original seed.",
)
"""Another seed for a generator, or a state with one, in a capture (CUDAGeneratorImpl.cpp)."""
left_over_event = partial(
    RuntimeError, "This event was recorded on a virtual GPU that is switched off: record it again."
)
left_over_graph = partial(
    RuntimeError, "This graph was captured on a virtual GPU that is switched off: capture it again."
)
left_over = partial(
    RuntimeError,
    "This tensor is on a virtual GPU that is switched off. Another virtual GPU is on now, with its own memory: "
    "make the tensor again.",
)
"""A tensor of an earlier machine on a later one, which is like a new process."""
switched_off = partial(RuntimeError, "The virtual GPU that this thread works on is switched off.")
"""Work of a thread that outlived its machine."""
not_compiled = partial(AssertionError, "Torch not compiled with CUDA enabled")
"""A build without CUDA (torch/cuda/__init__.py)."""


def freed_inputs(addresses: Sequence[int]) -> RuntimeError:
    """Return the error for a replay whose inputs are gone (torch/utils/_cuda_debug.py), without tracebacks."""
    shown = [f"Dead tensor #{number} (data_ptr={address:#x}):" for number, address in enumerate(addresses[:5], 1)]
    rest = [f"  ... and {len(addresses) - 5} more"] if len(addresses) > 5 else []
    return RuntimeError("\n".join([f"CUDA graph replay detected {len(addresses)} dead tensor(s).", *shown, *rest]))


def not_in_capture(attempt: str) -> RuntimeError:
    """Return the error for a call of a generator that a capture forbids (CUDAGraphsUtils.cuh, assertNotCapturing)."""
    return RuntimeError(
        f"{attempt} during CUDA graph capture. If you need this call to be captured, please file an issue. "
        "Current cudaStreamCaptureStatus: cudaStreamCaptureStatusActive"
    )


def event_of_another_device(event: int, stream: int) -> RuntimeError:
    """Return the error for recording an event on two GPUs (c10/cuda/CUDAEvent.h), with numbers as characters."""
    return RuntimeError(f"Event device {chr(event)} does not match recording stream's device {chr(stream)}.")


def no_gpus(driver: str) -> RuntimeError:
    """Return the error of a CUDA build on a machine without a usable GPU, by one of `DRIVERS`.

    The texts for a missing and an old driver are those of c10/cuda/CUDAFunctions.cpp.
    """
    url = "http://www.nvidia.com/Download/index.aspx"
    if driver == "missing":
        return RuntimeError(
            "Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU and installed a driver "
            f"from {url}"
        )
    if driver == "too old":
        return RuntimeError(
            f"The NVIDIA driver on your system is too old (found version {OLD_DRIVER}). Please update your GPU driver "
            f"by downloading and installing a new version from the URL: {url} Alternatively, go to: "
            "https://pytorch.org to install a PyTorch version that has been compiled with your version of the CUDA "
            "driver."
        )
    return RuntimeError("No CUDA GPUs are available")


OLD_DRIVER = 11040
"""CUDA version of a driver that is too old: 11.4, encoded as `1000 * major + 10 * minor`."""


def overwritten(*, is_gradient: bool = False) -> RuntimeError:
    """Return the error for a result of compiled code whose memory a later call uses (_inductor/cudagraph_trees.py)."""
    if is_gradient:
        return RuntimeError(
            "Error: accessing gradient tensor output of CUDAGraphs that has been overwritten by a subsequent run. "
            "Stack trace: [Could not find stack trace]. This can happen with "
            "torch.compile(mode='reduce-overhead') and gradient accumulation when a .grad tensor is allocated during "
            "CUDAGraph capture. If you need gradient accumulation, allocate stable .grad buffers outside CUDAGraph "
            "capture before the compiled backward runs, for example by running an eager warmup iteration or by "
            "preallocating zeroed .grad tensors. If you do not need gradient accumulation, set .grad to None before "
            "each backward."
        )
    return RuntimeError(
        "Error: accessing tensor output of CUDAGraphs that has been overwritten by a subsequent run. "
        "Stack trace: [Could not find stack trace]. "
        "To prevent overwriting, clone the tensor outside of torch.compile() "
        "or call torch.compiler.cudagraph_mark_step_begin() before each model invocation."
    )


def unsupported(call: str, instead: str = "") -> NotImplementedError:
    return NotImplementedError(f"The virtual GPU does not support {call}." + (f" {instead}" if instead else ""))


def refused_function(call: str, instead: str = "") -> Any:
    """Return a function that raises `unsupported(call, instead)`."""

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise unsupported(call, instead)

    refuse.refuses = call  # type: ignore[attr-defined]
    return refuse


def no_kernel(operator: str, backend: str) -> NotImplementedError:
    """Return the dispatcher's error for an operator without a kernel for a backend (OperatorEntry.cpp)."""
    return NotImplementedError(
        f"Could not run '{operator}' with arguments from the '{backend}' backend. This could be because the operator "
        "doesn't exist for this backend, or was omitted during the selective/custom build process (if using custom "
        "build)."
    )


class NoValues(RuntimeError):
    """An operation needs a value on a virtual GPU without values (`virtual_gpu(values=False)`)."""

    def __init__(self, call: str, instead: str = "") -> None:
        self.instead = instead
        super().__init__()
        self.name_call(call)

    def name_call(self, call: str) -> None:
        """Name the user's call in the message instead of the operator that it ran."""
        if not call:
            return
        instead = self.instead or "Leave it out, or run with values, on smaller sizes."
        self.args = (
            f"{call} needs values, but the tensors of this virtual GPU have shapes only (values=False). {instead}",
        )


def modes_removed() -> RuntimeError:
    return RuntimeError(
        "Code in the virtual GPU's block removed its modes from PyTorch's stacks: push back each mode that you pop."
    )


def backend_without_tensors(kind: str) -> NotImplementedError:
    """Return the error for a tensor on a device that only reports itself available."""
    return NotImplementedError(
        f"This practice machine reports that {kind} is available, but it cannot compute on {kind}: "
        "only choose the device here."
    )


def _size(size_bytes: int) -> str:
    """Format a size as CUDA's allocator does: `20.00 GiB` (format_size)."""
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size_bytes >= size:
            return f"{size_bytes / size:.2f} {unit}"
    return f"{size_bytes} bytes"


_EXABYTE = 1 << 60


def out_of_memory(
    index: int, *, wanted: int, total: int, free: int, allowed: int | None, reserved: int, allocated: int
) -> torch.OutOfMemoryError:
    """Return CUDA's out-of-memory error (c10/cuda/CUDACachingAllocator.cpp); all sizes in bytes.

    `wanted` is the size of the new segment, `allowed` this process's share, if it is limited.
    """
    if wanted >= _EXABYTE:
        return torch.OutOfMemoryError("CUDA out of memory. Tried to allocate more than 1EB memory.")
    return torch.OutOfMemoryError(
        f"CUDA out of memory. Tried to allocate {_size(wanted)}. GPU {index} has a total capacity of {_size(total)} of "
        f"which {_size(free)} is free. Including non-PyTorch memory, this process has {_size(reserved)} memory in use. "
        f"{'' if allowed is None else _size(allowed) + ' allowed; '}Of the allocated memory {_size(allocated)} is "
        f"allocated by PyTorch, and {_size(reserved - allocated)} is reserved by PyTorch but unallocated. If reserved "
        "but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to "
        "avoid fragmentation.  See documentation for Memory Management  (https://docs.pytorch.org/docs/stable/notes/"
        "cuda.html#optimizing-memory-usage-with-pytorch-cuda-alloc-conf)"
    )


def host_out_of_memory(size_bytes: int, left: int) -> MemoryError:
    """Return the error for a host that runs out of memory before the virtual GPU does."""
    return MemoryError(
        f"This machine has only {_size(left)} of memory left, but a tensor needs {_size(size_bytes)}. A virtual GPU "
        "keeps its tensors' values in this machine's memory: use smaller tensors."
    )


def no_numpy(device: torch.device) -> TypeError:
    return TypeError(
        f"can't convert {device} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first."
    )


def cannot_pin(kind: str) -> RuntimeError:
    return RuntimeError(f"cannot pin '{kind}' only dense CPU tensors can be pinned")


def wrong_storage(tensor: torch.device, storage: torch.device) -> RuntimeError:
    """Return the error for `tensor.set_` with a source on another device (aten/src/ATen/native/Resize.cpp)."""
    return RuntimeError(
        f'Attempted to set the storage of a tensor on device "{tensor}" to a storage on different device "{storage}".  '
        "This is no longer allowed; the devices must match."
    )


def real_tensor(device: torch.device) -> RuntimeError:
    """Return the error for a tensor of this machine's own GPU next to one of the virtual GPU."""
    return RuntimeError(
        f"Expected all tensors to be on the virtual GPU, but found at least one on this machine's own {device}! "
        "Create all tensors while the virtual GPU is on."
    )


def wrong_generator(expected: str, actual: str) -> RuntimeError:
    """Return the error for a generator of another kind of device (aten/src/ATen/core/Generator.h)."""
    return RuntimeError(f"Expected a '{expected}' device type for generator but found '{actual}'")


def wrong_gradient(tensor: torch.device, gradient: torch.device) -> RuntimeError:
    """Return the error for `tensor.grad = gradient` across devices (torch/csrc/autograd/python_variable.cpp)."""
    if tensor.type != gradient.type:
        places = f"with device type '{gradient.type}' to a tensor with device type '{tensor.type}'"
    else:
        places = (
            f"located on device with index '{gradient.index}' to a tensor located on device with index '{tensor.index}'"
        )
    return RuntimeError(
        f"attempting to assign a gradient {places}. "
        "Please ensure that the gradient and the tensor are on the same device"
    )


def invalid_gradient(function: str, position: int, expected: torch.device, got: torch.device) -> RuntimeError:
    """Return the error for a gradient on another device than its tensor (torch/csrc/autograd/engine.cpp).

    `function` returned it; it is empty for a gradient that starts the backward pass.
    """
    gradient = f"invalid gradient at index {position} - expected device {expected} but got {got}"
    return RuntimeError(f"Function {function} returned an {gradient}" if function else gradient)


_CPP_NAMES = (
    (re.compile(r"\bMeta([A-Z][A-Za-z0-9]*)Type\b"), r"torch.cuda.\1Tensor"),
    (re.compile(r"\bmeta:(?=\d)"), "cuda:"),
    (re.compile(r"'meta'|\"meta\""), "'cuda'"),
    (re.compile(r"\bMeta\b"), "CUDA"),
)


def with_cuda_device_names(message: str) -> str:
    """Replace `meta`, C++'s name for a virtual GPU, with `cuda`."""
    if "eta" not in message:
        return message
    for cpp_name, cuda_name in _CPP_NAMES:
        message = cpp_name.sub(cuda_name, message)
    return message.replace("type meta", "type cuda").replace("meta DeviceType", "cuda DeviceType")


_OURS = str(Path(__file__).parent)
_SKIPPED = (_OURS, str(Path(torch.__file__).parent), warnings.__file__)
# C++ and `warnings.warn` call this to show a warning that passed all filters.
_real_show: Any = warnings._showwarnmsg  # type: ignore[attr-defined]


def nearest_outside() -> FrameType | None:
    """Return the nearest frame outside of this package and torch."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_SKIPPED):
        frame = frame.f_back
    return frame


def warn_at_caller(message: str) -> None:
    """Warn at the nearest line outside this package and torch, once per line, as C++ warns at Python's current line."""
    frame = nearest_outside()
    if frame is not None:
        registry = frame.f_globals.setdefault("__warningregistry__", {})
        warnings.warn_explicit(message, UserWarning, frame.f_code.co_filename, frame.f_lineno, registry=registry)


def show_warning(message: Any) -> None:
    """Show a warning. A line of this package is replaced by the nearest line outside this package and torch."""
    if message.filename.startswith(_OURS):
        frame = nearest_outside()
        if frame is not None:
            message.filename, message.lineno = frame.f_code.co_filename, frame.f_lineno
    _real_show(message)
