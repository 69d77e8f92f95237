"""What NVIDIA's driver says of the processes on its GPUs: a witness that no submission can talk to.

By NVML (docs.nvidia.com/deploy/nvml-api), through ctypes, where the driver has brought it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Collection
from typing import Any

_LIBRARY = "libnvidia-ml.so.1"
_SUCCESS = 0
_INSUFFICIENT_SIZE = 7
_UNKNOWN = (1 << 64) - 1
"""`usedGpuMemory` where the driver cannot tell, as on Windows."""


class _ProcessInfo(ctypes.Structure):
    """`nvmlProcessInfo_t`, as nvmlDeviceGetComputeRunningProcesses_v3 fills it."""

    _fields_ = (
        ("pid", ctypes.c_uint),
        ("usedGpuMemory", ctypes.c_ulonglong),
        ("gpuInstanceId", ctypes.c_uint),
        ("computeInstanceId", ctypes.c_uint),
    )


def driver_version() -> str:
    """Such as `550.54.15`; empty without the driver."""
    library = _opened()
    text = ctypes.create_string_buffer(96)
    if library is None:
        return ""
    try:
        found = library.nvmlSystemGetDriverVersion(text, ctypes.c_uint(96)) == _SUCCESS
    finally:
        library.nvmlShutdown()
    return text.value.decode("ascii", "replace") if found else ""


def memory_of(pids: Collection[int]) -> int | None:
    """Bytes that these processes hold on all GPUs together; None where the driver is not there, or does not know them.

    A driver that runs outside of our namespace of processes numbers them otherwise: they are unknown then.
    """
    library = _opened()
    if library is None:
        return None
    try:
        return _memory(library, pids)
    finally:
        library.nvmlShutdown()


def _opened() -> Any:
    try:
        library = ctypes.CDLL(_LIBRARY)
        ready = library.nvmlInit_v2() == _SUCCESS and hasattr(library, "nvmlDeviceGetComputeRunningProcesses_v3")
    except (OSError, AttributeError):
        return None
    return library if ready else None


def _memory(library: Any, pids: Collection[int]) -> int | None:
    devices = ctypes.c_uint()
    if library.nvmlDeviceGetCount_v2(ctypes.byref(devices)) != _SUCCESS:
        return None
    found: list[int] = []
    for index in range(devices.value):
        device = ctypes.c_void_p()
        if library.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(index), ctypes.byref(device)) == _SUCCESS:
            found += [used for pid, used in _processes(library, device) if pid in pids and used != _UNKNOWN]
    return sum(found) if found else None


def _processes(library: Any, device: ctypes.c_void_p) -> list[tuple[int, int]]:
    room = 64
    while room <= 4096:
        count, infos = ctypes.c_uint(room), (_ProcessInfo * room)()
        answer = library.nvmlDeviceGetComputeRunningProcesses_v3(device, ctypes.byref(count), infos)
        if answer == _SUCCESS:
            return [(info.pid, info.usedGpuMemory) for info in infos[: count.value]]
        if answer != _INSUFFICIENT_SIZE:
            break
        room *= 4
    return []
