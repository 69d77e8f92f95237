"""Times of collectives over the link between the GPUs of one box. Imports no torch.

Bytes: the least that each GPU's link has to carry, by the formulas of the "bus bandwidth" of NVIDIA's nccl-tests
(doc/PERFORMANCE.md). Steps: those of a ring. Latencies: the constants with which NCCL chooses between its protocols
(src/graph/tuning.cc, rings, one node): LL has short steps and a part of the bandwidth, Simple long steps and all of it.
"""

from __future__ import annotations

from collections.abc import Callable

from gpututor.devices.virtual.clock.kinds import short_name
from gpututor.devices.virtual.clock.links import is_nvlink
from gpututor.devices.virtual.specs import GpuSpec

_Ring = Callable[[int], tuple[float, float]]
"""From the number of GPUs: (bytes over the link for each byte that one GPU puts in, steps one after another)."""

_RINGS: dict[str, _Ring] = {
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
"""On NVLink, and on PCIe."""
_SIMPLE_STEP_S = {True: 3.4e-6, False: 5.7e-6}
_LL_SHARE = {"all_reduce": 0.25, "reduce": 0.25}
_LL_SHARE_OTHERS = 1 / 3


def collective_kind(name: str) -> str:
    """The kind of a collective by its name, as `all_reduce` for `c10d::allreduce_`; `""` for another operator."""
    return _KINDS.get(short_name(name), "")


def collective_s(spec: GpuSpec, name: str, size_bytes: int, count: int) -> float:
    """Seconds of one collective among `count` GPUs of one box, from the moment when all of them have come to it.

    `name` as in `c10d::allreduce_` or `_c10d_functional::all_reduce`, or a kind such as `all_reduce`; one that is not
    known counts as an all-reduce. `size_bytes` is what one GPU puts in: its shard in all-gather and gather, the whole
    in reduce-scatter, and the root's tensors in broadcast and scatter. 0 for a group of one.
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
