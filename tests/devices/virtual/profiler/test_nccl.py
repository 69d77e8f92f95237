"""Names of collectives in a profile."""

from __future__ import annotations

import pytest
import torch

from gpututor.devices.virtual.profiler.nccl import annotation, kernel_name


@pytest.mark.parametrize(
    ("operator", "dtype", "range_name", "kernel"),
    [
        ("c10d::allreduce_", torch.float16, "nccl:all_reduce", "AllReduce_Sum_f16_RING_LL"),
        ("c10d::_reduce_scatter_base_", torch.bfloat16, "nccl:_reduce_scatter_base", "ReduceScatter_Sum_bf16_RING_LL"),
        ("c10d::_allgather_base_", torch.float32, "nccl:_all_gather_base", "AllGather_RING_LL"),
        ("c10d::broadcast_", torch.int64, "nccl:broadcast", "Broadcast_RING_LL"),
        ("c10d::alltoall_", torch.float32, "nccl:all_to_all", "SendRecv"),
    ],
)
def test_collectives_have_nccls_names(operator: str, dtype: torch.dtype, range_name: str, kernel: str) -> None:
    assert annotation(operator) == range_name
    arguments = ([torch.ones(2, dtype=dtype)],)
    assert kernel_name(operator, arguments) == f"ncclDevKernel_{kernel}(ncclDevKernelArgsStorage<4096ul>)"


def test_other_operators_have_no_such_name() -> None:
    assert (annotation("aten::add"), kernel_name("aten::add", (torch.ones(2),))) == ("", "")
    assert annotation("c10d::send") == ""
