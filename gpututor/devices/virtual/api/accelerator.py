"""Replacements of `torch.accelerator`, `torch.mps` and `torch.xpu` while the virtual GPU is on."""

from __future__ import annotations

from typing import Any

import torch

from gpututor.devices.virtual import execution
from gpututor.devices.virtual.api import devices, memory, streams
from gpututor.devices.virtual.api.streams import make_current
from gpututor.devices.virtual.machine import active_machine
from gpututor.hardware.scenario import ACCELERATORS

_DEVICES = {kind: torch.device(kind) for kind in ("cpu", *ACCELERATORS)}
"""Devices by kind: each step of an optimizer asks for one, and the function mode would handle each new device."""


def _kind() -> str | None:
    """Return the kind of accelerator that this build of torch would be made for."""
    backends = active_machine().backends
    return next((kind for kind in ACCELERATORS if kind in backends), None)


def get_accelerator() -> torch.device | None:
    kind = _kind()
    return None if kind is None else _DEVICES[kind]


def get_accelerator_or_cpu(check: bool = False) -> torch.device:
    """Return the accelerator, or the CPU for a CUDA build without a GPU: C++ looks for a GPU here."""
    kind = _kind()
    return _DEVICES["cpu" if kind is None or (kind == "cuda" and not active_machine().gpus) else kind]


def get_device_module(device: Any = None) -> Any:
    """Stand in for `torch.get_device_module`, which remembers its first result for the life of the process."""
    if device is not None and not isinstance(device, str | torch.device):
        raise RuntimeError(f"Invalid value of device '{device}', expect torch.device, str, or None")
    kind = get_accelerator_or_cpu().type if device is None else torch.device(device).type
    module = getattr(torch, kind, None)
    if module is None:
        raise RuntimeError(f"Device '{kind}' does not have a corresponding module registered as 'torch.{kind}'.")
    return module


class IdleStream:
    """The stream of an accelerator that only reports itself available: nothing ever runs on it."""

    def is_capturing(self) -> bool:
        return False

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        pass


def _on_cuda() -> bool:
    """Return True if the accelerator is the virtual GPU. Raises torch's own error without an accelerator."""
    kind = _kind()
    if kind is None:
        raise RuntimeError("Cannot access accelerator device when none is available.")
    return kind == "cuda"


def current_index() -> int:
    return devices.current_device() if _on_cuda() else 0


def set_index(index: int) -> None:
    if _on_cuda():
        devices.set_device(index)


def get_stream(index: int) -> Any:
    return streams.current_generic_stream(index) if _on_cuda() else IdleStream()


def set_stream(stream: Any) -> None:
    if _on_cuda():
        make_current(stream)


def synchronize_device(index: int) -> None:
    if _on_cuda():
        execution.synchronize(active_machine(), devices.gpu_of(index), "torch.accelerator.synchronize")


def empty_host_cache() -> None:
    """Return cached page-locked memory to the driver. Raises torch's own error without an accelerator."""
    if _on_cuda():
        memory.empty_host_cache()


def exchange_accelerator(index: int) -> int:
    """Make GPU `index` the current one; return the previous one."""
    before = current_index()
    set_index(index)
    return before


def has_mps() -> bool:
    return "mps" in active_machine().backends


def has_xpu() -> bool:
    return "xpu" in active_machine().backends
