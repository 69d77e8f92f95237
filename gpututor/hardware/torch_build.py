"""The installed build of PyTorch, and reasons why it cannot use the NVIDIA GPUs of this machine."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from gpututor.hardware.nvidia_driver import NvidiaDriver

OLDEST_DRIVERS = {12: "525", 13: "580"}
"""Oldest driver for each CUDA, by the tables of docs.nvidia.com/cuda/cuda-toolkit-release-notes."""
OLDEST_CAPABILITIES = {12: (5, 0), 13: (7, 5)}
"""Oldest GPUs for each CUDA, by compute capability, from the same page."""
COMMANDS_PAGE = "https://pytorch.org/get-started/locally"


@dataclass(frozen=True)
class TorchBuild:
    """A build of PyTorch."""

    platform: str
    """`CUDA`, `ROCm`, `XPU` or `the CPU`."""
    version: str = ""
    """Version of the platform, such as `13.0`; empty for the CPU."""

    @property
    def title(self) -> str:
        """Text like `CUDA 13.0`; `the CPU`."""
        return f"{self.platform} {self.version}".strip()

    @property
    def cuda(self) -> int:
        """Major version of CUDA; 0 for other platforms."""
        return int(self.version.partition(".")[0]) if self.platform == "CUDA" else 0


@dataclass(frozen=True)
class Misfit:
    """A reason why PyTorch cannot use an NVIDIA GPU of this machine."""

    words: str
    advice: str


def installed_build() -> TorchBuild | None:
    """Return the build by its file `torch/version.py`, without importing torch; None without PyTorch."""
    spec = importlib.util.find_spec("torch")
    for folder in (spec and spec.submodule_search_locations) or ():
        path = Path(folder) / "version.py"
        if path.is_file():
            return build_in(path.read_text(encoding="utf-8"))
    return None


def build_in(text: str) -> TorchBuild:
    """Return the build that a `torch/version.py` describes."""
    versions = dict(re.findall(r"^(\w+)(?:: [^=]*)? = '([^']*)'", text, re.MULTILINE))
    platforms = {"cuda": "CUDA", "rocm": "ROCm", "hip": "ROCm", "xpu": "XPU"}
    for name, platform in platforms.items():
        if versions.get(name):
            return TorchBuild(platform, versions[name])
    return TorchBuild("the CPU")


def find_misfit(
    build: TorchBuild, torch_version: str, driver: NvidiaDriver | None, has_gpu: bool, sees_gpu: bool
) -> Misfit | None:
    """Return the reason why PyTorch cannot use the NVIDIA GPUs; None if it can, or if there are none.

    `has_gpu` is True if a GPU is on the PCI bus; `sees_gpu` is True if torch reports a CUDA device.
    """
    if driver is None:
        return _no_driver(build) if has_gpu and not sees_gpu else None
    if not driver.gpus:
        return None
    gpu = max(driver.gpus, key=lambda gpu: gpu.capability)
    if not build.cuda:
        return Misfit(f"but there is an NVIDIA GPU: {gpu.name}", _other_build(driver, torch_version))
    if gpu.capability < OLDEST_CAPABILITIES.get(build.cuda, (0, 0)):
        capability = ".".join(map(str, gpu.capability))
        advice = f"Install a build for CUDA {build.cuda - 1}: {COMMANDS_PAGE} has the command."
        return Misfit(f"and {gpu.name}, of compute capability {capability}, is too old for it", advice)
    if sees_gpu:
        return None
    if driver.cuda[0] < build.cuda:
        newest = ".".join(map(str, driver.cuda))
        advice = f"Update the driver{_or_newer(build.cuda, ' to')}, or install a build for CUDA {driver.cuda[0]}"
        words = f"but the driver {driver.version} runs CUDA up to {newest}"
        return Misfit(words, f"{advice}: {COMMANDS_PAGE} has the command.")
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    advice = f"`{sys.executable} -c 'import torch; torch.cuda.init()'` says why."
    if visible is not None:
        advice = f"CUDA_VISIBLE_DEVICES is {visible!r}, which may hide it. Without it, {advice}"
    return Misfit(f"and the driver {driver.version} fits, but PyTorch does not see {gpu.name}", advice)


def _no_driver(build: TorchBuild) -> Misfit:
    advice = (
        f"Install NVIDIA's driver{_or_newer(build.cuda)}. In a container, pass the GPU on: `docker run --gpus all`."
    )
    return Misfit("but there is an NVIDIA GPU without a driver", advice)


def _other_build(driver: NvidiaDriver, torch_version: str) -> str:
    """Return the command for a build that the driver can run."""
    if driver.cuda < (13, 0):
        advice = f"Install a build for CUDA {driver.cuda[0]}, which the driver {driver.version} can run: "
        return f"{advice}{COMMANDS_PAGE} has the command."
    version = torch_version.partition("+")[0]
    index = "https://download.pytorch.org/whl/cu130"
    return f"`{sys.executable} -m pip install --force-reinstall torch=={version} --index-url {index}`"


def _or_newer(cuda: int, preposition: str = "") -> str:
    return f"{preposition} {OLDEST_DRIVERS[cuda]} or newer" if cuda in OLDEST_DRIVERS else ""
