"""What the profiler's tests read of a profile."""

from __future__ import annotations

from typing import Any

import torch
from torch.profiler import ProfilerActivity

BOTH = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
ON_CUDA = torch.autograd.DeviceType.CUDA  # type: ignore[attr-defined]


def rows(seen: Any) -> dict[str, Any]:
    """The averages of the host's part by name; of the device's part, where the host has none of that name."""
    averages: dict[str, Any] = {}
    for average in seen.key_averages():
        if average.key not in averages or average.device_type != ON_CUDA:
            averages[average.key] = average
    return averages


def works(seen: Any) -> list[Any]:
    """Kernels and copies."""
    return [event for event in seen.events() if event.device_type == ON_CUDA and not event.is_user_annotation]
