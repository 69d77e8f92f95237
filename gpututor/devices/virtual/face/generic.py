"""`torch.Stream` and `torch.Event`: those of the CPU, which do nothing, as ever; a GPU's are refused by name."""

from __future__ import annotations

from typing import Any

import torch

from gpututor.devices.virtual import errors
from gpututor.devices.virtual.machine import active

_real_stream: Any = torch.Stream
_real_event: Any = torch.Event


def _refuse(call: str, device: Any) -> None:
    """Raises `NotImplementedError` unless a device without streams of its own is named."""
    if device is None:
        on_accelerator = bool(active().backends)
    else:
        on_accelerator = isinstance(device, int) or torch.device(device).type in active().backends
    if on_accelerator:
        raise errors.unsupported(call)


class Stream(_real_stream):  # type: ignore[misc]
    """Stands in for `torch.Stream`, as its base class too."""

    refuses = "torch.Stream"

    def __new__(cls, device: Any = None, *args: Any, **options: Any) -> Any:
        if not args and "stream_id" not in options:
            _refuse(cls.refuses, device)
        return super().__new__(cls, *(() if device is None else (device,)), *args, **options)


class Event(_real_event):  # type: ignore[misc]
    """Stands in for `torch.Event`, as its base class too."""

    refuses = "torch.Event"

    def __new__(cls, device: Any = None, **options: Any) -> Any:
        _refuse(cls.refuses, device)
        return super().__new__(cls, *(() if device is None else (device,)), **options)
