"""An exercise whose submission runs as several ranks."""

from __future__ import annotations

MANIFEST = """\
title = "A step together"
summary = "Train on two GPUs."
minutes = 5
kind = "processes"
entry = "step"
cases = 2
devices = ["virtual"]
[[scenario]]
name = "two GPUs"
gpus = 2
[limits]
wall_s = 40
"""


GIVEN = """\
import torch


def draw(seed, case):
    return {"x": torch.randn(4, 3, generator=torch.Generator().manual_seed(seed))}
"""


CHECKS = """\
import torch
from gpututor.checks import parity, processes, structure


def one(x):
    model = torch.nn.Linear(3, 1).to(x.dtype)
    with torch.no_grad():
        model.weight.fill_(0.5)
        model.bias.zero_()
    model(x).square().mean().backward()
    with torch.no_grad():
        return model.weight - 0.1 * model.weight.grad


def reference(x):
    return [one(x), one(x)]


checks = [structure(reference), parity(reference), processes({"allreduce": (1, None)}, same=("",))]
"""

FILES = {"exercise.toml": MANIFEST, "given.py": GIVEN, "checks.py": CHECKS}


RIGHT = """\
import torch
import torch.distributed as dist


def step(x, rank, world_size, init_method):
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", init_method=init_method, rank=rank, world_size=world_size)
    model = torch.nn.Linear(3, 1).cuda()
    with torch.no_grad():
        model.weight.fill_(0.5)
        model.bias.zero_()
    together = torch.nn.parallel.DistributedDataParallel(model, device_ids=[rank])
    mine = x.chunk(world_size)[rank].cuda()
    together(mine).square().mean().backward()
    torch.optim.SGD(model.parameters(), 0.1).step()
    dist.destroy_process_group()
    return model.weight.detach()
"""
