"""Costs of links: PCIe, NVLink and collectives. The figures of each GPU's links are in gpus.toml.

A copy takes a latency plus its bytes over the bandwidth. The engine cannot read pageable memory: the driver copies it
piece by piece into pinned buffers on one thread, and that copy limits the rate (CUDA C++ Best Practices Guide, "Pinned
Memory").

The bytes of a collective are the minimum that each GPU's link must carry, by the "bus bandwidth" of NVIDIA's nccl-tests
(doc/PERFORMANCE.md). The steps are those of a ring. The latencies are the constants with which NCCL chooses its
protocol (src/graph/tuning.cc, rings, one node). LL has short steps but part of the bandwidth; Simple has long steps but
all of the bandwidth.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from gpututor.devices.virtual.operator_facts import short_name
from gpututor.hardware.gpus import GpuSpec

Direction = Literal["h2d", "d2h"]
_PAGEABLE_D2H = 0.85
"""Rate of a pageable copy to the host, relative to a copy from the host: the host copies each piece after the GPU has
sent it, often into untouched pages. An estimate."""
_NVLINK_LATENCY_S = 2.5e-6
"""Seconds before the first byte between two GPUs on NVLink, as NVIDIA's sample p2pBandwidthLatencyTest shows."""


def copy_s(spec: GpuSpec, size_bytes: int, *, pinned: bool, direction: Direction = "h2d") -> float:
    """Return the seconds of a copy between host and GPU, without its launch; 0 for no bytes.

    `pinned` is True if the host's memory is page-locked.
    """
    if size_bytes <= 0:
        return 0.0
    rate = (
        spec.pinned_bytes_per_s
        if pinned
        else spec.pageable_bytes_per_s * (_PAGEABLE_D2H if direction == "d2h" else 1.0)
    )
    return spec.copy_latency_s + size_bytes / rate


def is_nvlink(spec: GpuSpec) -> bool:
    """Return True if the GPUs of one machine are connected by NVLink."""
    return spec.peer_link.startswith("NVLink")


def peer_s(spec: GpuSpec, size_bytes: int) -> float:
    """Return the seconds of a copy between two GPUs of one machine; 0 for no bytes."""
    if size_bytes <= 0:
        return 0.0
    return (_NVLINK_LATENCY_S if is_nvlink(spec) else spec.copy_latency_s) + size_bytes / spec.peer_bytes_per_s


_RINGS: dict[str, Callable[[int], tuple[float, float]]] = {
    "all_reduce": lambda n: (2 * (n - 1) / n, 2 * (n - 1)),
    "all_gather": lambda n: (n - 1, n - 1),
    "reduce_scatter": lambda n: ((n - 1) / n, n - 1),
    "broadcast": lambda n: (1, n - 1),
    "reduce": lambda n: (1, n - 1),
    "all_to_all": lambda n: ((n - 1) / n, 1),
    "gather": lambda n: (n - 1, 1),
    "scatter": lambda n: ((n - 1) / n, 1),
    "point_to_point": lambda n: (1, 1),
    "barrier": lambda n: (0, 2 * (n - 1)),
}
"""(bytes over the link per byte that one GPU contributes, sequential steps), from the number of GPUs."""
_KINDS = {
    "allreduce": "all_reduce", "allreduce_coalesced": "all_reduce", "all_reduce": "all_reduce",
    "all_reduce_coalesced": "all_reduce",
    "_allgather_base": "all_gather", "allgather": "all_gather", "allgather_coalesced": "all_gather",
    "allgather_into_tensor_coalesced": "all_gather", "all_gather_into_tensor": "all_gather",
    "all_gather_into_tensor_coalesced": "all_gather", "all_gather_into_tensor_out": "all_gather",
    "_reduce_scatter_base": "reduce_scatter", "reduce_scatter": "reduce_scatter",
    "reduce_scatter_tensor": "reduce_scatter", "reduce_scatter_tensor_coalesced": "reduce_scatter",
    "reduce_scatter_tensor_out": "reduce_scatter",
    "broadcast": "broadcast", "reduce": "reduce",
    "alltoall": "all_to_all", "alltoall_base": "all_to_all", "all_to_all_single": "all_to_all",
    "gather": "gather", "scatter": "scatter",
    "send": "point_to_point", "recv": "point_to_point", "recv_any_source": "point_to_point",
    "isend": "point_to_point", "irecv": "point_to_point", "barrier": "barrier", "monitored_barrier": "barrier",
}  # fmt: skip
_LL_START_S, _SIMPLE_START_S = 3.6e-6, 8.4e-6
_LL_STEP_S = {True: 0.47e-6, False: 1.0e-6}
"""Seconds of a step, by `is_nvlink`."""
_SIMPLE_STEP_S = {True: 3.4e-6, False: 5.7e-6}
_LL_SHARE = {"all_reduce": 0.25, "reduce": 0.25}
_LL_SHARE_OTHERS = 1 / 3


def collective_kind(name: str) -> str:
    """Return the kind of a collective, such as `all_reduce` for `c10d::allreduce_`; `""` for another operator."""
    return _KINDS.get(short_name(name), "")


def collective_s(spec: GpuSpec, name: str, size_bytes: int, count: int) -> float:
    """Return the seconds of a collective among `count` GPUs of one machine, once all ranks are ready.

    `name` as in `c10d::allreduce_` or `_c10d_functional::all_reduce`, or a kind such as `all_reduce`; unknown names
    count as an all-reduce. `size_bytes` is the contribution of one GPU: its shard in all-gather and gather, the whole
    input in reduce-scatter, the root's tensors in broadcast and scatter. 0 for a group of one.
    """
    if count < 2:
        return 0.0
    kind = name if name in _RINGS else collective_kind(name) or "all_reduce"
    share, steps = _RINGS[kind](count)
    carried_s = share * max(size_bytes, 0) / spec.peer_bytes_per_s
    nvlink = is_nvlink(spec)
    short = _LL_START_S + steps * _LL_STEP_S[nvlink] + carried_s / _LL_SHARE.get(kind, _LL_SHARE_OTHERS)
    long = _SIMPLE_START_S + steps * _SIMPLE_STEP_S[nvlink] + carried_s
    return min(short, long)
