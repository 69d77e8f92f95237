"""Stand-ins for what is not built: each use says so, by name; `refuses` tells which call that is."""

from __future__ import annotations

from typing import Any

from gpututor.devices.virtual import errors

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
    return _INSTEAD.get(call.rsplit(".", 1)[-1], "")


def refused(call: str) -> Any:
    """A class whose every use says that `call` is not supported; it can be named in annotations and isinstance."""

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise errors.unsupported(call, instead_of(call))

    body = {"__new__": refuse, "__init__": refuse, "__module__": "torch.cuda", "refuses": call}
    return type(call.rsplit(".", 1)[-1], (), body)


def refused_function(call: str) -> Any:
    """A function that says that `call` is not supported."""

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise errors.unsupported(call, instead_of(call))

    refuse.refuses = call  # type: ignore[attr-defined]
    return refuse
