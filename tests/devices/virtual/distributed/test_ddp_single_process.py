"""DistributedDataParallel in a group of one process: its warnings and its profile."""

from __future__ import annotations

import subprocess
import sys

import pytest

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
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[[6.0, 6.0]]", done.stderr
    assert "Time stats" not in done.stderr


PROFILED = """
import torch
import torch.distributed as dist
from torch.profiler import profile
from gpututor.devices.virtual import virtual_gpu
with virtual_gpu():
    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
    x = torch.ones(4, device="cuda")
    with profile() as seen:
        dist.all_reduce(x)
    names = {one.name for one in seen.events()}
    kernels = {name.partition("(")[0] for name in names if name.startswith("nccl")}
    print(*sorted(kernels), "c10d::allreduce_" in names, any("gloo" in name for name in names))
    print(all(one.self_cpu_time_total > -1e-6 for one in seen.events()))
    dist.destroy_process_group()
"""


@pytest.mark.long
def test_a_profile_shows_nccl_kernels_without_gloo() -> None:
    done = subprocess.run([sys.executable, "-c", PROFILED], capture_output=True, text=True, check=False)
    kernel = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
    assert done.stdout.split() == ["nccl:all_reduce", kernel, "True", "False", "True"], done.stderr
