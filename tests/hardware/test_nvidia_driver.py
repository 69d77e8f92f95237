"""NVIDIA's driver, read through NVML, and GPUs on the PCI bus."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest
import torch

from gpututor.hardware import nvidia_driver
from gpututor.hardware.nvidia_driver import (
    NvidiaDriver,
    NvidiaGpu,
    end_driver_sessions,
    has_nvidia_gpu,
    installed_driver,
)
from tests.support.nvidia_drivers import SimulatedDriver, install_driver, install_gpu_on_bus


def test_the_driver_names_its_cuda_and_its_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = (("Tesla V100-SXM2-16GB", (7, 0)), ("NVIDIA H100 80GB HBM3", (9, 0)))
    install_driver(monkeypatch, SimulatedDriver("580.65.06", (13, 0), gpus))
    assert installed_driver() == NvidiaDriver("580.65.06", (13, 0), tuple(NvidiaGpu(*gpu) for gpu in gpus))
    install_driver(monkeypatch, None)
    assert installed_driver() is None


@pytest.mark.parametrize(
    ("vendor", "kind", "expected"),
    [
        ("0x10de", "0x030000", True),
        ("0x10de", "0x030200", True),
        ("0x10de", "0x040300", False),  # the sound of a GPU
        ("0x1002", "0x030000", False),
    ],
)
def test_a_gpu_on_the_bus_is_seen_without_a_driver(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, vendor: str, kind: str, expected: bool
) -> None:
    install_gpu_on_bus(monkeypatch, tmp_path, vendor, kind)
    assert has_nvidia_gpu() is expected


def test_sessions_that_torch_began_are_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = SimulatedDriver()
    install_driver(monkeypatch, driver)
    end_driver_sessions()
    driver.nvmlInit_v2()
    driver.nvmlInit_v2()
    end_driver_sessions()
    assert (driver.sessions, nvidia_driver.driver_version(), driver.sessions) == (0, driver.version, 0)
    install_driver(monkeypatch, None)
    end_driver_sessions()


def test_the_structure_is_as_large_as_nvmls() -> None:
    assert ctypes.sizeof(nvidia_driver._ProcessInfo) == 24


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
def test_a_real_driver_has_a_version_and_names_gpus_like_torch() -> None:
    driver = installed_driver()
    assert driver is not None
    assert driver.version == nvidia_driver.driver_version() != ""
    assert torch.cuda.get_device_name(0) in {gpu.name for gpu in driver.gpus}
    assert torch.cuda.get_device_capability(0) in {gpu.capability for gpu in driver.gpus}
    assert has_nvidia_gpu()
