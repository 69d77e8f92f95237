"""Patches of `torch.cuda` and `torch.accelerator`."""

from __future__ import annotations

import torch

from gpututor.devices.virtual import threads
from gpututor.devices.virtual.api import accelerator, devices, graphs, memory, nvtx, random, streams, tensor_types
from gpututor.devices.virtual.api import devices as cuda
from gpututor.devices.virtual.api.unsupported import refused_function
from gpututor.devices.virtual.patches.patch import Patch, patch_all, refuse, refuse_classes
from gpututor.devices.virtual.profiler import profile

_TUNABLE = (
    *("enable", "tuning_enable", "tuning_is_enabled", "record_untuned_enable", "record_untuned_is_enabled"),
    *("set_max_tuning_duration", "get_max_tuning_duration", "set_max_tuning_iterations", "get_max_tuning_iterations"),
    *("set_filename", "get_filename", "get_results", "get_validators", "read_file", "tune_gemm_in_file"),
    *("mgpu_tune_gemm_in_file", "set_rotating_buffer_size", "get_rotating_buffer_size"),
    "set_numerical_check_tolerances",
    # torch 2.9 has these too.
    *(name for name in ("write_file", "write_file_on_exit") if hasattr(torch.cuda.tunable, name)),
)

CUDA: tuple[Patch, ...] = (
    *patch_all(
        "torch.cuda",
        "which GPUs there are",
        is_available=cuda.is_available,
        device_count=cuda.device_count,
        get_device_name=cuda.get_device_name,
        get_device_capability=cuda.get_device_capability,
        get_device_properties=cuda.get_device_properties,
        get_arch_list=cuda.get_arch_list,
        is_bf16_supported=cuda.is_bf16_supported,
        can_device_access_peer=cuda.can_device_access_peer,
    ),
    *patch_all("torch.backends.cuda", "this passes for a CUDA build", is_built=cuda.is_built),
    *patch_all(
        "torch.cuda",
        "CUDA is started and forked in Python",
        init=cuda.lazy_init,
        _lazy_init=threads.start_cuda,
        _lazy_call=cuda.lazy_call,
        is_initialized=cuda.is_initialized,
        _is_in_bad_fork=cuda.is_in_bad_fork,
        ipc_collect=cuda.ipc_collect,
    ),
    *patch_all(
        "torch.cuda", "checkpointing keeps the random state of a device only where this is true", _initialized=True
    ),
    *patch_all(
        "torch.cuda",
        "the current GPU is kept for each thread in Python; `device` and `device_of` call the last two",
        current_device=cuda.current_device,
        set_device=cuda.set_device,
        _exchange_device=cuda.exchange_device,
        _maybe_exchange_device=cuda.maybe_exchange_device,
    ),
    *patch_all(
        "torch.cuda",
        "streams and events are on the machine's clock; torch's own `stream` and `set_stream` call the last but two",
        Stream=streams.CudaStream,
        Event=streams.CudaEvent,
        current_stream=streams.current_stream,
        default_stream=streams.default_stream,
        _set_stream_by_id=streams.set_stream_by_id,
        synchronize=cuda.synchronize,
        _sleep=streams.sleep,
    ),
    *patch_all(
        "torch.cuda",
        "what is said of waits is chosen for each machine",
        get_sync_debug_mode=cuda.get_sync_debug_mode,
        set_sync_debug_mode=cuda.set_sync_debug_mode,
    ),
    *patch_all(
        "torch.cuda.streams",
        "the same classes by their other names",
        Stream=streams.CudaStream,
        Event=streams.CudaEvent,
    ),
    *patch_all(
        "torch._C",
        "what compilers and tests call instead of torch.cuda's functions",
        _cuda_getCurrentStream=streams.current_stream_data,
        _cuda_getDefaultStream=streams.default_stream_data,
        _cuda_getCurrentRawStream=streams.current_raw_stream,
        _cuda_setStream=streams.set_stream_by_id,
        _cuda_isCurrentStreamCapturing=streams.is_current_stream_capturing,
    ),
    *patch_all(
        "torch.cuda",
        "whether a graph is captured is known in Python",
        is_current_stream_capturing=streams.is_current_stream_capturing,
    ),
    *patch_all(
        "torch.cuda.graphs",
        "the same function by its other name",
        is_current_stream_capturing=streams.is_current_stream_capturing,
    ),
    *refuse_classes("torch.cuda", "MemPool", "GreenContext", "CUDAPluggableAllocator"),
    *patch_all("torch.cuda", "graphs are captured and replayed in Python", CUDAGraph=graphs.CUDAGraph),
    *patch_all(
        "torch.cuda.graphs",
        "the same class by its other name, and what torch's own functions call",
        CUDAGraph=graphs.CUDAGraph,
        _graph_pool_handle=graphs.new_pool,
    ),
    *patch_all("torch.cuda", "a stream of this machine would be kept", graph=graphs.CaptureBlock),
    *patch_all("torch.cuda.graphs", "the same class by its other name", graph=graphs.CaptureBlock),
    *patch_all("torch._C", "what torch.cuda.graph calls before a capture", _host_emptyCache=graphs.empty_host_memory),
    *refuse_classes("torch.cuda", "ExternalStream"),
    *refuse_classes("torch.cuda.streams", "ExternalStream"),
    *refuse_classes("torch.cuda.memory", "MemPool", "CUDAPluggableAllocator"),
    *refuse_classes("torch.cuda.green_contexts", "GreenContext"),
    *refuse_classes("torch.cuda.gds", "GdsFile"),
    *refuse("torch.cuda.gds", "gds_register_buffer", "gds_deregister_buffer"),
    *refuse("torch.cuda", "get_stream_from_external", "_busy_wait_for_flag"),
    *refuse("torch.cuda", "cudart", "check_error", "_compile_kernel", "use_mem_pool"),
    *refuse("torch.cuda", "current_blas_handle", "current_solver_handle"),
    *refuse_classes("torch.cuda", "CudaError"),
    *refuse("torch.cuda.memory", "use_mem_pool"),
    *refuse("torch.cuda.jiterator", "_create_jit_fn", "_create_multi_output_jit_fn"),
    *patch_all(
        "torch.cuda.profiler",
        "a range of the trace; torch's own `profile` calls them",
        start=nvtx.start_capture,
        stop=nvtx.stop_capture,
    ),
    *refuse("torch.cuda.profiler", "init", "cudart", "check_error"),
    *patch_all("torch.cuda.tunable", "nothing is tuned: no GEMM has two ways here", is_enabled=devices.is_off),
    *refuse("torch.cuda.tunable", *_TUNABLE),
    *patch_all(
        "torch.cuda.nvtx",
        "ranges nest, and land in the trace",
        range_push=nvtx.range_push,
        range_pop=nvtx.range_pop,
        range_start=nvtx.range_start,
        range_end=nvtx.range_end,
        mark=nvtx.mark,
    ),
    *refuse("torch.cuda.nvtx", "_device_range_start", "_device_range_end"),
    *patch_all("torch.cuda", "tensor types of a device", **tensor_types.TENSOR_TYPES),
    *patch_all("torch.cuda.sparse", "tensor types of a device", **tensor_types.SPARSE_TENSOR_TYPES),
    *refuse_classes("torch.cuda", *tensor_types.STORAGE_TYPES),
    *patch_all("torch.cuda", "its numbers depend on the machine", default_generators=random.DefaultGenerators()),
    *patch_all("torch.backends.cuda", "there are no cuFFT plans", cufft_plan_cache=devices.PlanCaches()),
    *patch_all(
        "torch.backends.cudnn",
        "this passes for a CUDA build, and such have cuDNN",
        is_available=devices.has_cudnn,
        version=devices.cudnn_version,
    ),
    *refuse("torch.backends.cuda", "blas_workspace_size", "cublas_workspace_size", "cublaslt_workspace_size"),
)

CUDA_BUILD: tuple[Patch, ...] = (
    *patch_all(
        "torch.version", "programs for CUDA read it, such as DDP's bf16_compress_hook", cuda=devices.CUDA_VERSION
    ),
)
"""Only for a machine whose backends include cuda."""


ACCELERATOR: tuple[Patch, ...] = (
    *patch_all(
        "torch._C",
        "torch.accelerator is thin: these are what its functions call",
        _accelerator_getAccelerator=accelerator.get_accelerator,
        _get_accelerator=accelerator.get_accelerator_or_cpu,
        _accelerator_getDeviceIndex=accelerator.current_index,
        _accelerator_setDeviceIndex=accelerator.set_index,
        _accelerator_exchangeDevice=accelerator.exchange_accelerator,
        _accelerator_maybeExchangeDevice=accelerator.maybe_exchange_accelerator,
        _accelerator_getStream=accelerator.get_stream,
        _accelerator_setStream=accelerator.set_stream,
        _accelerator_synchronizeDevice=accelerator.synchronize_device,
        _accelerator_getDeviceCapability=accelerator.device_capability,
        _accelerator_isAllocatorInitialized=cuda.is_initialized,
        _accelerator_emptyCache=memory.empty_cache,
        _accelerator_getDeviceStats=memory.nested_statistics,
        _accelerator_getMemoryInfo=memory.mem_get_info,
        _accelerator_resetPeakStats=memory.reset_peaks,
        _accelerator_resetAccumulatedStats=memory.reset_accumulated,
        _accelerator_emptyHostCache=accelerator.empty_host_cache,
    ),
    *refuse_classes("torch.accelerator", "Graph"),
    *refuse_classes("torch.accelerator.graphs", "Graph"),
    *patch_all(
        "torch",
        "those of a virtual GPU are on its clock; C++ would give the CPU's",
        Stream=streams.Stream,
        Event=streams.Event,
    ),
    *patch_all(
        "torch.profiler.profiler._KinetoProfile",
        "it would show the memory of the values instead of the GPU's",
        export_memory_timeline=profile.export_memory_timeline,
    ),
    *patch_all(
        "torch.autograd.profiler.profile",
        "torch.profiler is built on it: one with CUDA becomes another class, of which C++ sees the CPU's work alone",
        __init__=profile.init,
    ),
    *patch_all("torch.autograd.profiler.emit_nvtx", "no other profiler listens", __enter__=profile.emit_nvtx),
    *patch_all("torch.profiler", "what is profiled without asking", supported_activities=profile.supported_activities),
    *patch_all(
        "torch.profiler.profiler", "the same by its other name", supported_activities=profile.supported_activities
    ),
    *patch_all(
        "torch._C",
        "asked before a program is run again under valgrind; torch.utils.benchmark itself is imported by few",
        _valgrind_supported_platform=refused_function("torch.utils.benchmark.Timer.collect_callgrind"),
    ),
    *patch_all("torch", "its answer is remembered for ever", get_device_module=accelerator.get_device_module),
    *patch_all(
        "torch.backends.mps", "availability only", is_available=accelerator.has_mps, is_built=accelerator.has_mps
    ),
    *patch_all("torch.mps", "availability only", is_available=accelerator.has_mps, device_count=accelerator.mps_count),
    *patch_all(
        "torch.xpu",
        "availability only; torch 2.12's optimisers ask for the last",
        is_available=accelerator.has_xpu,
        device_count=accelerator.xpu_count,
        is_current_stream_capturing=streams.is_current_stream_capturing,
    ),
)


_QUESTIONS = {
    "memory_allocated": memory.memory_allocated,
    "max_memory_allocated": memory.max_memory_allocated,
    "memory_reserved": memory.memory_reserved,
    "max_memory_reserved": memory.max_memory_reserved,
    "mem_get_info": memory.mem_get_info,
}
_REFUSED = (
    *("list_gpu_processes", "caching_allocator_alloc", "caching_allocator_delete", "caching_allocator_enable"),
    *("change_current_allocator", "host_memory_stats", "reset_accumulated_host_memory_stats"),
    *("reset_peak_host_memory_stats", "host_memory_stats_as_nested_dict"),
)

MEMORY: tuple[Patch, ...] = (
    *patch_all("torch.cuda", "asked often: without the detour through all figures", **_QUESTIONS),
    *patch_all("torch.cuda.memory", "the same functions by their other name", **_QUESTIONS),
    *patch_all(
        "torch._C",
        "memory is counted in Python: these are what torch.cuda.memory's own functions call",
        _cuda_memoryStats=memory.nested_statistics,
        _cuda_resetPeakMemoryStats=memory.reset_peaks,
        _cuda_resetAccumulatedMemoryStats=memory.reset_accumulated,
        _cuda_setMemoryFraction=memory.set_fraction,
        _cuda_getMemoryFraction=memory.fraction,
        _cuda_emptyCache=memory.empty_cache,
        _cuda_memorySnapshot=memory.snapshot,
        _cuda_getAllocatorBackend=memory.allocator_backend,
    ),
    *patch_all(
        "torch.cuda.memory",
        "names that it took from torch.cuda when it was imported",
        is_initialized=devices.is_initialized,
        _lazy_init=devices.lazy_init,
    ),
    *refuse("torch.cuda", *_REFUSED),
    *refuse("torch.cuda.memory", *_REFUSED, "_record_memory_history"),
    *refuse("torch.cuda", "utilization", "temperature", "power_draw", "clock_rate"),
    *refuse("torch.cuda", "memory_usage", "device_memory_used"),
)


_FUNCTIONS = {
    "manual_seed": random.manual_seed,
    "manual_seed_all": random.manual_seed_all,
    "seed": random.seed,
    "seed_all": random.seed_all,
    "initial_seed": random.initial_seed,
    "get_rng_state": random.get_rng_state,
    "get_rng_state_all": random.get_rng_state_all,
    "set_rng_state": random.set_rng_state,
    "set_rng_state_all": random.set_rng_state_all,
}

RANDOM: tuple[Patch, ...] = (
    *patch_all("torch.cuda", "each GPU draws from its own CPU generator", **_FUNCTIONS),
    *patch_all("torch.cuda.random", "torch.random and checkpointing reach the generators here", **_FUNCTIONS),
    *patch_all("torch", "a generator on a device draws on the CPU", Generator=random.DeviceGenerator),
)
