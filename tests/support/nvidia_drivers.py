"""Simulated NVIDIA drivers: NVML as ctypes would load it."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

OLD = "550.54.15"


@dataclass
class SimulatedDriver:
    """A libnvidia-ml with GPUs, and with processes on them."""

    version: str = OLD
    cuda: tuple[int, int] = (12, 4)
    gpus: tuple[tuple[str, tuple[int, int]], ...] = ()
    """Name and compute capability of each GPU."""
    processes: list[list[tuple[int, int]]] = field(default_factory=list)
    """Id and bytes of each process on each GPU."""

    sessions: int = 0

    def nvmlInit_v2(self) -> int:
        self.sessions += 1
        return 0

    def nvmlShutdown(self) -> int:
        if self.sessions == 0:
            return 1  # NVML_ERROR_UNINITIALIZED
        self.sessions -= 1
        return 0

    def nvmlSystemGetDriverVersion(self, text: Any, size: Any) -> int:
        text.value = self.version.encode()
        return 0

    def nvmlSystemGetCudaDriverVersion_v2(self, number: Any) -> int:
        number._obj.value = self.cuda[0] * 1000 + self.cuda[1] * 10
        return 0

    def nvmlDeviceGetCount_v2(self, count: Any) -> int:
        count._obj.value = len(self.gpus or self.processes)
        return 0

    def nvmlDeviceGetHandleByIndex_v2(self, index: Any, device: Any) -> int:
        device._obj.value = index.value + 1
        return 0

    def nvmlDeviceGetName(self, device: Any, text: Any, size: Any) -> int:
        text.value = self.gpus[device.value - 1][0].encode()
        return 0

    def nvmlDeviceGetCudaComputeCapability(self, device: Any, major: Any, minor: Any) -> int:
        major._obj.value, minor._obj.value = self.gpus[device.value - 1][1]
        return 0

    def nvmlDeviceGetComputeRunningProcesses_v3(self, device: Any, count: Any, infos: Any) -> int:
        known = self.processes[device.value - 1]
        if len(known) > count._obj.value:
            return 7
        for place, (pid, used) in enumerate(known):
            infos[place].pid, infos[place].usedGpuMemory = pid, used
        count._obj.value = len(known)
        return 0


def install_driver(patch: pytest.MonkeyPatch, driver: SimulatedDriver | None) -> None:
    """Let ctypes load this driver; None: there is none."""

    def load(name: str) -> SimulatedDriver:
        if driver is None:
            raise OSError(f"{name}: cannot open shared object file")
        return driver

    patch.setattr(ctypes, "CDLL", load)


def install_gpu_on_bus(patch: pytest.MonkeyPatch, folder: Path, vendor: str = "0x10de", kind: str = "0x030200") -> None:
    """Put a device on the PCI bus, which is `folder`."""
    device = folder / "0000:17:00.0"
    device.mkdir(parents=True)
    (device / "vendor").write_text(f"{vendor}\n")
    (device / "class").write_text(f"{kind}\n")
    patch.setattr("gpututor.hardware.nvidia_driver.PCI_DEVICES", folder)
