"""Readers of a profile, for tests of the profiler."""

from __future__ import annotations

from typing import Any

import torch
from torch.profiler import ProfilerActivity

BOTH = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
ON_CUDA = torch.autograd.DeviceType.CUDA  # type: ignore[attr-defined]


def rows(seen: Any) -> dict[str, Any]:
    """Return the averages by name: those of the host, or of the device where the host has none of that name."""
    averages: dict[str, Any] = {}
    for average in seen.key_averages():
        if average.key not in averages or average.device_type != ON_CUDA:
            averages[average.key] = average
    return averages


def works(seen: Any) -> list[Any]:
    """Return the events of kernels and copies."""
    return [event for event in seen.events() if event.device_type == ON_CUDA and not event.is_user_annotation]
