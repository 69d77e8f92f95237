"""The memory of the machine that keeps a virtual GPU's values."""

from __future__ import annotations

from pathlib import Path

from gpututor.devices.virtual import errors

LARGE = 1 << 30
"""Below this many bytes nobody looks: a machine with so little left has other troubles."""
_KEPT = 64 << 20
_MEMINFO = Path("/proc/meminfo")


def available() -> int | None:
    """The bytes that can be had without swapping; None where the system does not say."""
    try:
        lines = _MEMINFO.read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    for line in lines:
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


def expect(size_bytes: int) -> None:
    """Raises `MemoryError` in words where the system would kill the process for taking that much."""
    if size_bytes < LARGE:
        return
    left = available()
    if left is not None and size_bytes + _KEPT > left:
        raise errors.host_out_of_memory(size_bytes, left)
