"""Backends: the functions of a kind of device, from any version of torch."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import wraps
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from gpututor.devices.real import observe
from gpututor.devices.real.backends import Backend, MpsBackend, backends
from gpututor.devices.recorder import Recorder
from tests.support.fake_device_programs import observing
from tests.support.fake_devices import Clock, Device


def on_cuda(test: Callable[[], None]) -> Callable[[], None]:
    """Mark a test that needs a real CUDA GPU."""
    missing = pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no CUDA GPU")
    return pytest.mark.gpu(missing(test))


class OldEvent:
    """An event without times, as on some backends."""

    def __init__(self, enable_timing: bool = False) -> None:
        if enable_timing:
            raise NotImplementedError("no timing here")

    def synchronize(self) -> None:
        """Return at once."""


def as_xpu(monkeypatch: pytest.MonkeyPatch, **names: Any) -> Backend:
    monkeypatch.setattr(torch, "xpu", SimpleNamespace(**names))
    return Backend("xpu")


def test_modules_without_functions_and_events_without_a_clock_never_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = as_xpu(monkeypatch)
    assert backend.event() is None
    assert backend.is_capturing() is False
    assert (backend.allocated(0), backend.figures(0), backend.reserved(0)) == (0, (0, 0), 0)
    assert backend.count() > 1000
    backend.synchronize(0)
    backend.wait_for(None)
    assert as_xpu(monkeypatch, Event=OldEvent).event() is None


def test_allocated_bytes_are_read_quickly_or_slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    nested = {"allocated_bytes": {"all": {"current": 512}}}
    assert as_xpu(monkeypatch, memory_stats_as_nested_dict=lambda index: nested).allocated(0) == 512
    empty: dict[str, Any] = {}
    quick = as_xpu(monkeypatch, memory_stats_as_nested_dict=lambda index: empty, memory_allocated=lambda index: 1024)
    assert quick.allocated(0) == 1024


def test_streams_are_numbered_in_order_of_use(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = as_xpu(monkeypatch)
    default, first, second = (SimpleNamespace(stream_id=number) for number in (0, 99, 33))
    assert [backend.number_of(0, stream) for stream in (default, first, second, first, default)] == [0, 1, 2, 1, 0]
    assert backend.number_of(0, None) == 0


def test_the_recorders_own_waits_are_not_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    called = []

    def synchronize(index: int) -> None:
        called.append("real")

    @wraps(synchronize)
    def watched(index: int) -> None:
        called.append("watched")

    as_xpu(monkeypatch, synchronize=watched).synchronize(0)
    assert called == ["real"]


def test_apples_gpu_has_a_single_stream_and_a_clock_that_waits() -> None:
    backend = MpsBackend()
    assert backend.stream(0) == (None, 0)
    assert backend.elapsed_waits
    assert not backend.is_capturing()


def test_every_backend_has_the_same_functions() -> None:
    kinds: list[Backend] = [Device(Clock()), MpsBackend(), Backend("cuda"), Backend("xpu")]
    promised = {name for name in vars(Backend) if not name.startswith("_")}
    for backend in kinds:
        assert all(hasattr(backend, name) for name in promised)


def test_the_backends_are_the_kinds_that_torch_reports() -> None:
    there = {kind for kind in ("cuda", "xpu", "mps") if getattr(torch, kind).is_available()}
    assert set(backends()) == there


@pytest.mark.gpu
@pytest.mark.parametrize("kind", ["cuda", "xpu", "mps"])
def test_kernels_of_a_real_device_have_times(kind: str) -> None:
    if not getattr(torch, kind).is_available():
        pytest.skip(f"this machine has no {kind} device")
    with observing(__file__) as recorder:
        x = torch.ones(2048, 2048, device=kind)
        for _ in range(20):
            x = x @ x * 1e-3
        torch.accelerator.synchronize()
    trace = recorder.complete()
    kernels = [event for event in trace if event.name == "aten::mm"]
    waits = [event for event in trace if event.name == "torch.accelerator.synchronize"]
    assert len(kernels) == 20
    assert all(0 <= kernel.launched <= kernel.start < kernel.end for kernel in kernels)
    assert all(kernel.end <= following.start for kernel, following in itertools.pairwise(kernels))
    assert kernels[-1].end <= waits[0].end + 100_000


@on_cuda
def test_a_real_graph_is_one_kernel_at_each_replay() -> None:
    with observing(__file__) as recorder:
        x = torch.ones(1024, device="cuda")
        y = x + 1
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = x * 2 + 1
        graph.replay()
        graph.replay()
        y.sum().item()
    kernels = [event.name for event in recorder.complete() if event.device == "cuda:0" and event.flops == 0]
    assert kernels.count("cuda graph") == 2
    assert kernels.count("aten::mul") == 0


@on_cuda
def test_memory_of_a_real_gpu_is_what_its_allocator_says() -> None:
    recorder = Recorder([__file__])
    before = torch.cuda.memory_allocated()
    with observe(recorder):
        x = torch.empty(1000, device="cuda")
        held = torch.cuda.memory_allocated()
        del x
    taken, freed = list(recorder.trace)
    assert (taken.size_bytes, taken.allocated) == (4096, held)
    assert (freed.size_bytes, freed.allocated) == (4096, before)
