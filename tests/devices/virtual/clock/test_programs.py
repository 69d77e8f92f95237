"""Times that whole programs measure on the virtual clock: launches, waits, copies and streams."""

from __future__ import annotations

import contextlib
import time

import pytest
import torch

from gpututor.devices.recorder import Recorder
from gpututor.devices.virtual import virtual_gpu
from gpututor.trace.events import Event, Kind
from tests.support.virtual_gpus import printed


def events_of(recorder: Recorder, *kinds: Kind) -> list[Event]:
    return [event for event in recorder.complete() if event.kind in kinds and event.device != "cpu"]


def test_products_take_their_time_on_each_kind_of_core_unless_nobody_waits() -> None:
    def seconds(dtype: torch.dtype, *, waits: bool = True) -> float:
        x = torch.randn(4096, 4096, device="cuda", dtype=dtype)
        x @ x  # its memory comes from the driver, the next product's from PyTorch's cache
        torch.cuda.synchronize()
        start = time.perf_counter()
        x @ x
        if waits:
            torch.cuda.synchronize()
        return time.perf_counter() - start

    before = torch.backends.cuda.matmul.allow_tf32
    with virtual_gpu(1, "A100", values=False):
        assert seconds(torch.float32, waits=False) < 20e-6
        plain, half = seconds(torch.float32), seconds(torch.float16)
        torch.backends.cuda.matmul.allow_tf32 = True
        try:
            tf32 = seconds(torch.float32)
        finally:
            torch.backends.cuda.matmul.allow_tf32 = before
    assert 10e12 < 2 * 4096**3 / plain < 19.5e12, "an A100 has 19.5 TFLOPs a second in float32"
    assert plain > 3 * tf32 > 3 * half


def test_a_wait_lasts_as_long_as_the_remaining_work() -> None:
    with virtual_gpu(1, "H100", recorder=Recorder()) as machine:
        x = torch.randn(2048, 2048, device="cuda")
        for _ in range(2):  # the second time all memory comes from PyTorch's cache
            (x @ x).relu().sum().item()
    results = list(machine.recorder.complete())
    assert all(0 <= item.start <= item.end for item in results)
    assert all(item.launched <= item.start for item in results)
    *_, product = (item for item in results if item.name == "aten::mm")
    *_, wait = (item for item in results if item.kind is Kind.SYNCHRONISE)
    assert wait.end - wait.start > 0.9 * (product.end - product.start)
    assert product.flops == 2 * 2048**3


def test_memory_events_carry_the_allocated_bytes() -> None:
    with virtual_gpu(1, "T4", memory_bytes=64 << 20, recorder=Recorder([__file__])) as machine:
        x = torch.zeros(1 << 20, device="cuda")
        y = x + 1
        del x
        with contextlib.suppress(torch.OutOfMemoryError):
            torch.zeros(1 << 24, device="cuda")
        del y
    results = events_of(machine.recorder, Kind.ALLOCATE, Kind.FREE, Kind.OUT_OF_MEMORY)
    assert [(str(item.kind), item.size_bytes >> 20, item.allocated >> 20) for item in results] == [
        ("allocate", 4, 4),
        ("allocate", 4, 8),
        ("free", 4, 4),
        ("out of memory", 64, 4),
        ("free", 4, 0),
    ]
    lines = [item.line for item in results]
    assert None not in lines
    assert lines == sorted(line for line in lines if line is not None)


def test_a_free_event_refers_to_its_allocation() -> None:
    with virtual_gpu(1, "T4", recorder=Recorder([__file__])) as machine:
        x = torch.zeros(1 << 20, device="cuda")
        y = x + 1
        z = y + 1
        del y
        w = x + z
        del x, z, w
        torch.cuda.memory_allocated()
    events = list(machine.recorder.complete())
    results = [events[event.partner].line for event in events if event.kind is Kind.FREE]
    lines = [event.line for event in events if event.kind is Kind.ALLOCATE]
    assert results == [lines[1], lines[0], lines[2], lines[3]]
    assert all(events[event.partner].kind is Kind.ALLOCATE for event in events if event.kind is Kind.FREE)


_PROGRAM = """
import time
import torch
from gpututor.devices.virtual import virtual_gpu

with virtual_gpu(2, "T4"):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.LazyLinear(10))
    model = model.cuda()
    optimiser = torch.optim.AdamW(model.parameters())
    start = time.perf_counter_ns()
    for _ in range(3):
        optimiser.zero_grad()
        model(torch.randn(4, 3, 32, 32).cuda()).square().mean().backward()
        optimiser.step()
        print(time.perf_counter_ns() - start)
    x = torch.randn(1000, device="cuda").to("cuda:1")
    print(x.sum().device, time.monotonic_ns())
    torch.cuda.synchronize()
    print(time.monotonic_ns())
"""


@pytest.mark.long
def test_times_do_not_depend_on_threads_or_hash_seed() -> None:
    first, second = (
        printed("-c", _PROGRAM, environment={"PYTHONHASHSEED": number, "OMP_NUM_THREADS": number})
        for number in ("1", "2")
    )
    assert first == second
    assert first.count("\n") == 5


def test_gpus_run_independently_and_peer_copies_use_the_link() -> None:
    with virtual_gpu(2, "A100", recorder=Recorder()) as machine:
        x = torch.randn(1 << 26, device="cuda:0")
        torch.cuda.synchronize()
        x.to("cuda:1")
        torch.randn(1 << 26, device="cuda:1")
    copy = events_of(machine.recorder, Kind.TRANSFER)[0]
    assert (copy.source, copy.target) == ("cuda:0", "cuda:1")
    rate = copy.size_bytes / (copy.end - copy.start)
    assert 200 < rate < 300, "NVLink 3 carries 300 GB a second one way"
    after = next(event for event in events_of(machine.recorder, Kind.KERNEL) if event.device == "cuda:1")
    assert after.start >= copy.end


def test_repeated_copies_refer_to_the_first_until_bytes_change() -> None:
    with virtual_gpu(1, "A100", recorder=Recorder()) as machine:
        host = torch.randn(64, 64)
        host.cuda()
        host.cuda()
        host.add_(1)
        host.cuda()
        host[:32].cuda()
        other = torch.randn(64, 64)
        other.cuda()
        del other
        torch.randn(64, 64).cuda()
    trace = machine.recorder.complete()
    results = [(at, event.partner) for at, event in enumerate(trace) if event.kind is Kind.TRANSFER]
    assert [partner for _, partner in results] == [-1, results[0][0], -1, -1, -1, -1]
