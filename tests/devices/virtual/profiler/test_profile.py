"""Tables of `torch.profiler`: times of the virtual clock under the names of CUDA and NCCL."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import pytest
import torch
import torch.utils.checkpoint
from torch import nn
from torch.profiler import profile, record_function

from gpututor.devices.recorder import Recorder
from gpututor.devices.virtual import VirtualMachine, virtual_gpu
from gpututor.trace.events import Event, Kind
from tests.support.profiles import BOTH, ON_CUDA, rows, works
from tests.support.virtual_gpus import captured


def step() -> None:
    """A training step on `cuda`."""
    layer = nn.Linear(32, 8, device="cuda")
    sgd = torch.optim.SGD(layer.parameters(), lr=0.1)
    x = torch.ones(16, 32).to("cuda")
    layer(x).sum().backward()
    sgd.step()
    sgd.zero_grad()


def on_device(recorder: Recorder) -> list[Event]:
    trace = recorder.complete()
    return [event for event in trace if event.kind in (Kind.KERNEL, Kind.TRANSFER) and event.device != "cpu"]


def test_device_times_sum_to_the_traces_total(recorder: Recorder) -> None:
    with profile(activities=BOTH) as seen:
        step()
    events = on_device(recorder)
    total = sum(event.end - event.start for event in events) / 1000
    assert total > 0
    assert sum(work.time_range.elapsed_us() for work in works(seen)) == pytest.approx(total)
    averages = seen.key_averages()
    of_operators = [event for event in averages if event.device_type != ON_CUDA]
    assert sum(operator.self_device_time_total for operator in of_operators) == pytest.approx(total)
    assert f"Self CUDA time total: {total:.3f}us" in averages.table(sort_by="self_cuda_time_total")
    began, first = events[0].start, works(seen)[0].time_range.start
    assert [work.time_range.start - first for work in works(seen)] == pytest.approx(
        [(event.start - began) / 1000 for event in events]
    )


def test_operators_nest_and_host_times_are_virtual(two_gpus: VirtualMachine) -> None:
    layer = nn.Linear(4, 4, device="cuda")
    x = torch.ones(2, 4, device="cuda")
    torch.cuda.synchronize()
    launch, view = two_gpus.gpus[0].launch_ns / 1000, two_gpus.gpus[0].view_ns / 1000
    with profile(activities=BOTH, record_shapes=True, with_flops=True) as seen, torch.no_grad():
        layer(x)
    (linear,) = [event for event in seen.events() if event.name == "aten::linear"]
    assert [child.name for child in linear.cpu_children] == ["aten::t", "aten::addmm"]
    transposed, product = linear.cpu_children
    assert [child.name for child in transposed.cpu_children] == ["aten::transpose"]
    assert [child.name for child in transposed.cpu_children[0].cpu_children] == ["aten::as_strided"]
    assert [child.name for child in product.cpu_children] == ["cudaLaunchKernel"]
    assert [event.name for event in product.kernels] == ["virtual::addmm"]
    assert (transposed.cpu_time_total, product.cpu_time_total) == pytest.approx((view, launch))
    assert linear.cpu_time_total == pytest.approx(view + launch)
    assert linear.device_time_total == product.device_time_total
    assert product.device_time_total == pytest.approx(works(seen)[0].time_range.elapsed_us())
    assert product.input_shapes[:3] == [[4], [2, 4], [4, 4]]
    assert product.flops == 2 * 2 * 4 * 4
    assert [event.name for event in seen.events() if event.cpu_parent is None and event.device_type != ON_CUDA] == [
        "aten::linear",
        "cudaDeviceSynchronize",
    ]


def test_tables_are_reproducible() -> None:
    def table() -> str:
        with virtual_gpu(), profile(activities=BOTH, profile_memory=True) as seen:
            step()
        return str(seen.key_averages().table(sort_by="cuda_time_total"))

    assert table() == table(), "made after the machine was switched off"


def test_copies_and_waits_have_cudas_names(two_gpus: VirtualMachine) -> None:
    page, pinned = torch.ones(1 << 16), torch.ones(1 << 16).pin_memory()
    with profile(activities=BOTH) as seen:
        x = page.to("cuda")
        pinned.to("cuda", non_blocking=True)
        pinned.to("cuda")
        x.cpu()
        x.clone()
        x.clone().t().copy_(x)
        x.to("cuda:1")
        x.to(torch.float16)
        torch.cuda.current_stream().synchronize()
        x.sum().item()
        event = torch.cuda.Event()
        event.record()
        event.synchronize()
    assert Counter(work.name for work in works(seen)) == {
        "Memcpy HtoD (Pageable -> Device)": 1,
        "Memcpy HtoD (Pinned -> Device)": 2,
        "Memcpy DtoH (Device -> Pageable)": 2,
        "Memcpy DtoD (Device -> Device)": 3,
        "Memcpy PtoP (Device -> Device)": 1,
        "virtual::_to_copy": 1,
        "virtual::sum": 1,
    }
    calls = Counter(entry.name for entry in seen.events() if entry.name.startswith("cuda"))
    assert calls == {
        "cudaMemcpyAsync": 8,
        "cudaMemcpyPeerAsync": 1,
        "cudaLaunchKernel": 2,
        "cudaStreamSynchronize": 5,
        "cudaEventSynchronize": 1,
        "cudaDeviceSynchronize": 1,
    }


def test_a_wait_lasts_until_the_device_is_done(two_gpus: VirtualMachine) -> None:
    x = torch.ones(256, 256, device="cuda")
    torch.cuda.synchronize()
    with profile(activities=BOTH) as seen:
        for _ in range(4):
            x @ x
        torch.cuda.synchronize()
    first, last = [event for event in seen.events() if event.name == "cudaDeviceSynchronize"]
    assert first.time_range.end >= max(work.time_range.end for work in works(seen))
    assert last.cpu_time_total == pytest.approx(3.0), "torch waits once more, for nothing"


def test_ranges_contain_their_operators(two_gpus: VirtualMachine) -> None:
    x = torch.ones(64, 64, device="cuda")
    with profile(activities=BOTH) as seen:
        with record_function("outer"):
            x + x
            with record_function("inner"):
                x @ x
            time.sleep(0.001)
        with record_function("empty"):
            pass
    results = {event.name: event for event in seen.events() if event.device_type != ON_CUDA}
    outer, inner = results["outer"], results["inner"]
    add, product = results["aten::add"], results["aten::mm"]
    assert inner.cpu_parent is outer
    assert outer.device_time_total == pytest.approx(add.device_time_total + product.device_time_total)
    assert inner.device_time_total == product.device_time_total
    assert outer.cpu_time_total == pytest.approx(add.cpu_time_total + product.cpu_time_total + 1000)
    assert (results["empty"].cpu_time_total, results["empty"].device_time_total) == (0, 0)
    (shown,) = [event for event in seen.events() if event.name == "outer" and event.device_type == ON_CUDA]
    assert (shown.time_range.start, shown.time_range.end) == (
        works(seen)[0].time_range.start,
        works(seen)[1].time_range.end,
    ), "as CUDA's profiler shows it above the stream"


def test_memory_is_the_devices_and_the_hosts_is_without_its_values(two_gpus: VirtualMachine) -> None:
    before = torch.cuda.memory_allocated()
    with profile(activities=BOTH, profile_memory=True) as seen:
        x = torch.ones(1 << 10, device="cuda")
        y = x + 1
        x + y
        torch.ones(1 << 8)
        del y
        grown = torch.cuda.memory_allocated() - before
    results = rows(seen)
    assert results["aten::add"].self_device_memory_usage == 2 << 12
    assert results["aten::add"].cpu_memory_usage == 0
    assert results["[memory]"].device_memory_usage == -2 << 12
    assert results["aten::ones"].cpu_memory_usage == 1 << 10
    everything = sum(event.self_device_memory_usage for event in seen.events())
    assert everything == grown == 1 << 12
    assert "CUDA Mem" in seen.key_averages().table(sort_by="self_cuda_memory_usage")
    x.zero_()


def test_a_graph_is_one_launch_with_all_its_kernels(two_gpus: VirtualMachine) -> None:
    x = torch.ones(16, 16, device="cuda")
    graph, _ = captured(lambda: (x @ x) + 1)
    with profile(activities=BOTH) as seen:
        for _ in range(3):
            graph.replay()
    assert rows(seen)["cudaGraphLaunch"].count == 3
    assert Counter(work.name for work in works(seen)) == {"virtual::mm": 3, "virtual::add": 3}


class Slow(torch.autograd.Function):
    """Waits a millisecond each way."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        time.sleep(0.001)
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        time.sleep(0.001)
        return gradient * 2


def test_custom_functions_have_their_host_time(two_gpus: VirtualMachine) -> None:
    x = torch.ones(2, device="cuda", requires_grad=True)
    with profile(activities=BOTH) as seen:
        Slow.apply(x).sum().backward()  # type: ignore[no-untyped-call]
    results = rows(seen)
    assert results["Slow"].cpu_time_total == pytest.approx(1009.5)
    assert results["SlowBackward"].cpu_time_total == pytest.approx(1009.5)
    assert results["SlowBackward"].device_time_total > 0


def test_parents_last_at_least_as_long_as_children(two_gpus: VirtualMachine) -> None:
    layer = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(72, 4)).cuda()
    x = torch.ones(4, 1, 8, 8, device="cuda", requires_grad=True)
    with profile(activities=BOTH) as seen:
        for reentrant in (True, False):
            torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=reentrant).sum().backward()
        nn.DataParallel(layer)(x).sum().backward()
        nn.LSTM(8, 8, device="cuda")(x[0])[0].sum().backward()
    for event in seen.events():
        assert event.self_cpu_time_total > -1e-6, event.name
        assert event.time_range.end >= event.time_range.start, event.name
        for child in event.cpu_children:
            assert child.time_range.start >= event.time_range.start - 1e-6, event.name
            assert child.time_range.end <= event.time_range.end + 1e-6, event.name
