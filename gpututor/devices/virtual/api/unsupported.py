"""Features that the virtual GPU does not support: each raises an error that names it."""

from __future__ import annotations

from typing import Any

import torch

from gpututor.devices.virtual import cuda_errors, torch_private
from gpututor.devices.virtual.api.function_mode import DeviceFunctionMode
from gpututor.devices.virtual.machine import meant_device
from gpututor.devices.virtual.tensors.tensor import VirtualTensor, seen_device

_real_nested: Any = torch.nested.nested_tensor


def _holds_virtual(value: Any) -> bool:
    if isinstance(value, torch.nn.Module):
        return any(type(one) is VirtualTensor for one in (*value.parameters(), *value.buffers()))
    if isinstance(value, list | tuple):
        return any(_holds_virtual(one) for one in value)
    if isinstance(value, dict):
        return any(_holds_virtual(one) for one in value.values())
    return type(value) is VirtualTensor


def run_backward(*args: Any, **kwargs: Any) -> Any:
    """Stands in for the call of the autograd engine: hooks and custom Functions name devices too."""
    with DeviceFunctionMode():
        return torch_private.run_engine(*args, **kwargs)


def to_dlpack(tensor: Any) -> Any:
    """Stands in for `torch.utils.dlpack.to_dlpack`."""
    return tensor.__dlpack__() if type(tensor) is VirtualTensor else torch_private.to_dlpack(tensor)


def to_dlpack_versioned(tensor: Any, **options: Any) -> Any:
    """Stands in for what `Tensor.__dlpack__` calls."""
    return (
        tensor.__dlpack__() if type(tensor) is VirtualTensor else torch_private.to_dlpack_versioned(tensor, **options)
    )


def nested_tensor(tensor_list: Any, *args: Any, **kwargs: Any) -> Any:
    """Stands in for `torch.nested.nested_tensor`."""
    device = kwargs.get("device")
    if _holds_virtual(tensor_list) or (device is not None and meant_device(device).type == "cuda"):
        raise cuda_errors.unsupported("torch.nested.nested_tensor")
    return _real_nested(tensor_list, *args, **kwargs)


def parse_to(*args: Any, **kwargs: Any) -> Any:
    """Stands in for what reads the arguments of `module.to(...)`, such as a GPU's number, or a tensor that is there."""
    if args and type(args[0]) is int:
        args = (meant_device(args[0]), *args[1:])
    device, *rest = torch_private.parse_to(*args, **kwargs)
    like = args[0] if args else kwargs.get("tensor")
    return seen_device(device) if isinstance(like, torch.Tensor) else device, *rest


_GRAPHS = "Capture the work by torch.cuda.graph()."
_STREAMS = "Streams of other libraries are not there: make one by torch.cuda.Stream()."
_SENSORS = "It reads a real GPU's sensors, which a model has not: ask torch.cuda.mem_get_info() about memory."
_HANDLES = "It gives a handle for CUDA's own libraries, which are not there: use torch's functions."
_HISTORY = "Blocks have no history: look at torch.cuda.memory_stats() or torch.cuda.memory_summary()."
_POOLS = "There is one allocator: leave the pool out."
_TUNING = "No kernels are chosen here, so there is nothing to tune: leave it out."
_KERNELS = "It compiles CUDA C++ for a real GPU: write the function with torch's operators."
_SETTINGS = "cuBLAS is not there, and takes no memory: leave it out."
_FILES = "It moves files to a real GPU's memory: use torch.load(..., map_location='cuda')."
_CALLGRIND = "It counts a real CPU's instructions: use timeit() or blocked_autorange()."
_NCCL = "Use torch.distributed, with a process for each GPU, or torch.cuda.comm."
_WHY = {
    _CALLGRIND: ("collect_callgrind",),
    _GRAPHS: ("Graph",),
    _STREAMS: ("ExternalStream", "get_stream_from_external", "GreenContext"),
    _SENSORS: ("utilization", "temperature", "power_draw", "clock_rate", "memory_usage", "device_memory_used"),
    _HANDLES: ("cudart", "check_error", "CudaError", "current_blas_handle", "current_solver_handle"),
    _HISTORY: ("_record_memory_history", "_dump_snapshot", "_snapshot", "memory_snapshot", "list_gpu_processes"),
    _POOLS: ("MemPool", "use_mem_pool", "CUDAPluggableAllocator", "change_current_allocator"),
    _KERNELS: ("_compile_kernel", "_create_jit_fn", "_create_multi_output_jit_fn"),
    _SETTINGS: ("blas_workspace_size", "cublas_workspace_size", "cublaslt_workspace_size"),
    _FILES: ("GdsFile", "gds_register_buffer", "gds_deregister_buffer"),
}
_INSTEAD = {name: words for words, names in _WHY.items() for name in names}


def instead_of(call: str) -> str:
    """Why a call is not supported, and what to do; empty where its name says all there is to say."""
    if call.startswith("torch.cuda.tunable."):
        return _TUNING
    if call.startswith("torch.cuda.nccl."):
        return _NCCL
    return _INSTEAD.get(call.rsplit(".", 1)[-1], "")


def unsupported_stub(call: str) -> Any:
    """A class whose every use says that `call` is not supported; it can be named in annotations and isinstance."""

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise cuda_errors.unsupported(call, instead_of(call))

    body = {"__new__": refuse, "__init__": refuse, "__module__": "torch.cuda", "refuses": call}
    return type(call.rsplit(".", 1)[-1], (), body)


def refused_function(call: str) -> Any:
    """A function that says that `call` is not supported."""

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise cuda_errors.unsupported(call, instead_of(call))

    refuse.refuses = call  # type: ignore[attr-defined]
    return refuse


_real_log: Any = torch_private.log_api_usage
_SHARDING = {
    "torch.distributed.fsdp": "torch.distributed.fsdp.FullyShardedDataParallel",
    "torch.distributed.fsdp.fully_shard": "torch.distributed.fsdp.fully_shard",
}


def log_api_usage_once(call: str) -> None:
    """Stands in for `torch._C._log_api_usage_once`, which FSDP calls first: its module need not be imported for this.

    FSDP frees and regrows the storages of its parameters behind C++'s back, which wrappers cannot follow.
    """
    name = _SHARDING.get(call)
    if name is not None:
        raise cuda_errors.unsupported(name, "Use DistributedDataParallel.")
    _real_log(call)


def no_times(logger: Any) -> None:
    """Stands in for what DDP calls before each forward pass, to sample times for its private log."""
