"""Patches of `torch.cuda` and `torch.accelerator`."""

from __future__ import annotations

from gpututor.devices.virtual import threads
from gpututor.devices.virtual.api import (
    accelerator,
    devices,
    graphs,
    memory,
    nvtx,
    random,
    sensors,
    streams,
    tensor_types,
)
from gpututor.devices.virtual.cuda_errors import refused_function
from gpututor.devices.virtual.operators import attention
from gpututor.devices.virtual.patches.patch import Patch, patch_all
from gpututor.devices.virtual.profiler import profile

# Some lambdas only call another replacement, because torch._dynamo needs a different function for each name.
CUDA: tuple[Patch, ...] = (
    *patch_all(
        "torch.cuda",
        "the GPUs are the machine's",
        is_available=devices.is_available,
        device_count=devices.device_count,
        get_device_name=devices.get_device_name,
        get_device_capability=devices.get_device_capability,
        get_device_properties=devices.get_device_properties,
        get_arch_list=devices.get_arch_list,
        is_bf16_supported=devices.is_bf16_supported,
        can_device_access_peer=devices.can_device_access_peer,
    ),
    *patch_all("torch.backends.cuda", "programs expect a CUDA build", is_built=devices.is_built),
    *patch_all(
        "torch.cuda",
        "CUDA is started and forked in Python",
        init=devices.lazy_init,
        _lazy_init=threads.start_cuda,
        _lazy_call=devices.lazy_call,
        is_initialized=devices.is_initialized,
        _is_in_bad_fork=devices.is_in_bad_fork,
        ipc_collect=lambda: devices.lazy_init(),
    ),
    *patch_all(
        "torch.cuda", "checkpointing stores the random state of a device only if this is true", _initialized=True
    ),
    *patch_all(
        "torch.cuda",
        "the current GPU of each thread is known in Python; `device` and `device_of` call the last two",
        current_device=devices.current_device,
        set_device=devices.set_device,
        _exchange_device=devices.exchange_device,
        _maybe_exchange_device=lambda index: devices.exchange_device(index),
    ),
    *patch_all(
        ("torch.cuda", "torch.cuda.streams"),
        "streams and events are on the machine's clock",
        Stream=streams.CudaStream,
        Event=streams.CudaEvent,
    ),
    *patch_all(
        "torch.cuda",
        "streams are on the machine's clock; torch's own `stream` and `set_stream` call the third",
        current_stream=streams.current_stream,
        default_stream=streams.default_stream,
        _set_stream_by_id=streams.set_stream_by_id,
        synchronize=devices.synchronize,
        _sleep=streams.sleep,
    ),
    *patch_all(
        "torch.cuda",
        "each machine has its own debug mode",
        get_sync_debug_mode=devices.get_sync_debug_mode,
        set_sync_debug_mode=devices.set_sync_debug_mode,
    ),
    *patch_all(
        "torch._C",
        "compilers and tests call these instead of torch.cuda's functions",
        _cuda_getCurrentStream=streams.current_stream_data,
        _cuda_getDefaultStream=streams.default_stream_data,
        _cuda_getCurrentRawStream=streams.current_raw_stream,
        _cuda_setStream=streams.set_stream_by_id,
        _cuda_isCurrentStreamCapturing=streams.is_current_stream_capturing,
        _cuda_getDevice=lambda: devices.current_device(),
        _cuda_setDevice=lambda index: devices.set_device(index),
        _cuda_exchangeDevice=lambda index: devices.exchange_device(index),
        _cuda_maybeExchangeDevice=lambda index: devices.exchange_device(index),
    ),
    *patch_all(
        "torch._C",
        "PyTorch's own tests call these after each test; cuBLAS takes no workspaces here",
        _cuda_clearCublasWorkspaces=lambda: None,
        _cuda_resetCublasWorkspaceSize=lambda: None,
        _cuda_resetCublasLtWorkspaceSize=lambda: None,
    ),
    *patch_all(
        ("torch.cuda", "torch.cuda.graphs"),
        "graphs are captured and replayed in Python; torch's own `graph` would store a stream of this machine",
        is_current_stream_capturing=streams.is_current_stream_capturing,
        CUDAGraph=graphs.CUDAGraph,
        graph=graphs.CaptureBlock,
    ),
    *patch_all("torch.cuda.graphs", "torch's own functions call it", _graph_pool_handle=graphs.new_pool),
    *patch_all(
        "torch._C",
        "a CUDA build without a GPU would wait for this mutex forever",
        _cuda_lock_mutex=lambda: None,
        _cuda_unlock_mutex=lambda: None,
    ),
    *patch_all("torch._C", "torch.cuda.graph calls it", _host_emptyCache=memory.empty_host_cache),
    *patch_all(
        "torch.cuda.profiler",
        "a range of the trace; torch's own `profile` calls them",
        start=nvtx.start_capture,
        stop=lambda: nvtx.range_end(nvtx.CAPTURE),
    ),
    *patch_all(
        "torch.cuda",
        "they ask NVML for a real GPU's sensors",
        utilization=sensors.utilization,
        memory_usage=sensors.memory_usage,
        power_draw=sensors.power_draw,
        temperature=sensors.temperature,
        clock_rate=sensors.clock_rate,
        device_memory_used=sensors.device_memory_used,
    ),
    *patch_all("torch.cuda.tunable", "nothing is tuned: no GEMM has two kernels here", is_enabled=lambda: False),
    *patch_all(
        "torch.cuda.nvtx",
        "ranges nest, and are recorded in the trace",
        range_push=nvtx.range_push,
        range_pop=nvtx.range_pop,
        range_start=nvtx.range_start,
        range_end=nvtx.range_end,
        mark=nvtx.mark,
    ),
    *patch_all("torch.cuda", "tensor types of a device", **tensor_types.TENSOR_TYPES),
    *patch_all("torch.cuda.sparse", "tensor types of a device", **tensor_types.SPARSE_TENSOR_TYPES),
    *patch_all("torch.cuda", "its length depends on the machine", default_generators=random.DefaultGenerators()),
    *patch_all("torch.backends.cuda", "there are no cuFFT plans", cufft_plan_cache=devices.PlanCaches()),
    *patch_all(
        "torch.backends.cudnn",
        "programs expect a CUDA build, which has cuDNN",
        is_available=devices.has_cudnn,
        version=devices.cudnn_version,
    ),
)

CUDA_BUILD: tuple[Patch, ...] = (
    *patch_all(
        "torch.version", "programs for CUDA read it, such as DDP's bf16_compress_hook", cuda=devices.CUDA_VERSION
    ),
    *patch_all(
        "torch._C",
        "a CPU build has no fused attention; `torch.backends.cuda` asks these functions",
        _is_flash_attention_available=lambda: True,
        _can_use_flash_attention=attention.can_use_flash,
        _can_use_mem_efficient_attention=attention.can_use_efficient,
        _can_use_cudnn_attention=attention.can_use_cudnn,
    ),
)
"""Patches for a machine whose backends include cuda."""
CPU_BUILD: tuple[Patch, ...] = (
    *patch_all("torch.version", "programs expect a build without CUDA", cuda=None),
    *(
        Patch(patch.owner, patch.name, getattr(patch.owner_object(), patch.name), "undoes a patch of CUDA_BUILD")
        for patch in CUDA_BUILD
        if patch.owner == "torch._C"
    ),
)
"""Patches for any other machine, which looks like a build without CUDA."""


ACCELERATOR: tuple[Patch, ...] = (
    *patch_all(
        "torch._C",
        "torch.accelerator's functions only call these",
        _accelerator_getAccelerator=accelerator.get_accelerator,
        _get_accelerator=accelerator.get_accelerator_or_cpu,
        _accelerator_getDeviceIndex=accelerator.current_index,
        _accelerator_setDeviceIndex=accelerator.set_index,
        _accelerator_exchangeDevice=accelerator.exchange_accelerator,
        _accelerator_maybeExchangeDevice=lambda index: accelerator.exchange_accelerator(index),
        _accelerator_getStream=accelerator.get_stream,
        _accelerator_setStream=accelerator.set_stream,
        _accelerator_synchronizeDevice=accelerator.synchronize_device,
        _accelerator_getDeviceCapability=lambda index: devices.get_device_capability(index),
        _accelerator_isAllocatorInitialized=devices.is_initialized,
        _accelerator_emptyCache=memory.empty_cache,
        _accelerator_getDeviceStats=memory.nested_statistics,
        _accelerator_getMemoryInfo=memory.mem_get_info,
        _accelerator_resetPeakStats=memory.reset_peaks,
        _accelerator_resetAccumulatedStats=memory.reset_accumulated,
        _accelerator_emptyHostCache=accelerator.empty_host_cache,
    ),
    *patch_all(
        "torch",
        "streams and events of a virtual GPU are on its clock; C++ would make the CPU's",
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
        "torch.profiler is built on it: with CUDA its object gets another class, and C++ profiles the CPU only",
        __init__=profile.init,
    ),
    *patch_all("torch.autograd.profiler.emit_nvtx", "no other profiler listens", __enter__=profile.emit_nvtx),
    *patch_all(
        ("torch.profiler", "torch.profiler.profiler"),
        "the default activities of a profile",
        supported_activities=profile.supported_activities,
    ),
    *patch_all(
        "torch._C",
        "called before a program is run again under valgrind; torch.utils.benchmark itself is rarely imported",
        _valgrind_supported_platform=refused_function(
            "torch.utils.benchmark.Timer.collect_callgrind",
            "It counts a real CPU's instructions: use timeit() or blocked_autorange().",
        ),
    ),
    *patch_all("torch", "its first result is remembered", get_device_module=accelerator.get_device_module),
    *patch_all(
        "torch.backends.mps", "availability only", is_available=accelerator.has_mps, is_built=accelerator.has_mps
    ),
    *patch_all(
        "torch.mps",
        "availability only",
        is_available=accelerator.has_mps,
        device_count=lambda: int(accelerator.has_mps()),
    ),
    *patch_all(
        "torch.xpu",
        "availability only; torch 2.12's optimizers call the last",
        is_available=accelerator.has_xpu,
        device_count=lambda: int(accelerator.has_xpu()),
        is_current_stream_capturing=streams.is_current_stream_capturing,
    ),
)


MEMORY: tuple[Patch, ...] = (
    *patch_all(
        ("torch.cuda", "torch.cuda.memory"),
        "called often, and torch's own functions collect all statistics to return one",
        memory_allocated=memory.memory_allocated,
        max_memory_allocated=memory.max_memory_allocated,
        memory_reserved=memory.memory_reserved,
        max_memory_reserved=memory.max_memory_reserved,
        mem_get_info=memory.mem_get_info,
    ),
    *patch_all(
        "torch._C",
        "memory is counted in Python: torch.cuda.memory's own functions call these",
        _cuda_memoryStats=memory.nested_statistics,
        _cuda_resetPeakMemoryStats=memory.reset_peaks,
        _cuda_resetAccumulatedMemoryStats=memory.reset_accumulated,
        _cuda_setMemoryFraction=memory.set_fraction,
        _cuda_getMemoryFraction=memory.fraction,
        _cuda_emptyCache=memory.empty_cache,
        _cuda_hostMemoryStats=memory.host_statistics,
        _cuda_resetPeakHostMemoryStats=memory.reset_host_peaks,
        _cuda_resetAccumulatedHostMemoryStats=memory.reset_host_accumulated,
        _cuda_memorySnapshot=memory.snapshot,
        _cuda_record_memory_history=memory.record_history,
        _cuda_record_memory_history_legacy=memory.record_history_legacy,
        _cuda_getAllocatorBackend=lambda: "native",
        _accelerator_setAllocatorSettings=memory.set_allocator_settings,
        _accelerator_getAllocatorSettings=memory.allocator_settings,
    ),
    *patch_all(("torch.cuda", "torch.cuda.memory"), "pools are kept by the modelled allocator", MemPool=memory.MemPool),
    *patch_all(
        "torch.cuda.memory",
        "torch.cuda.use_mem_pool calls them",
        _cuda_beginAllocateCurrentThreadToPool=memory.begin_pool,
        _cuda_endAllocateToPool=memory.end_pool,
        _cuda_releasePool=memory.release_pool,
    ),
    *patch_all(
        "torch.cuda.memory",
        "names that it imported from torch.cuda",
        is_initialized=devices.is_initialized,
        _lazy_init=devices.lazy_init,
    ),
)


RANDOM: tuple[Patch, ...] = (
    *patch_all(
        ("torch.cuda", "torch.cuda.random"),
        "each GPU draws from its own CPU generator, for torch.random and checkpointing too",
        manual_seed=random.manual_seed,
        manual_seed_all=random.manual_seed_all,
        seed=random.seed,
        seed_all=random.seed_all,
        initial_seed=random.initial_seed,
        get_rng_state=random.get_rng_state,
        get_rng_state_all=random.get_rng_state_all,
        set_rng_state=random.set_rng_state,
        set_rng_state_all=random.set_rng_state_all,
    ),
    *patch_all("torch", "a generator on a device draws on the CPU", Generator=random.DeviceGenerator),
)
