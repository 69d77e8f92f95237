"""Times of copies over the links of a box: between the host and a GPU, and between two GPUs. Imports no torch.

A copy takes the time until the engine moves the first byte, and its bytes over what the link attains. Pageable memory
cannot be read by the engine: the driver copies it piece by piece through pinned buffers of its own, on one thread, so
that copy, and not the link, sets the rate (CUDA C++ Best Practices Guide, "Pinned Memory"). The figures of each GPU's
links are in gpus.toml.
"""

from __future__ import annotations

from typing import Literal

from gpututor.devices.virtual.specs import GpuSpec

Direction = Literal["h2d", "d2h"]
"""Host to device, or device to host."""

STAGED_PIECE = 64 * 1024
"""Bytes that a pageable host-to-device copy takes at once into a pinned buffer: with no more than that, the host goes
on before they are on the GPU (CUDA driver API, "API synchronization behavior")."""
_BACK = 0.85
"""Rate of a pageable copy to the host over that from it: the host copies each piece after the GPU sent it, into pages
that it often touches for the first time. An estimate."""
_NVLINK_LATENCY_S = 2.5e-6
"""Before the first byte between two GPUs on NVLink, as NVIDIA's sample p2pBandwidthLatencyTest shows on such boxes."""


def copy_s(spec: GpuSpec, size_bytes: int, *, pinned: bool, direction: Direction = "h2d") -> float:
    """Seconds that a copy between the host and the GPU takes on its engine; 0 for no bytes.

    `pinned` tells of the memory on the host. The launch is not included.
    """
    if size_bytes <= 0:
        return 0.0
    rate = spec.pinned_bytes_per_s if pinned else spec.pageable_bytes_per_s * (_BACK if direction == "d2h" else 1.0)
    return spec.copy_latency_s + size_bytes / rate


def is_nvlink(spec: GpuSpec) -> bool:
    """Whether the GPUs of one box are joined by NVLink."""
    return spec.peer_link.startswith("NVLink")


def peer_s(spec: GpuSpec, size_bytes: int) -> float:
    """Seconds that a copy from one GPU to another of the same box takes; 0 for no bytes."""
    if size_bytes <= 0:
        return 0.0
    return (_NVLINK_LATENCY_S if is_nvlink(spec) else spec.copy_latency_s) + size_bytes / spec.peer_bytes_per_s
