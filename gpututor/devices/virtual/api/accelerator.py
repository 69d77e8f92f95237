"""What `torch.accelerator`, `torch.mps` and `torch.xpu` say while the virtual GPU is on."""

from __future__ import annotations

from typing import Any

import torch

from gpututor.devices.virtual import execution
from gpututor.devices.virtual.api import devices, streams
from gpututor.devices.virtual.api.streams import make_current
from gpututor.devices.virtual.machine import active_machine

_ORDER = ("cuda", "mps", "xpu")


def _kind() -> str | None:
    """The kind of accelerator that this build of torch would be made for."""
    backends = active_machine().backends
    return next((kind for kind in _ORDER if kind in backends), None)


def get_accelerator() -> torch.device | None:
    kind = _kind()
    return None if kind is None else torch.device(kind)


def get_accelerator_or_cpu(check: bool = False) -> torch.device:
    """Unlike the function above, C++ looks here for a GPU in any case, and not for a CUDA build."""
    kind = _kind()
    return torch.device("cpu" if kind is None or (kind == "cuda" and not active_machine().gpus) else kind)


def get_device_module(device: Any = None) -> Any:
    """Stands in for `torch.get_device_module`, which remembers its first answer for the life of the process."""
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
        """Nothing to wait for."""


def _on_cuda() -> bool:
    """Whether the accelerator is the virtual GPU; raises torch's own error when there is no accelerator at all."""
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
    """Its GPU becomes the current one, too."""
    if _on_cuda():
        make_current(stream)


def synchronize_device(index: int) -> None:
    if not _on_cuda():
        return
    execution.synchronize(active_machine(), devices.gpu_of(index), "torch.accelerator.synchronize")


def empty_host_cache() -> None:
    """Page-locked memory is not kept here; raises torch's own error where there is no accelerator."""
    _on_cuda()


def exchange_accelerator(index: int) -> int:
    """Make GPU `index` the current one; returns the one before."""
    before = current_index()
    set_index(index)
    return before


def maybe_exchange_accelerator(index: int) -> int:
    """The same; torch._dynamo wants a function of its own for each name."""
    return exchange_accelerator(index)


def device_capability(index: int) -> Any:
    return devices.get_device_capability(index)


def has_mps() -> bool:
    return "mps" in active_machine().backends


def has_xpu() -> bool:
    return "xpu" in active_machine().backends


def mps_count() -> int:
    return int(has_mps())


def xpu_count() -> int:
    return int(has_xpu())
