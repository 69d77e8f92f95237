"""What the profiler's tests read of a profile."""

from __future__ import annotations

from typing import Any

import torch
from torch.profiler import ProfilerActivity

BOTH = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
ON_CUDA = torch.autograd.DeviceType.CUDA  # type: ignore[attr-defined]


def rows(seen: Any) -> dict[str, Any]:
    """The averages of the host's part by name; of the device's part, where the host has none of that name."""
    found: dict[str, Any] = {}
    for one in seen.key_averages():
        if one.key not in found or one.device_type != ON_CUDA:
            found[one.key] = one
    return found


def works(seen: Any) -> list[Any]:
    """Kernels and copies."""
    return [one for one in seen.events() if one.device_type == ON_CUDA and not one.is_user_annotation]
