"""What `torch.cuda` says about its devices while the virtual GPU is on."""

from __future__ import annotations

from typing import Any

from gpututor.devices.virtual import private, work
from gpututor.devices.virtual.face.properties import DeviceProperties, properties_of
from gpututor.devices.virtual.machine import VirtualGpu, active
from gpututor.devices.virtual.work import permits


def gpu_of(device: Any = None) -> VirtualGpu:
    """The GPU that a `torch.cuda` function's argument means: a device, a name, a number; None is the current one."""
    machine = active()
    machine.start()
    index = private.cuda_device_index(device, optional=True)
    return machine.current if index < 0 else machine.gpu(index)


def is_available() -> bool:
    return bool(active().gpus)


def is_built() -> bool:
    """Stands in for `torch.backends.cuda.is_built`: whether this passes for a CUDA build."""
    return "cuda" in active().backends


def device_count() -> int:
    return len(active().gpus)


def current_device() -> int:
    return active().current.index


def set_device(device: Any) -> None:
    index = private.cuda_device_index(device)
    if index >= 0:
        active().set_current(index)


def exchange_device(index: int) -> int:
    """Make GPU `index` the current one, unless it is negative; returns the one before."""
    if not isinstance(index, int):
        raise RuntimeError("invalid argument to exchangeDevice")  # torch/csrc/cuda/Module.cpp
    machine = active()
    if index < 0:
        return -1
    machine.start()
    before = machine.per_thread.device_index
    machine.set_current(index)
    return before


def maybe_exchange_device(index: int) -> int:
    """The same; torch._dynamo wants a function of its own for each name."""
    return exchange_device(index)


def lazy_init() -> None:
    """Without a GPU this is where CUDA's start fails."""
    active().start()


def lazy_call(call: Any, **kwargs: Any) -> None:
    """CUDA puts calls off until it starts, which it never does without a GPU."""
    machine = active()
    if machine.gpus and not machine.in_bad_fork:
        call()


def is_initialized() -> bool:
    machine = active()
    return machine.started and not machine.in_bad_fork


def is_in_bad_fork() -> bool:
    return active().in_bad_fork


def get_device_name(device: Any = None) -> str:
    return get_device_properties(device).name


def get_device_capability(device: Any = None) -> tuple[int, int]:
    found = get_device_properties(device)
    return found.major, found.minor


def get_device_properties(device: Any = None) -> DeviceProperties:
    """Raises torch's `AssertionError` for a number that no GPU has."""
    machine = active()
    machine.start()
    index = private.cuda_device_index(device, optional=True)
    if not 0 <= index < len(machine.gpus):
        raise AssertionError("Invalid device id")
    return properties_of(machine.gpus[index])


def is_bf16_supported(including_emulation: bool = True) -> bool:
    if not is_available():
        return False
    return including_emulation or get_device_capability()[0] >= 8


def can_device_access_peer(device: Any, peer_device: Any) -> bool:
    """Every GPU of the box reaches every other one, and none itself, as CUDA counts it."""
    machine = active()
    machine.start()
    index = private.cuda_device_index(device, optional=True)
    peer = private.cuda_device_index(peer_device)
    if not 0 <= index < len(machine.gpus):
        raise AssertionError("Invalid device id")
    if not 0 <= peer < len(machine.gpus):
        raise AssertionError("Invalid peer device id")
    return bool(index != peer)


def get_arch_list() -> list[str]:
    return sorted({f"sm_{gpu.spec.capability[0]}{gpu.spec.capability[1]}" for gpu in active().gpus})


def synchronize(device: Any = None) -> None:
    """The host waits for all streams of a GPU."""
    gpu = gpu_of(device)
    work.wait(active(), gpu, "torch.cuda.synchronize")


def get_sync_debug_mode() -> int:
    machine = active()
    machine.start()
    return machine.sync_debug


_SYNC_DEBUG = {"default": 0, "warn": permits.WARN, "error": permits.ERROR}


def set_sync_debug_mode(debug_mode: int | str) -> None:
    """What is to be said of waits for streams and of blocking copies: nothing, a warning or an error."""
    machine = active()
    machine.start()
    if isinstance(debug_mode, str):
        if debug_mode not in _SYNC_DEBUG:
            raise RuntimeError("invalid value of debug_mode, expected one of `default`, `warn`, `error`")
        debug_mode = _SYNC_DEBUG[debug_mode]
    if debug_mode not in _SYNC_DEBUG.values():
        raise RuntimeError("invalid value of debug_mode, expected one of 0,1,2")
    machine.sync_debug = debug_mode


def cudnn_is_acceptable(tensor: Any) -> bool:
    """No layer runs through cuDNN: values are computed on the CPU."""
    return False


def ipc_collect() -> None:
    """No other process holds virtual memory."""
    active().start()
