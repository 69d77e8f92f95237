"""NCCL's process group: the world that it belongs to, its hash, and its names in a profile."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributed as dist

from gpututor.devices.virtual import virtual_gpu
from gpututor.devices.virtual.distributed.communicator import communicator_of
from gpututor.devices.virtual.distributed.process_group_nccl import hash_tensors, title
from gpututor.devices.virtual.profiler.nccl import kernel_name
from tests.support.ranks import single_process_group


def test_the_world_is_known_if_its_backend_is_called_first() -> None:
    with virtual_gpu(), single_process_group("nccl"):
        world: Any = dist.group.WORLD
        backend = world._get_backend(torch.device("cuda"))
        backend.allreduce([torch.ones(1, device="cuda")]).wait()
        assert communicator_of(world).is_world
        assert not communicator_of(dist.new_group([0])).is_world


def test_a_group_beside_a_world_without_device_tensors_is_not_the_world() -> None:
    with virtual_gpu(), single_process_group("cpu:gloo"):
        group = dist.new_group([0], backend="nccl")
        dist.all_reduce(torch.ones(1, device="cuda"), group=group)
        assert not communicator_of(group).is_world


def test_the_hash_that_debug_logs_depends_on_values() -> None:
    with virtual_gpu():
        hashes = [hash_tensors([torch.full((2,), value, device="cuda")]) for value in (1.0, 1.0, 2.0)]
        tensor_without_dimensions = torch.full((), 1.0, device="cuda")
        assert hash_tensors([tensor_without_dimensions]) != hashes[0]
    assert hashes[0] == hashes[1] != hashes[2]


@pytest.mark.parametrize(
    ("operator", "dtype", "range_name", "kernel"),
    [
        ("c10d::allreduce_", torch.float16, "nccl:all_reduce", "AllReduce_Sum_f16_RING_LL"),
        ("c10d::_reduce_scatter_base_", torch.bfloat16, "nccl:_reduce_scatter_base", "ReduceScatter_Sum_bf16_RING_LL"),
        ("c10d::_allgather_base_", torch.float32, "nccl:_all_gather_base", "AllGather_RING_LL"),
        ("c10d::broadcast_", torch.int64, "nccl:broadcast", "Broadcast_RING_LL"),
        ("c10d::alltoall_", torch.float32, "nccl:all_to_all", "SendRecv"),
        ("_c10d_functional::all_reduce", torch.float32, "nccl:all_reduce", "AllReduce_Sum_f32_RING_LL"),
    ],
)
def test_collectives_have_nccls_names(operator: str, dtype: torch.dtype, range_name: str, kernel: str) -> None:
    assert title(operator.rpartition("::")[2], 0, ()) == range_name
    arguments = ([torch.ones(2, dtype=dtype)],)
    assert kernel_name(operator, arguments) == f"ncclDevKernel_{kernel}(ncclDevKernelArgsStorage<4096ul>)"


@pytest.mark.parametrize("name", ["reduce_scatter_tensor", "reduce_scatter_tensor_out"])
def test_functional_reduce_scatters_have_nccls_title(name: str) -> None:
    assert title(name, 0, ()) == "nccl:_reduce_scatter_base"


def test_other_operators_have_no_such_name() -> None:
    for operator in ("aten::add", "_c10d_functional::wait_tensor"):
        assert (title(operator.rpartition("::")[2], 0, ()), kernel_name(operator, (torch.ones(2),))) == ("", "")
