"""Settings of the caching allocator, in the form of `PYTORCH_ALLOC_CONF`: `key:value,key:value`.

Source: c10/core/AllocatorConfig.h and c10/cuda/CUDAAllocatorConfig.cpp.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpututor.devices.virtual import cuda_errors

MIB = 1 << 20
GRANULE = 512
"""Bytes: the size of every allocation is rounded up to a multiple of them (kMinBlockSize)."""
INTERVALS = 16
"""Powers of two from 1 MiB on that can have a division of their own (kRoundUpPowerOfTwoIntervals)."""
VARIABLES = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
"""Environment variables with the settings; the first that is set counts."""
_LEAST_SPLIT_MIB = 20
_MOST_PINNING_THREADS = 128


@dataclass(frozen=True)
class AllocatorSettings:
    """Settings of the allocators of a machine's GPUs."""

    text: str = ""
    """The settings as the program wrote them."""
    max_split_bytes: int | None = None
    """Blocks of at least this size are not split; None for no limit."""
    divisions: tuple[int, ...] = ()
    """Number of parts between two powers of two to which sizes are rounded up, for each interval; 0 for no rounding.
    Empty if no interval has any."""
    expandable: bool = False
    """True if new segments can grow."""
    fraction: float = 1.0
    """Share of each GPU's memory that the process may use."""
    others: Mapping[str, Any] = field(default_factory=dict)
    """Settings without an effect on the virtual GPU."""

    def rounded(self, requested: int) -> int:
        """Return the bytes that an allocation of `requested` bytes takes (round_size)."""
        if self.divisions:
            interval = max(0, min(requested.bit_length() - MIB.bit_length(), INTERVALS - 1))
            divisions = self.divisions[interval]
            if divisions > 1 and requested > GRANULE * divisions:
                return _next_division(requested, divisions)
        return -(-requested // GRANULE) * GRANULE

    def as_dict(self) -> dict[str, Any]:
        """Return the settings as `torch.cuda.memory._snapshot` has them."""
        divisions = self.divisions or (0,) * INTERVALS
        return {
            "PYTORCH_CUDA_ALLOC_CONF": self.text,
            "max_split_size": -1 if self.max_split_bytes is None else self.max_split_bytes,
            "garbage_collection_threshold": self.others.get("garbage_collection_threshold", 0.0),
            "expandable_segments": self.expandable,
            "pinned_num_register_threads": self.others.get("pinned_num_register_threads", 1),
            "release_lock_on_cudamalloc": self.others.get("release_lock_on_cudamalloc", False),
            "pinned_use_cuda_host_register": self.others.get("pinned_use_cuda_host_register", False),
            "graph_capture_record_stream_reuse": self.others.get("graph_capture_record_stream_reuse", False),
            "roundup_power2_divisions": {str(1 << index): division for index, division in enumerate(divisions)},
        }


def settings_of_environment() -> AllocatorSettings:
    """Return the settings of the environment variables. Raises the errors of `parse_settings`."""
    return parse_settings(next((os.environ[name] for name in VARIABLES if os.environ.get(name)), ""))


def parse_settings(text: str) -> AllocatorSettings:
    """Parse `text`; settings that it does not name have their defaults.

    Raises `ValueError` with PyTorch's message for an unknown key or an impossible value, and `NotImplementedError` for
    CUDA's own allocator.
    """
    values: dict[str, Any] = {}
    # Commas inside brackets separate the values of one key.
    for entry in filter(None, re.split(r",(?![^\[]*\])", text.replace(" ", ""))):
        key, _, value = entry.partition(":")
        if key not in _PARSERS:
            raise ValueError(f"Unrecognized key '{key}' in CUDA allocator config.")
        values[key] = _PARSERS[key](key, value)
    return AllocatorSettings(
        text,
        values.pop("max_split_size_mb", None),
        values.pop("roundup_power2_divisions", ()),
        values.pop("expandable_segments", False),
        values.pop("per_process_memory_fraction", 1.0),
        values,
    )


def _next_division(size: int, divisions: int) -> int:
    """Return the next multiple of a part of the power of two below `size` (roundup_power2_next_division)."""
    floor = 1 << (size.bit_length() - 1)
    if size == floor:
        return size
    part = floor >> (divisions.bit_length() - 1)
    return floor << 1 if part == 0 else -(-size // part) * part


def _truth(key: str, value: str) -> bool:
    if value not in ("True", "False"):
        raise ValueError(f"Expected 'True' or 'False' for {key} in CUDA allocator config, but got {value!r}.")
    return value == "True"


def _number(key: str, value: str) -> int:
    if not value.isdecimal():
        raise ValueError(f"Expected a whole number for {key} in CUDA allocator config, but got {value!r}.")
    return int(value)


def _split_size(key: str, value: str) -> int:
    mebibytes = _number(key, value)
    if mebibytes < _LEAST_SPLIT_MIB:
        raise ValueError(f"CachingAllocator option {key} too small, must be >= {_LEAST_SPLIT_MIB}")
    return mebibytes * MIB


def _share(key: str, value: str) -> float:
    try:
        share = float(value)
    except ValueError:
        share = 0.0
    if not 0 < share < 1:
        raise ValueError(f"{key} is invalid, set it in (0.0, 1.0)")
    return share


def _fraction(key: str, value: str) -> float:
    try:
        fraction = float(value)
    except ValueError:
        fraction = -1.0
    if not 0 <= fraction <= 1:
        raise ValueError(f"{key} is invalid, set it in [0.0, 1.0]")
    return fraction


def _threads(key: str, value: str) -> int:
    threads = _number(key, value)
    if threads not in (1 << power for power in range(_MOST_PINNING_THREADS.bit_length())):
        raise ValueError(f"{key} has to be a power of 2 of at most {_MOST_PINNING_THREADS}")
    return threads


def _divisions(key: str, value: str) -> tuple[int, ...]:
    """Parse `4`, or a list such as `[256:1,512:2,>:4]`, with sizes in MiB."""
    if not value.startswith("["):
        return (_division(key, value),) * INTERVALS
    divisions, first = [0] * INTERVALS, 0
    for entry in value.strip("[]").split(","):
        size, _, count = entry.partition(":")
        division = _division(key, count)
        if size == ">":
            divisions[first:] = [division] * (INTERVALS - first)
            break
        mebibytes = _number(key, size)
        if not _is_power_of_2(mebibytes):
            raise ValueError("For roundups, the intervals have to be power of 2 ")
        index = min(mebibytes.bit_length() - 1, INTERVALS - 1)
        # The first size counts for all smaller sizes too.
        divisions[first : index + 1] = [division] * (index + 1 - first)
        first = index + 1
    return tuple(divisions)


def _division(key: str, value: str) -> int:
    division = _number(key, value)
    if not _is_power_of_2(division):
        raise ValueError("For roundups, the divisions has to be power of 2 ")
    return division


def _is_power_of_2(number: int) -> bool:
    return number > 0 and number & (number - 1) == 0


def _backend(key: str, value: str) -> str:
    if value not in ("native", "cudaMallocAsync"):
        raise ValueError(f"Unknown allocator {key}, options are native and cudaMallocAsync")
    if value != "native":
        raise cuda_errors.unsupported(f"the allocator setting {key}:{value}", f"Use {key}:native, or leave it out.")
    return value


_PARSERS: dict[str, Callable[[str, str], Any]] = {
    "max_split_size_mb": _split_size,
    "roundup_power2_divisions": _divisions,
    "expandable_segments": _truth,
    "garbage_collection_threshold": _share,
    "backend": _backend,
    "max_non_split_rounding_mb": _number,
    "large_segment_size_mb": _number,
    "per_process_memory_fraction": _fraction,
    "release_lock_on_cudamalloc": _truth,
    "graph_capture_record_stream_reuse": _truth,
    "pinned_use_cuda_host_register": _truth,
    "pinned_use_background_threads": _truth,
    "pinned_num_register_threads": _threads,
    "pinned_reserve_segment_size_mb": _number,
}
