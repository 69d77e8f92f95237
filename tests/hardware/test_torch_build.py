"""Builds of PyTorch against simulated drivers: `gpututor doctor` says which does not fit, and what to do."""

from __future__ import annotations

from dataclasses import replace
from importlib import metadata
from pathlib import Path

import pytest
import torch

from gpututor import doctor
from gpututor.doctor import NOTE, OK, WRONG, Diagnosis
from gpututor.hardware.inventory import Device, Inventory
from gpututor.hardware.packages import TORCH, TORCH_REQUIREMENT
from gpututor.hardware.torch_build import TorchBuild, build_in, installed_build
from tests.support.nvidia_drivers import OLD, SimulatedDriver, install_driver, install_gpu_on_bus

H100 = ("NVIDIA H100 80GB HBM3", (9, 0))
V100 = ("Tesla V100-SXM2-16GB", (7, 0))
CPU, CUDA_12, CUDA_13 = TorchBuild("the CPU"), TorchBuild("CUDA", "12.8"), TorchBuild("CUDA", "13.0")
OLD_DRIVER = SimulatedDriver(OLD, (12, 4), (H100,))
NEW_DRIVER = SimulatedDriver("580.65.06", (13, 0), (H100,))
SEEN = (Device("cpu", "cpu", "x86"), Device("cuda:0", "cuda", H100[0]))


def diagnose(
    patch: pytest.MonkeyPatch,
    bus: Path,
    build: TorchBuild,
    driver: SimulatedDriver | None,
    devices: tuple[Device, ...] = SEEN[:1],
) -> Diagnosis:
    """Return what the doctor says of a build on a machine with this driver; `devices` are those that torch sees."""
    install_driver(patch, driver)
    patch.setattr("gpututor.hardware.nvidia_driver.PCI_DEVICES", bus)
    patch.setattr(doctor, "installed_build", lambda: build)
    (diagnosis,) = doctor._torch_build(Inventory("2.13.0+cpu", devices, "now"))
    return diagnosis


@pytest.mark.parametrize(
    ("build", "driver", "devices"),
    [
        (CPU, None, SEEN[:1]),
        (CUDA_13, None, SEEN[:1]),
        (CUDA_13, NEW_DRIVER, SEEN),
        (CUDA_12, NEW_DRIVER, SEEN),
        (CUDA_12, OLD_DRIVER, SEEN),  # minor versions of one CUDA are compatible
        (CUDA_13, OLD_DRIVER, SEEN),  # with CUDA's compatibility package
        (TorchBuild("ROCm", "7.1"), None, SEEN),
        (CPU, SimulatedDriver(), SEEN[:1]),  # a driver without a GPU
    ],
)
def test_a_build_that_fits_is_named(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    build: TorchBuild,
    driver: SimulatedDriver | None,
    devices: tuple[Device, ...],
) -> None:
    diagnosis = diagnose(monkeypatch, tmp_path, build, driver, devices)
    assert (diagnosis.state, diagnosis.advice) == (OK, "")
    assert build.title in diagnosis.words


@pytest.mark.parametrize(
    ("build", "driver", "words", "advice"),
    [
        (CPU, NEW_DRIVER, H100[0], "torch==2.13.0 --index-url https://download.pytorch.org/whl/cu130"),
        (TorchBuild("ROCm", "7.1"), NEW_DRIVER, H100[0], "whl/cu130"),
        (CPU, OLD_DRIVER, H100[0], "a build for CUDA 12, which the driver 550.54.15 can run"),
        (CUDA_13, OLD_DRIVER, "CUDA up to 12.4", "Update the driver to 580 or newer, or install a build for CUDA 12:"),
        (CUDA_12, SimulatedDriver("470.1", (11, 4), (H100,)), "CUDA up to 11.4", "to 525 or newer"),
        (CUDA_13, SimulatedDriver("580.1", (13, 0), (V100,)), "compute capability 7.0", "a build for CUDA 12:"),
        (CUDA_13, NEW_DRIVER, "does not see", "torch.cuda.init()"),
    ],
)
def test_a_misfit_is_a_note_with_advice(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    build: TorchBuild,
    driver: SimulatedDriver,
    words: str,
    advice: str,
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    diagnosis = diagnose(monkeypatch, tmp_path, build, driver)
    assert diagnosis.state == NOTE
    assert build.title in diagnosis.words
    assert words in diagnosis.words
    assert advice in diagnosis.advice


def test_a_gpu_that_a_variable_hides_is_a_note(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    assert "CUDA_VISIBLE_DEVICES is '7'" in diagnose(monkeypatch, tmp_path, CUDA_13, NEW_DRIVER).advice


def test_a_gpu_without_a_driver_is_a_note(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    install_gpu_on_bus(monkeypatch, tmp_path)
    diagnosis = diagnose(monkeypatch, tmp_path, CUDA_13, None)
    assert diagnosis.state == NOTE
    assert "without a driver" in diagnosis.words
    assert "580 or newer" in diagnosis.advice


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("cuda: Optional[str] = None\nhip: Optional[str] = None\n", CPU),
        ("cuda: Optional[str] = '13.0'\nhip: Optional[str] = None\n", CUDA_13),
        ("cuda = '12.8'\n", CUDA_12),
        ("cuda: str | None = None\nhip: str | None = '7.1.25424'\n", TorchBuild("ROCm", "7.1.25424")),
        ("hip: Optional[str] = '7.1.25424'\nrocm: Optional[str] = '7.1.0'\n", TorchBuild("ROCm", "7.1.0")),
        ("xpu: Optional[str] = '20250302'\n", TorchBuild("XPU", "20250302")),
    ],
)
def test_a_build_is_read_from_its_file(lines: str, expected: TorchBuild) -> None:
    assert build_in(f"__version__ = '2.13.0'\ndebug = False\n{lines}") == expected


def test_the_installed_build_is_the_one_that_torch_reports() -> None:
    build = installed_build()
    assert build is not None
    platforms = {"CUDA": torch.version.cuda, "ROCm": torch.version.hip, "XPU": torch.version.xpu}
    assert [name for name, version in platforms.items() if version] == [build.platform][: bool(build.version)]
    assert build.platform != "CUDA" or build.version == torch.version.cuda


@pytest.mark.parametrize(
    ("version", "state", "command"),
    [
        (f"{TORCH.oldest}.1", OK, ""),
        ("2.13.0+cpu", OK, ""),
        ("2.14.1+cu130", NOTE, "pip install 'torch==2.13.*'"),
        ("2.15.0", WRONG, f"pip install '{TORCH_REQUIREMENT}'"),
        ("2.8.0", WRONG, f"pip install '{TORCH_REQUIREMENT}'"),
    ],
)
def test_an_untested_torch_is_a_note_and_a_rejected_torch_is_wrong(
    monkeypatch: pytest.MonkeyPatch, version: str, state: str, command: str
) -> None:
    monkeypatch.setattr(metadata, "requires", lambda name: [TORCH_REQUIREMENT])
    monkeypatch.setattr(metadata, "version", lambda name: version)
    monkeypatch.setattr(doctor, "TORCH", replace(TORCH, newest="2.13"))
    (diagnosis,) = doctor._packages()
    assert (diagnosis.state, diagnosis.about) == (state, "torch")
    assert version in diagnosis.words
    assert command in diagnosis.advice
