"""Lifetime of tensors, modes and works that gloo's threads or C++ need, and what single processes know."""

from __future__ import annotations

import gc
import time
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist

from gpututor.devices.recorder import Recorder
from gpututor.devices.virtual import virtual_gpu
from gpututor.devices.virtual.api.function_mode import DeviceFunctionMode
from gpututor.devices.virtual.distributed import gloo
from gpututor.devices.virtual.distributed.work import finish_last_works
from gpututor.devices.virtual.machine import active_machine
from gpututor.trace.events import Kind
from tests.support.ranks import single_process_group
from tests.support.virtual_gpus import printed

PATIENCE_S = 60.0


@pytest.fixture(autouse=True)
def _nothing_lent_before() -> None:
    finish_last_works()


def _modes() -> list[weakref.ref[Any]]:
    return [weakref.ref(mode) for mode in gc.get_objects() if type(mode) is DeviceFunctionMode]


@pytest.mark.long
@pytest.mark.parametrize(("backend", "device"), [("nccl", "cuda"), ("gloo", "cuda"), ("gloo", "cpu")])
def test_a_collective_keeps_no_mode_alive(backend: str, device: str) -> None:
    older = {id(reference()) for reference in _modes()}
    with virtual_gpu():
        modes = [reference for reference in _modes() if id(reference()) not in older]
        assert modes
        with single_process_group(backend):
            # As DDP's reducer does: `dist.all_reduce` has the function mode put aside by torch.
            world: Any = dist.group.WORLD
            work = world.allreduce([torch.ones(1, device=device)])
            del world
    gc.collect()
    assert [reference() for reference in modes] == [None] * len(modes)
    work.wait()


def _reduce() -> Any:
    tensor = torch.ones(2, device="cuda")
    work = dist.all_reduce(tensor, op=dist.ReduceOp.AVG, async_op=True)
    assert work is not None
    work.wait()
    return tensor, work


def _gather() -> Any:
    tensor, result = torch.ones(2, device="cuda"), torch.zeros(2, device="cuda")
    dist.all_gather([result], tensor)
    return result, tensor


def _reduce_functionally() -> Any:
    from torch.distributed import _functional_collectives as functional

    tensor = torch.ones(2, device="cuda")
    world: Any = dist.group.WORLD
    result = functional.all_reduce(tensor, "avg", world)
    return result + 0, result, tensor


@pytest.mark.parametrize("collective", [_reduce, _gather, _reduce_functionally])
def test_gloo_releases_tensors_that_the_program_keeps(collective: Callable[[], Any]) -> None:
    with virtual_gpu(), single_process_group("nccl"):
        kept = collective()
        assert gloo.wait_for_release(PATIENCE_S)
        assert kept[0].tolist() == [1.0, 1.0]


def test_a_released_work_still_answers() -> None:
    with virtual_gpu(), single_process_group("nccl"):
        tensor, work = _reduce()
        assert work.wait()
        assert work.is_completed()
        assert work.result()[0] is tensor
        with pytest.raises(RuntimeError, match="may only be called on work objects that correspond to a recv"):
            work._source_rank()


def test_a_tensor_is_held_until_its_last_reference_is_gone() -> None:
    host = torch.ones(2)
    lent = gloo.keep_alive_until_done(host)
    gloo.track_tensors([lent, lent])
    assert lent.data_ptr() == host.data_ptr()
    assert not gloo.wait_for_release(0.0)
    del lent
    assert gloo.wait_for_release(0.0)


def test_a_work_kept_alive_by_a_backward_pass_hides_no_race() -> None:
    with virtual_gpu(), single_process_group("nccl"):
        running = torch.ones(1, device="cuda")
        weight = torch.ones(4, device="cuda", requires_grad=True)

        def reduce(_: torch.Tensor) -> None:
            work: Any = dist.all_reduce(running, async_op=True)
            work.wait()
            time.sleep(0.01)  # at the end of the backward pass, the collective is over

        weight.register_hook(reduce)
        loss = weight.sum()
        recorder = Recorder()
        active_machine().record_with(recorder)
        loss.backward()
        with torch.cuda.stream(torch.cuda.Stream()):
            running.mul_(2)
        assert [event.name for event in recorder.trace if event.kind is Kind.HAZARD] == ["write after write"]


LAST_WORKS = """
import atexit

def report():
    from gpututor.devices.virtual.distributed import gloo
    print("out at the end:", len(gloo._held_by_gloo), flush=True)

atexit.register(report)
import torch
import torch.distributed as dist
dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
tensor = torch.ones(1 << 16, device="cuda")
for _ in range(8):
    work = dist.all_reduce(tensor, async_op=True)
"""


def test_python_exits_after_gloo_released_its_tensors() -> None:
    with virtual_gpu():
        assert printed("-c", LAST_WORKS) == "out at the end: 0\n"
