"""What `torch.cuda` says and does while the virtual GPU is on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from gpututor.devices.virtual import errors
from gpututor.devices.virtual.machine import VirtualGpu, active, python_device
from gpututor.devices.virtual.tensor import VirtualTensor


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


class DefaultStream:
    """The one stream of each virtual GPU so far: work runs in the order in which it is launched."""

    def __init__(self, gpu: VirtualGpu) -> None:
        self.device = gpu.device
        self.device_index = gpu.index
        self.stream_id = 0
        self.cuda_stream = 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DefaultStream) and other.device == self.device

    def __hash__(self) -> int:
        return hash(self.device)

    def query(self) -> bool:
        return True

    def is_capturing(self) -> bool:
        return False

    def synchronize(self) -> None:
        active().recorder.synchronise("torch.cuda.Stream.synchronize", str(self.device))

    def wait_stream(self, stream: Any) -> None:
        """There is one stream: it is in order already."""

    def __getattr__(self, name: str) -> Any:
        raise errors.unsupported(f"torch.cuda.Stream.{name}")

    def __repr__(self) -> str:
        return f"<torch.cuda.Stream device={self.device} cuda_stream=0x0>"


def current_stream(device: Any = None) -> DefaultStream:
    return DefaultStream(gpu_of(device))


def is_current_stream_capturing() -> bool:
    return False


def memory_allocated(device: Any = None) -> int:
    return gpu_of(device).memory.allocated if active().gpus else 0


def max_memory_allocated(device: Any = None) -> int:
    return gpu_of(device).memory.peak if active().gpus else 0


def memory_reserved(device: Any = None) -> int:
    return gpu_of(device).memory.reserved if active().gpus else 0


def max_memory_reserved(device: Any = None) -> int:
    return gpu_of(device).memory.peak_reserved if active().gpus else 0


def reset_peak_memory_stats(device: Any = None) -> None:
    gpu_of(device).memory.reset_peak()


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """(free, total) bytes, as the driver sees them."""
    memory = gpu_of(device).memory
    return memory.free, memory.total


def memory_stats(device: Any = None) -> dict[str, int]:
    """The figures that are kept: allocated and reserved bytes, now and at most."""
    if not active().gpus:
        return {}
    memory = gpu_of(device).memory
    return {
        "allocated_bytes.all.current": memory.allocated,
        "allocated_bytes.all.peak": memory.peak,
        "reserved_bytes.all.current": memory.reserved,
        "reserved_bytes.all.peak": memory.peak_reserved,
    }


def empty_cache() -> None:
    for gpu in active().gpus:
        gpu.memory.empty_cache()


def cudnn_is_acceptable(tensor: Any) -> bool:
    """No layer runs through cuDNN: values are computed on the CPU."""
    return False


def ipc_collect() -> None:
    """No other process holds virtual memory."""


def refused(call: str) -> Any:
    """A class whose every use says that `call` is not supported; it can be named in annotations and isinstance."""

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise errors.unsupported(call)

    return type(call.rsplit(".", 1)[-1], (), {"__new__": refuse, "__init__": refuse, "__module__": "torch.cuda"})


def refused_function(call: str) -> Any:
    """A function that says that `call` is not supported."""

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise errors.unsupported(call)

    return refuse


def module() -> Any:
    return torch.cuda
