"""`torch.accelerator`, and the backends that only report themselves available."""

from __future__ import annotations

from gpututor.devices.virtual.face import accelerator, events, generic, memory, profiling, streams
from gpututor.devices.virtual.face import devices as cuda
from gpututor.devices.virtual.face.refused import refused_function
from gpututor.devices.virtual.patch_table.rows import each, refuse_classes
from gpututor.devices.virtual.patches import Patch

PATCHES: tuple[Patch, ...] = (
    *each(
        "torch._C",
        "torch.accelerator is thin: these are what its functions call",
        _accelerator_getAccelerator=accelerator.get_accelerator,
        _get_accelerator=accelerator.get_accelerator_or_cpu,
        _accelerator_getDeviceIndex=accelerator.current_index,
        _accelerator_setDeviceIndex=accelerator.set_index,
        _accelerator_exchangeDevice=accelerator.exchange_device,
        _accelerator_maybeExchangeDevice=accelerator.maybe_exchange_device,
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
    *each(
        "torch",
        "those of a virtual GPU are on its clock; C++ would give the CPU's",
        Stream=generic.Stream,
        Event=events.GenericEvent,
    ),
    *each(
        "torch.profiler.profiler._KinetoProfile",
        "it would show the memory of the values instead of the GPU's",
        export_memory_timeline=profiling.export_memory_timeline,
    ),
    *each(
        "torch.autograd.profiler.profile",
        "torch.profiler is built on it: one with CUDA becomes another class, of which C++ sees the CPU's work alone",
        __init__=profiling.init,
    ),
    *each("torch.autograd.profiler.emit_nvtx", "no other profiler listens", __enter__=profiling.emit_nvtx),
    *each("torch.profiler", "what is profiled without asking", supported_activities=profiling.supported_activities),
    *each("torch.profiler.profiler", "the same by its other name", supported_activities=profiling.supported_activities),
    *each(
        "torch._C",
        "asked before a program is run again under valgrind; torch.utils.benchmark itself is imported by few",
        _valgrind_supported_platform=refused_function("torch.utils.benchmark.Timer.collect_callgrind"),
    ),
    *each("torch", "its answer is remembered for ever", get_device_module=accelerator.get_device_module),
    *each("torch.backends.mps", "availability only", is_available=accelerator.has_mps, is_built=accelerator.has_mps),
    *each("torch.mps", "availability only", is_available=accelerator.has_mps, device_count=accelerator.mps_count),
    *each(
        "torch.xpu",
        "availability only; torch 2.12's optimisers ask for the last",
        is_available=accelerator.has_xpu,
        device_count=accelerator.xpu_count,
        is_current_stream_capturing=streams.is_current_stream_capturing,
    ),
)
