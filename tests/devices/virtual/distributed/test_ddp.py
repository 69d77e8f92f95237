"""DistributedDataParallel in two processes equals one process with the whole batch; its warnings in one process."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support import ddp_programs
from tests.support.ranks import results_of
from tests.support.virtual_gpus import printed, run_python

Results = list[dict[str, Any]]
results = results_of(ddp_programs.__name__, backend=None)


@pytest.mark.parametrize(
    ("name", "tolerance"),
    [
        ("plain", 1e-6),
        ("gradient_as_bucket_view", 1e-6),
        ("static_graph", 1e-6),
        ("many_buckets", 1e-6),
        ("allreduce_hook", 1e-6),
        ("fp16_compress_hook", 1e-3),
    ],
)
def test_training_equals_one_process_with_the_whole_batch(results: Results, name: str, tolerance: float) -> None:
    for rank, result in enumerate(message[name] for message in results):
        difference, devices = result
        assert difference <= tolerance
        assert devices == [f"cuda:{rank}"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # No copies, one collective.
        ("no_transfer_in_backward", [[0, 1]] * 2),
        ("find_unused_parameters", [[None, "cuda:0"], [None, "cuda:1"]]),
        # The buffers of rank 0.
        ("buffers", [("cuda:0", 1.0), ("cuda:1", 1.0)]),
        ("distributed_sampler", [[("cuda:0", [0, 2, 4, 6, 8])], [("cuda:1", [1, 3, 5, 7, 9])]]),
        # Two and three batches.
        ("join", ["cuda:0", "cuda:1"]),
        ("join_that_divides_by_running_ranks", [[1.5], [1.5, 3.0]]),
        ("saved_and_loaded", [[["module.bias", gpu], ["module.weight", gpu]] for gpu in ("cuda:0", "cuda:1")]),
        # The values of the whole layers.
        ("tensor_parallel", [["cuda:0", True], ["cuda:1", True]]),
    ],
)
def test_a_program_has_these_results_on_both_ranks(results: Results, name: str, expected: list[Any]) -> None:
    assert [rank[name] for rank in results] == expected


def test_unused_parameters_are_an_error_otherwise(results: Results) -> None:
    for rank in results:
        assert rank["unused_parameters"].startswith("RuntimeError: Expected to have finished reduction in the prior")


def test_no_sync_adds_up_gradients_until_the_next_backward(results: Results) -> None:
    assert max(rank["no_sync"] for rank in results) <= 1e-5


@pytest.mark.parametrize("what", ["output", "gradient", "running"])
def test_sync_batch_norm_sees_the_batch_of_all_ranks(results: Results, what: str) -> None:
    assert max(rank["sync_batch_norm"][what] for rank in results) <= 1e-4


def test_a_module_on_the_host_is_refused_in_ddps_own_words(results: Results) -> None:
    for rank in results:
        assert "only work with single-device/multiple-device GPU modules" in rank["host_module_with_device_ids"]
        assert rank["host_module"] == "RuntimeError: No backend type associated with device type cpu"


PROGRAM = """
import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook
from gpututor.devices.virtual import virtual_gpu
with virtual_gpu():
    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1).cuda(), device_ids=[0])
    model.register_comm_hook(None, bf16_compress_hook)
    for _ in range(3):
        model(torch.ones(2, 2, device="cuda")).sum().backward()
    print(model.module.weight.grad.tolist())
    dist.destroy_process_group()
"""


@pytest.mark.long
def test_the_bfloat16_hook_runs_without_warnings() -> None:
    done = run_python("-c", PROGRAM)
    assert done.stdout.strip() == "[[6.0, 6.0]]", done.stderr
    assert "Time stats" not in done.stderr


PROFILED = """
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch.profiler import profile
from gpututor.devices.virtual import virtual_gpu
with virtual_gpu():
    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
    x = torch.ones(4, device="cuda")
    with profile() as seen:
        dist.all_reduce(x)
        functional.wait_tensor(functional.all_gather_tensor(x, 0, dist.group.WORLD))
    names = {event.name for event in seen.events()}
    kernels = {name.partition("(")[0] for name in names if name.startswith(("nccl", "virtual::"))}
    print(*sorted(kernels), "c10d::allreduce_" in names, any("gloo" in name for name in names))
    print(all(event.self_cpu_time_total > -1e-6 for event in seen.events()))
    dist.destroy_process_group()
"""


@pytest.mark.long
def test_a_profile_shows_nccl_kernels_without_gloo() -> None:
    titles = ["nccl:_all_gather_base", "nccl:all_reduce"]
    kernels = [*titles, "ncclDevKernel_AllGather_RING_LL", "ncclDevKernel_AllReduce_Sum_f32_RING_LL"]
    assert printed("-c", PROFILED).split() == [*kernels, "True", "False", "True"]


LEGACY = """
import torch
import torch.distributed as dist
from torch.autograd.profiler import profile
from gpututor.devices.virtual import virtual_gpu
with virtual_gpu():
    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
    x = torch.ones(4, device="cuda")
    profiles = [profile(record_shapes=True), profile(record_shapes=True, use_device="cuda")]
    for seen in profiles:
        with seen:
            dist.all_reduce(x)
            dist.all_gather_into_tensor(torch.empty(4, device="cuda"), x, async_op=True).wait()
            dist.all_reduce(x, op=dist.ReduceOp.AVG)
    dist.destroy_process_group()
for seen in profiles:
    events = [event for event in seen.function_events if event.name.startswith(("nccl:", "gloo:"))]
    print(*(f"{event.name} {event.is_async} {event.count} {event.input_shapes}" for event in events), sep="; ")
    print(sum(event.name == "c10d::allreduce_" for event in seen.function_events))
"""


@pytest.mark.long
def test_the_legacy_profiler_shows_one_nccl_event_per_collective() -> None:
    events = ["nccl:all_reduce", "nccl:_all_gather_base", "nccl:all_reduce"]
    line = "; ".join(f"{name} True 1 [[4]]" for name in events)
    assert printed("-c", LEGACY).splitlines() == [line, "2"] * 2
