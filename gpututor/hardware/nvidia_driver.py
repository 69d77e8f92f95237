"""NVIDIA's driver on this machine: its version, its CUDA, its GPUs, and the memory that processes hold.

NVML (docs.nvidia.com/deploy/nvml-api) is called through ctypes if the driver is installed.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_LIBRARY = "libnvidia-ml.so.1"
PCI_DEVICES = Path("/sys/bus/pci/devices")
_SUCCESS = 0
_INSUFFICIENT_SIZE = 7
_MOST_SESSIONS = 1000
_UNKNOWN = (1 << 64) - 1
"""`usedGpuMemory` if the driver does not know it, as on Windows."""


class _ProcessInfo(ctypes.Structure):
    """`nvmlProcessInfo_t`, as nvmlDeviceGetComputeRunningProcesses_v3 fills it."""

    _fields_ = (
        ("pid", ctypes.c_uint),
        ("usedGpuMemory", ctypes.c_ulonglong),
        ("gpuInstanceId", ctypes.c_uint),
        ("computeInstanceId", ctypes.c_uint),
    )


def driver_version() -> str:
    """Return the driver's version, such as `550.54.15`; empty without a driver."""
    text = ctypes.create_string_buffer(96)
    with _nvml() as library:
        if library is None or library.nvmlSystemGetDriverVersion(text, ctypes.c_uint(96)) != _SUCCESS:
            return ""
    return text.value.decode("ascii", "replace")


@dataclass(frozen=True)
class NvidiaGpu:
    """A GPU that the driver knows."""

    name: str
    capability: tuple[int, int]
    """Compute capability, such as (9, 0)."""


@dataclass(frozen=True)
class NvidiaDriver:
    """An installed driver."""

    version: str
    """Text like `550.54.15`; empty if unknown."""
    cuda: tuple[int, int]
    """Newest CUDA that the driver runs, such as (12, 4)."""
    gpus: tuple[NvidiaGpu, ...]


def installed_driver() -> NvidiaDriver | None:
    """Return the driver with its GPUs; None without a working driver."""
    cuda = ctypes.c_int()
    with _nvml() as library:
        if library is None or library.nvmlSystemGetCudaDriverVersion_v2(ctypes.byref(cuda)) != _SUCCESS:
            return None
        gpus = tuple(_gpu(library, device) for device in _devices(library))
    return NvidiaDriver(driver_version(), (cuda.value // 1000, cuda.value % 1000 // 10), gpus)


def has_nvidia_gpu() -> bool:
    """Return True if an NVIDIA GPU is on the PCI bus, with or without a driver."""
    for folder in PCI_DEVICES.glob("*"):
        with contextlib.suppress(OSError):
            is_display = (folder / "class").read_text().startswith("0x03")
            if is_display and (folder / "vendor").read_text().strip() == "0x10de":
                return True
    return False


def memory_of(pids: Collection[int]) -> int | None:
    """Return the bytes that these processes hold on all GPUs; None if unknown, such as in another PID namespace."""
    memory: list[int] = []
    with _nvml() as library:
        for device in _devices(library):
            memory += [used for pid, used in _processes(library, device) if pid in pids and used != _UNKNOWN]
    return sum(memory) if memory else None


@contextlib.contextmanager
def _nvml() -> Iterator[Any]:
    """Yield the driver's library; None without one."""
    library: Any = None
    try:
        loaded = ctypes.CDLL(_LIBRARY)
        if loaded.nvmlInit_v2() == _SUCCESS and hasattr(loaded, "nvmlDeviceGetComputeRunningProcesses_v3"):
            library = loaded
    except (OSError, AttributeError):
        pass
    try:
        yield library
    finally:
        if library is not None:
            library.nvmlShutdown()


def end_driver_sessions() -> None:
    """End every session of this process with NVML: torch begins one whenever it counts GPUs, and ends none.

    A forked child that closes inherited descriptors cannot use its parent's session.
    """
    with contextlib.suppress(OSError, AttributeError):
        library = ctypes.CDLL(_LIBRARY)
        for _ in range(_MOST_SESSIONS):
            if library.nvmlShutdown() != _SUCCESS:
                return


def _devices(library: Any) -> Iterator[ctypes.c_void_p]:
    """Yield the handle of each working GPU; nothing if `library` is None."""
    count = ctypes.c_uint()
    if library is None or library.nvmlDeviceGetCount_v2(ctypes.byref(count)) != _SUCCESS:
        return
    for index in range(count.value):
        device = ctypes.c_void_p()
        if library.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(index), ctypes.byref(device)) == _SUCCESS:
            yield device


def _gpu(library: Any, device: ctypes.c_void_p) -> NvidiaGpu:
    name, major, minor = ctypes.create_string_buffer(96), ctypes.c_int(), ctypes.c_int()
    library.nvmlDeviceGetName(device, name, ctypes.c_uint(96))
    library.nvmlDeviceGetCudaComputeCapability(device, ctypes.byref(major), ctypes.byref(minor))
    return NvidiaGpu(name.value.decode("ascii", "replace"), (major.value, minor.value))


def _processes(library: Any, device: ctypes.c_void_p) -> list[tuple[int, int]]:
    for capacity in (64, 256, 1024, 4096):
        count, infos = ctypes.c_uint(capacity), (_ProcessInfo * capacity)()
        answer = library.nvmlDeviceGetComputeRunningProcesses_v3(device, ctypes.byref(count), infos)
        if answer == _SUCCESS:
            return [(info.pid, info.usedGpuMemory) for info in infos[: count.value]]
        if answer != _INSUFFICIENT_SIZE:
            break
    return []
