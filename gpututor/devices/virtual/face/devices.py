"""What `torch.cuda` says about its devices while the virtual GPU is on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from gpututor.devices.virtual.machine import VirtualGpu, active, python_device
from gpututor.devices.virtual.tensors.tensor import VirtualTensor


@dataclass(frozen=True)
class DeviceProperties:
    """What `torch.cuda.get_device_properties` gives; the fields that a spec sheet tells."""

    name: str
    major: int
    minor: int
    total_memory: int
    multi_processor_count: int
    is_integrated: int = 0
    is_multi_gpu_board: int = 0
    warp_size: int = 32
    uuid: str = field(default="", repr=False)

    def __repr__(self) -> str:
        return (
            f"_CudaDeviceProperties(name='{self.name}', major={self.major}, minor={self.minor}, "
            f"total_memory={self.total_memory // 2**20}MB, multi_processor_count={self.multi_processor_count})"
        )


def gpu_of(device: Any = None) -> VirtualGpu:
    """The GPU that a `torch.cuda` function's argument means: a device, a name, a number; None is the current one."""
    machine = active()
    if device is None or (type(device) is int and device < 0):
        return machine.current
    found = python_device(device)
    if found.type != "cuda":
        raise ValueError(f"Expected a cuda device, but got: {found}")
    return machine.gpus[found.index]


def is_available() -> bool:
    return bool(active().gpus)


def device_count() -> int:
    return len(active().gpus)


def current_device() -> int:
    return active().current.index


def set_device(device: Any) -> None:
    if not (type(device) is int and device < 0):
        active().set_current(gpu_of(device).index)


def lazy_init() -> None:
    """Without a GPU this is where CUDA's start fails."""
    active().current  # noqa: B018


def lazy_call(call: Any, **kwargs: Any) -> None:
    """CUDA puts calls off until it starts; the virtual GPU has started."""
    call()


def is_initialized() -> bool:
    return bool(active().gpus)


def is_in_bad_fork() -> bool:
    return False


def get_device_name(device: Any = None) -> str:
    return gpu_of(device).spec.reported_name


def get_device_capability(device: Any = None) -> tuple[int, int]:
    return gpu_of(device).spec.capability


def get_device_properties(device: Any = None) -> DeviceProperties:
    gpu = gpu_of(device)
    major, minor = gpu.spec.capability
    return DeviceProperties(
        gpu.spec.reported_name, major, minor, gpu.memory.total, gpu.spec.multiprocessors, uuid=f"virtual-{gpu.index}"
    )


def is_bf16_supported(including_emulation: bool = True) -> bool:
    return including_emulation or get_device_capability()[0] >= 8


def can_device_access_peer(device: Any, peer_device: Any) -> bool:
    return gpu_of(device) is not gpu_of(peer_device)


def get_arch_list() -> list[str]:
    return sorted({f"sm_{gpu.spec.capability[0]}{gpu.spec.capability[1]}" for gpu in active().gpus})


def synchronize(device: Any = None) -> None:
    active().recorder.synchronise("torch.cuda.synchronize", gpu_of(device).name)


class device:
    """Stands in for `torch.cuda.device`: in the block, that GPU is the current one of this thread."""

    def __init__(self, device: Any) -> None:
        self.idx = -1 if device is None or (type(device) is int and device < 0) else gpu_of(device).index
        self.prev_idx = -1

    def __enter__(self) -> None:
        machine = active()
        self.prev_idx = machine.per_thread.device_index
        if self.idx >= 0:
            machine.set_current(self.idx)

    def __exit__(self, *exception: Any) -> None:
        active().per_thread.device_index = self.prev_idx


class device_of(device):
    """Stands in for `torch.cuda.device_of`: the GPU of a tensor; nothing for a CPU tensor."""

    def __init__(self, obj: Any) -> None:
        super().__init__(obj.get_device() if type(obj) is VirtualTensor else -1)


def cudnn_is_acceptable(tensor: Any) -> bool:
    """No layer runs through cuDNN: values are computed on the CPU."""
    return False


def ipc_collect() -> None:
    """No other process holds virtual memory."""
