"""`torch.cuda`: devices, its start, streams, and what is refused of it."""

from __future__ import annotations

import torch

from gpututor.devices.virtual.face import devices as cuda
from gpututor.devices.virtual.face import events, generators, graphs, nvtx, settings, streams, types
from gpututor.devices.virtual.parallel import threads
from gpututor.devices.virtual.patch_table.rows import each, refuse, refuse_classes
from gpututor.devices.virtual.patches import Patch

_TUNABLE = (
    *("enable", "tuning_enable", "tuning_is_enabled", "record_untuned_enable", "record_untuned_is_enabled"),
    *("set_max_tuning_duration", "get_max_tuning_duration", "set_max_tuning_iterations", "get_max_tuning_iterations"),
    *("set_filename", "get_filename", "get_results", "get_validators", "read_file", "tune_gemm_in_file"),
    *("mgpu_tune_gemm_in_file", "set_rotating_buffer_size", "get_rotating_buffer_size"),
    "set_numerical_check_tolerances",
    # torch 2.9 has these too.
    *(name for name in ("write_file", "write_file_on_exit") if hasattr(torch.cuda.tunable, name)),
)

PATCHES: tuple[Patch, ...] = (
    *each(
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
    *each("torch.backends.cuda", "this passes for a CUDA build", is_built=cuda.is_built),
    *each(
        "torch.cuda",
        "CUDA is started and forked in Python",
        init=cuda.lazy_init,
        _lazy_init=threads.start_cuda,
        _lazy_call=cuda.lazy_call,
        is_initialized=cuda.is_initialized,
        _is_in_bad_fork=cuda.is_in_bad_fork,
        ipc_collect=cuda.ipc_collect,
    ),
    *each("torch.cuda", "checkpointing keeps the random state of a device only where this is true", _initialized=True),
    *each(
        "torch.cuda",
        "the current GPU is kept for each thread in Python; `device` and `device_of` call the last two",
        current_device=cuda.current_device,
        set_device=cuda.set_device,
        _exchange_device=cuda.exchange_device,
        _maybe_exchange_device=cuda.maybe_exchange_device,
    ),
    *each(
        "torch.cuda",
        "streams and events are on the machine's clock; torch's own `stream` and `set_stream` call the last but two",
        Stream=streams.CudaStream,
        Event=events.CudaEvent,
        current_stream=streams.current_stream,
        default_stream=streams.default_stream,
        _set_stream_by_id=streams.set_stream_by_id,
        synchronize=cuda.synchronize,
        _sleep=streams.sleep,
    ),
    *each(
        "torch.cuda",
        "what is said of waits is chosen for each machine",
        get_sync_debug_mode=cuda.get_sync_debug_mode,
        set_sync_debug_mode=cuda.set_sync_debug_mode,
    ),
    *each(
        "torch.cuda.streams",
        "the same classes by their other names",
        Stream=streams.CudaStream,
        Event=events.CudaEvent,
    ),
    *each(
        "torch._C",
        "what compilers and tests call instead of torch.cuda's functions",
        _cuda_getCurrentStream=streams.current_stream_data,
        _cuda_getDefaultStream=streams.default_stream_data,
        _cuda_getCurrentRawStream=streams.current_raw_stream,
        _cuda_setStream=streams.set_stream_by_id,
        _cuda_isCurrentStreamCapturing=streams.is_current_stream_capturing,
    ),
    *each(
        "torch.cuda",
        "whether a graph is captured is known in Python",
        is_current_stream_capturing=streams.is_current_stream_capturing,
    ),
    *each(
        "torch.cuda.graphs",
        "the same function by its other name",
        is_current_stream_capturing=streams.is_current_stream_capturing,
    ),
    *refuse_classes("torch.cuda", "MemPool", "GreenContext", "CUDAPluggableAllocator"),
    *each("torch.cuda", "graphs are captured and replayed in Python", CUDAGraph=graphs.CUDAGraph),
    *each(
        "torch.cuda.graphs",
        "the same class by its other name, and what torch's own functions call",
        CUDAGraph=graphs.CUDAGraph,
        _graph_pool_handle=graphs.new_pool,
    ),
    *each("torch.cuda", "a stream of this machine would be kept", graph=graphs.CaptureBlock),
    *each("torch.cuda.graphs", "the same class by its other name", graph=graphs.CaptureBlock),
    *each("torch._C", "what torch.cuda.graph calls before a capture", _host_emptyCache=graphs.empty_host_memory),
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
    *each(
        "torch.cuda.profiler",
        "a range of the trace; torch's own `profile` calls them",
        start=nvtx.start_capture,
        stop=nvtx.stop_capture,
    ),
    *refuse("torch.cuda.profiler", "init", "cudart", "check_error"),
    *each("torch.cuda.tunable", "nothing is tuned: no GEMM has two ways here", is_enabled=settings.is_off),
    *refuse("torch.cuda.tunable", *_TUNABLE),
    *each(
        "torch.cuda.nvtx",
        "ranges nest, and land in the trace",
        range_push=nvtx.range_push,
        range_pop=nvtx.range_pop,
        range_start=nvtx.range_start,
        range_end=nvtx.range_end,
        mark=nvtx.mark,
    ),
    *refuse("torch.cuda.nvtx", "_device_range_start", "_device_range_end"),
    *each("torch.cuda", "tensor types of a device", **types.TENSOR_TYPES),
    *each("torch.cuda.sparse", "tensor types of a device", **types.SPARSE_TENSOR_TYPES),
    *refuse_classes("torch.cuda", *types.STORAGE_TYPES),
    *each("torch.cuda", "its numbers depend on the machine", default_generators=generators.DefaultGenerators()),
    *each("torch.backends.cuda", "there are no cuFFT plans", cufft_plan_cache=settings.PlanCaches()),
    *each(
        "torch.backends.cudnn",
        "this passes for a CUDA build, and such have cuDNN",
        is_available=settings.has_cudnn,
        version=settings.cudnn_version,
    ),
    *refuse("torch.backends.cuda", "blas_workspace_size", "cublas_workspace_size", "cublaslt_workspace_size"),
)

CUDA_BUILD: tuple[Patch, ...] = (
    *each("torch.version", "programs for CUDA read it, such as DDP's bf16_compress_hook", cuda=settings.CUDA_VERSION),
)
"""Only for a machine whose backends include cuda."""
