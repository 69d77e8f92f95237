"""Calls that dispatch no operator: graphs, ranges and printing, on a device that only the tests move."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest
import torch

from gpututor.devices.real import observe, patched_calls
from gpututor.devices.real.patched_calls import TABLE
from gpututor.trace.events import Kind
from tests.support.fake_device_programs import Watched, row
from tests.support.fake_devices import KERNEL_NS, LAUNCH_NS, Device


class Graph:
    """A substitute for `torch.cuda.CUDAGraph`."""

    def __init__(self, device: Device) -> None:
        self.device = device

    def capture_begin(self) -> None:
        torch.zeros(1, device="meta").fill_(7)  # the generator's seed
        self.device.capturing = True

    def capture_end(self) -> None:
        self.device.capturing = False

    def replay(self) -> None:
        self.device.work(5 * KERNEL_NS)


def test_a_replay_and_a_sleep_are_one_kernel_each(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(torch.cuda, "_sleep", lambda cycles: watched.device.work(cycles))
    monkeypatch.setattr(patched_calls, "_current_device", lambda: torch.device("meta", 0))
    with watched.on():
        x = row()
        graph = Graph(watched.device)
        graph.capture_begin()
        y = x + 1
        y.to(torch.float16)
        graph.capture_end()
        graph.replay()
        graph.replay()
        torch.cuda._sleep(90_000)
    kernels = watched.events(Kind.KERNEL)
    assert [event.name for event in kernels] == ["aten::ones", "cuda graph", "cuda graph", "torch.cuda._sleep"]
    assert 5 * KERNEL_NS <= kernels[1].duration <= 5 * KERNEL_NS + LAUNCH_NS + 10
    assert kernels[2].duration == 5 * KERNEL_NS
    assert kernels[1].size_bytes == 32 + 24
    assert kernels[1].launched <= kernels[1].start < kernels[1].end == kernels[2].start
    assert 90_000 <= kernels[3].duration <= 90_000 + LAUNCH_NS + 10


def test_nvtx_ranges_are_recorded_with_their_first_line(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda.nvtx, "range_push", lambda msg: 0)
    monkeypatch.setattr(torch.cuda.nvtx, "range_pop", lambda: 0)
    monkeypatch.setattr(torch.cuda.nvtx, "range_start", lambda msg: 7)
    monkeypatch.setattr(torch.cuda.nvtx, "range_end", lambda range_id: None)
    monkeypatch.setattr(torch.cuda.nvtx, "mark", lambda msg: None)
    with watched.on():
        with torch.cuda.nvtx.range("step {}", 1):
            row()
            torch.cuda.nvtx.range_push("inner")
            torch.cuda.nvtx.range_pop()
        identity = torch.cuda.nvtx.range_start("apart")
        torch.cuda.nvtx.mark("here")
        torch.cuda.nvtx.range_end(identity)
        torch.cuda.nvtx.range_push("left open")
    inner, step, here, apart = watched.events(Kind.RANGE)
    assert [event.name for event in (inner, step, here, apart)] == ["inner", "step 1", "here", "apart"]
    assert step.launched < inner.launched < inner.end < step.end <= apart.launched < here.launched < apart.end
    assert here.launched == here.end
    assert inner.line is not None
    with watched.on():
        torch.cuda.nvtx.range_pop()
    assert len(watched.events(Kind.RANGE)) == 4


def test_printing_is_one_copy_and_one_wait(watched: Watched) -> None:
    class Printed(torch.Tensor):
        """A tensor that claims another device than meta, which cannot print and leaves no record."""

        @property
        def device(self) -> torch.device:  # type: ignore[override]
            return torch.device("xpu", 0)

    with watched.on():
        repr(torch.ones(0).as_subclass(Printed))  # reads nothing
        repr(torch.ones(4).as_subclass(Printed))
    copy, wait = watched.events(Kind.TRANSFER, Kind.SYNCHRONISE)
    assert (copy.kind, copy.name, wait.kind, wait.name) == (Kind.TRANSFER, "print", Kind.SYNCHRONISE, "print")


def test_every_row_of_the_table_is_a_call_of_this_torch() -> None:
    importlib.import_module("torch._inductor.runtime.triton_heuristics")  # loaded by the first compilation
    for call in TABLE:
        owner: Any = torch
        for part in filter(None, call.owner.split(".")):
            owner = getattr(owner, part)
        assert callable(getattr(owner, call.name)), call.full_name


def test_calls_that_torch_lacks_are_left_out(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch.cuda, "CUDAGraph")
    monkeypatch.delattr(torch.mps, "Event")
    monkeypatch.delattr(torch.cuda.nvtx, "mark")
    with watched.on():
        row()
    assert len(watched.events(Kind.KERNEL)) == 1
    assert not hasattr(torch.cuda, "CUDAGraph")


class Elsewhere(torch.Tensor):
    """A tensor that claims the device of a fake backend."""

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return torch.device("meta", 0)


def test_scalars_in_a_list_are_read_one_by_one(watched: Watched) -> None:
    values = [torch.tensor(value).as_subclass(Elsewhere) for value in (1.5, 2.5)]
    before = torch.Tensor.__float__
    with watched.on():
        assert torch.tensor(values).tolist() == [1.5, 2.5]
        torch.tensor([torch.tensor(True).as_subclass(Elsewhere), torch.tensor(3).as_subclass(Elsewhere)])
    read = watched.events(Kind.TRANSFER, Kind.SYNCHRONISE)
    assert {event.name for event in read} == {"aten::_local_scalar_dense"}
    assert [event.kind for event in read] == [Kind.TRANSFER, Kind.SYNCHRONISE] * 4
    assert [event.size_bytes for event in read] == [4, 0, 4, 0, 1, 0, 8, 0]
    assert {event.line is not None for event in read} == {True}
    assert torch.Tensor.__float__ is before
    assert "__float__" not in vars(torch.Tensor)


def test_a_number_that_the_mode_sees_is_read_once(watched: Watched) -> None:
    with watched.on():
        float(row().sum())
    kinds = [event.kind for event in watched.events(Kind.TRANSFER, Kind.SYNCHRONISE)]
    assert kinds == [Kind.TRANSFER, Kind.SYNCHRONISE]


def test_emptying_the_cache_waits_if_memory_is_returned(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    released = [4096, 0]

    def empty_cache() -> None:
        watched.device.bytes -= released.pop(0)

    monkeypatch.setattr(torch.cuda, "empty_cache", empty_cache)
    watched.device.bytes = 8192
    with observe(watched.recorder, backends={"cuda": watched.device}, clock_ns=watched.clock):
        torch.cuda.empty_cache()
        torch.cuda.empty_cache()
    (wait,) = watched.events(Kind.SYNCHRONISE)
    assert (wait.name, wait.device, wait.line is not None) == ("cudaFree", "cuda:0", True)


@pytest.mark.parametrize("file", ["_inductor/runtime/benchmarking.py", "_inductor/cudagraph_trees.py"])
def test_waits_of_a_compiler_are_not_those_of_the_program(
    file: str, watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    def empty_cache() -> None:
        watched.device.bytes -= 4096

    monkeypatch.setattr(torch.cuda, "synchronize", lambda device=None: None)
    monkeypatch.setattr(torch.cuda, "empty_cache", empty_cache)
    watched.device.bytes = 8192
    source = "def prepare():\n    torch.cuda.synchronize()\n    torch.cuda.empty_cache()\n    run()"
    prepare: dict[str, Any] = {"torch": torch, "run": lambda: torch.cuda.synchronize()}
    exec(compile(source, str(Path(torch.__file__).parent / file), "exec"), prepare)
    with observe(watched.recorder, backends={"cuda": watched.device}, clock_ns=watched.clock):
        prepare["prepare"]()
    assert [wait.name for wait in watched.events(Kind.SYNCHRONISE)] == ["torch.cuda.synchronize"], "run() waits itself"
