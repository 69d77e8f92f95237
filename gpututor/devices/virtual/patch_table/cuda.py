"""`torch.cuda`: devices, its start, streams."""

from __future__ import annotations

from gpututor.devices.virtual.face import devices as cuda
from gpututor.devices.virtual.face import streams
from gpututor.devices.virtual.face.refused import refused
from gpututor.devices.virtual.patch_table.rows import each, refuse
from gpututor.devices.virtual.patches import Patch

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
    *each(
        "torch.cuda",
        "CUDA is never really started",
        init=cuda.lazy_init,
        _lazy_init=cuda.lazy_init,
        _lazy_call=cuda.lazy_call,
        is_initialized=cuda.is_initialized,
        _is_in_bad_fork=cuda.is_in_bad_fork,
        ipc_collect=cuda.ipc_collect,
    ),
    *each(
        "torch.cuda",
        "the current GPU is kept for each thread in Python",
        current_device=cuda.current_device,
        set_device=cuda.set_device,
        device=cuda.device,
        _DeviceGuard=cuda.device,
        device_of=cuda.device_of,
    ),
    *each(
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
    *refuse("torch.cuda", "stream", "set_stream", "make_graphed_callables", "graph_pool_handle", "_sleep", "cudart"),
)
