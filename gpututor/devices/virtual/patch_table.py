"""Every place where torch is changed while the virtual GPU is on, and why."""

from __future__ import annotations

from typing import Any

from gpututor.devices.virtual.face import accelerator, generators, memory, refusals, streams
from gpututor.devices.virtual.face import devices as cuda
from gpututor.devices.virtual.face.refused import refused, refused_function
from gpututor.devices.virtual.modules import moving as modules
from gpututor.devices.virtual.modules import optimisers
from gpututor.devices.virtual.patches import Patch
from gpututor.devices.virtual.saving import serialisation


def _each(owner: str, why: str, **replacements: Any) -> list[Patch]:
    return [Patch(owner, name, replacement, why) for name, replacement in replacements.items()]


# What a learner called, where a private function is what refuses.
_REFUSED_NAMES = {"torch._C": "torch.nn.DataParallel on several GPUs"}


def _refuse(owner: str, *names: str) -> list[Patch]:
    why = "not built: says so instead of failing somewhere inside torch"
    return [Patch(owner, name, refused_function(_REFUSED_NAMES.get(owner, owner + "." + name)), why) for name in names]


PATCHES: tuple[Patch, ...] = (
    *_each(
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
    *_each(
        "torch.cuda",
        "CUDA is never really started",
        init=cuda.lazy_init,
        _lazy_init=cuda.lazy_init,
        _lazy_call=cuda.lazy_call,
        is_initialized=cuda.is_initialized,
        _is_in_bad_fork=cuda.is_in_bad_fork,
        ipc_collect=cuda.ipc_collect,
    ),
    *_each(
        "torch.cuda",
        "the current GPU is kept for each thread in Python",
        current_device=cuda.current_device,
        set_device=cuda.set_device,
        device=cuda.device,
        _DeviceGuard=cuda.device,
        device_of=cuda.device_of,
    ),
    *_each(
        "torch.cuda",
        "waiting is recorded; there is one stream",
        synchronize=cuda.synchronize,
        current_stream=streams.current_stream,
        default_stream=streams.current_stream,
        is_current_stream_capturing=streams.is_current_stream_capturing,
        Stream=refused("torch.cuda.Stream"),
        ExternalStream=refused("torch.cuda.ExternalStream"),
        Event=refused("torch.cuda.Event"),
        CUDAGraph=refused("torch.cuda.CUDAGraph"),
        graph=refused("torch.cuda.graph"),
        MemPool=refused("torch.cuda.MemPool"),
    ),
    *_refuse("torch.cuda", "stream", "set_stream", "make_graphed_callables", "graph_pool_handle", "_sleep", "cudart"),
    *_each(
        "torch.cuda",
        "memory is counted in Python",
        memory_allocated=memory.memory_allocated,
        max_memory_allocated=memory.max_memory_allocated,
        memory_reserved=memory.memory_reserved,
        max_memory_reserved=memory.max_memory_reserved,
        reset_peak_memory_stats=memory.reset_peak_memory_stats,
        reset_max_memory_allocated=memory.reset_peak_memory_stats,
        mem_get_info=memory.mem_get_info,
        memory_stats=memory.memory_stats,
        empty_cache=memory.empty_cache,
    ),
    *_refuse(
        "torch.cuda",
        *("memory_summary", "memory_snapshot", "memory_stats_as_nested_dict", "set_per_process_memory_fraction"),
        *("list_gpu_processes", "caching_allocator_alloc", "caching_allocator_delete", "change_current_allocator"),
        *("utilization", "temperature", "power_draw", "clock_rate", "memory_usage", "device_memory_used"),
    ),
    *_each(
        "torch.cuda",
        "each GPU draws from its own CPU generator",
        manual_seed=generators.manual_seed,
        manual_seed_all=generators.manual_seed_all,
        seed=generators.seed,
        seed_all=generators.seed_all,
        initial_seed=generators.initial_seed,
        get_rng_state=generators.get_rng_state,
        get_rng_state_all=generators.get_rng_state_all,
        set_rng_state=generators.set_rng_state,
        set_rng_state_all=generators.set_rng_state_all,
    ),
    # torch.cuda.random's own functions call each other by these names.
    *_each(
        "torch.cuda.random",
        "torch.random and checkpointing reach the generators here",
        manual_seed_all=generators.manual_seed_all,
        get_rng_state=generators.get_rng_state,
        set_rng_state=generators.set_rng_state,
    ),
    *_each("torch", "a generator on a device draws on the CPU", Generator=generators.DeviceGenerator),
    *_each(
        "torch._C",
        "torch.accelerator is thin: these are what its functions call",
        _accelerator_getAccelerator=accelerator.get_accelerator,
        _get_accelerator=accelerator.get_accelerator_or_cpu,
        _accelerator_getDeviceIndex=accelerator.current_index,
        _accelerator_setDeviceIndex=accelerator.set_index,
        _accelerator_exchangeDevice=accelerator.exchange_device,
        _accelerator_maybeExchangeDevice=accelerator.exchange_device,
        _accelerator_getStream=accelerator.get_stream,
        _accelerator_setStream=refused_function("torch.accelerator.set_stream"),
        _accelerator_synchronizeDevice=accelerator.synchronize_device,
        _accelerator_getDeviceCapability=accelerator.device_capability,
        _accelerator_isAllocatorInitialized=cuda.is_available,
        _accelerator_emptyCache=memory.empty_cache,
        _accelerator_getDeviceStats=accelerator.device_stats,
        _accelerator_getMemoryInfo=memory.mem_get_info,
        _accelerator_resetPeakStats=memory.reset_peak_memory_stats,
    ),
    *_each("torch", "its answer is remembered for ever", get_device_module=accelerator.get_device_module),
    *_each("torch.backends.mps", "availability only", is_available=accelerator.has_mps, is_built=accelerator.has_mps),
    *_each("torch.mps", "availability only", is_available=accelerator.has_mps, device_count=accelerator.mps_count),
    *_each("torch.xpu", "availability only", is_available=accelerator.has_xpu, device_count=accelerator.xpu_count),
    *_each(
        "torch.optim.optimizer",
        "parameters are updated together, as on CUDA",
        _foreach_supported_types=optimisers.FOR_OPTIMISERS,
    ),
    *_each(
        "torch.utils._foreach_utils",
        "gradients are clipped together, as on CUDA",
        _foreach_supported_types=optimisers.FOR_GRADIENTS,
    ),
    *_each(
        "torch._C",
        "C++ names the devices of virtual tensors in its own way",
        _group_tensors_by_device_and_dtype=optimisers.group_by_device_and_dtype,
    ),
    *_each("torch.nn.Module", "a parameter becomes virtual in place", _apply=modules.apply_to_tensors),
    *_each(
        "torch",
        "files in CUDA's format, with the device of each storage",
        save=serialisation.save,
        load=serialisation.load,
    ),
    *_each(
        "torch.serialization",
        "the same functions by their other name",
        save=serialisation.save,
        load=serialisation.load,
    ),
    *_each(
        "torch._utils", "makes tensors on the device of their storage", _rebuild_tensor=serialisation.rebuild_tensor
    ),
    *_each(
        "torch.jit",
        "saving and loading scripted device modules ends in a segmentation fault",
        trace=refusals.jit_trace,
        script=refusals.jit_script,
        load=refusals.jit_load,
    ),
    *_each("torch", "would fail inside the compiler", compile=refusals.compile),
    *_each(
        "torch.backends.cudnn",
        "recurrent layers would tell the learner to rebuild PyTorch",
        is_acceptable=cuda.cudnn_is_acceptable,
    ),
    *_each("torch.nested", "would fail an assertion in C++", nested_tensor=refusals.nested_tensor),
    *_each("torch._C._nn", "a number as a device needs a build with an accelerator", _parse_to=refusals.parse_to),
    *_refuse("torch._C", "_scatter", "_gather", "_broadcast", "_broadcast_coalesced"),
    *_each("torch.amp.autocast_mode.autocast", "would quietly compute in float32", __enter__=refusals.autocast_enter),
    *_each("torch.autograd", "device names in hooks and custom Functions", _engine_run_backward=refusals.run_backward),
    *_each("threading.Thread", "torch's modes belong to one thread", _bootstrap_inner=refusals.thread_bootstrap),
)
