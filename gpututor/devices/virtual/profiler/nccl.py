"""Names of collectives in a profile: the kernels of NCCL 2.19 and later.

Python cannot see an operator's reduction. So all reducing kernels are named after the sum.
"""

from __future__ import annotations

from typing import Any

import torch

from gpututor.devices.virtual import torch_private
from gpututor.devices.virtual.cost import links

TITLE = "nccl:"
"""The prefix of the events that NCCL's process group shows for its collectives."""

_KERNELS = {
    "all_reduce": "AllReduce",
    "barrier": "AllReduce",
    "all_gather": "AllGather",
    "reduce_scatter": "ReduceScatter",
    "broadcast": "Broadcast",
    "reduce": "Reduce",
}
"""Kernels of ring algorithms; all other collectives use the kernel of sends and receives."""
_REDUCES = frozenset({"AllReduce", "ReduceScatter", "Reduce"})
_DTYPES = {
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.float32: "f32",
    torch.float64: "f64",
    torch.uint8: "u8",
    torch.int8: "i8",
    torch.bool: "u8",
    torch.int32: "i32",
    torch.int64: "i64",
}


def kernel_name(operator: str, args: Any) -> str:
    """Return the name of the kernel that runs a collective, given its operator and arguments; empty for others."""
    kind = links.collective_kind(operator) if operator.startswith(("c10d::", "_c10d_functional::")) else ""
    if not kind:
        return ""
    kernel = _KERNELS.get(kind, "SendRecv")
    if kernel in _REDUCES:
        dtypes = [leaf.dtype for leaf in torch_private.tree_leaves(args) if isinstance(leaf, torch.Tensor)]
        dtype = dtypes[0] if dtypes else torch.uint8
        kernel = f"{kernel}_Sum_{_DTYPES.get(dtype, 'f32')}"
    ending = "" if kernel == "SendRecv" else "_RING_LL"
    return f"ncclDevKernel_{kernel}{ending}(ncclDevKernelArgsStorage<4096ul>)"
