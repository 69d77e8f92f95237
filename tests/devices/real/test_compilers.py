"""Compilers and other users of dispatch under observation: the mode neither disturbs nor records what is traced."""

from __future__ import annotations

import io
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile
from torch.testing._internal.two_tensor import TwoTensor

from gpututor.devices.real import observe, patched_calls
from gpututor.devices.recorder import Recorder
from gpututor.trace.events import Kind
from tests.support.fake_device_programs import Watched, observing, row
from tests.support.virtual_gpus import printed


def kernels(recorder: Recorder) -> list[str]:
    return [event.name for event in recorder.complete() if event.kind is Kind.KERNEL]


def test_a_composite_operator_is_composed_as_in_eager_mode() -> None:
    import_module("torch._decomp.decompositions")  # registers compositions that are for compilers only
    lstm, x = nn.LSTM(3, 4, batch_first=True), torch.ones(2, 5, 3)
    state = torch.zeros(1, 2, 4), torch.zeros(1, 2, 4)
    with torch.inference_mode():
        expected = lstm(x, state)[0]
        with observing(__file__) as recorder:
            seen = lstm(x, state)[0]
    assert torch.equal(seen, expected)
    assert kernels(recorder)


def test_a_model_is_exported_and_only_its_runs_are_recorded() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    inputs, file = torch.ones(3, 4), io.BytesIO()
    batch = torch.export.Dim("batch")
    with observing(__file__) as recorder:
        program = torch.export.export(model, (inputs,), dynamic_shapes=({0: batch},))
        torch.export.save(program, file)
        traced = kernels(recorder)
        file.seek(0)
        out = torch.export.load(file).module()(torch.ones(5, 4))
    assert out.shape == (5, 4)
    assert [name for name in traced if name in ("aten::addmm", "aten::relu")] == []
    assert kernels(recorder)[-2:] == ["aten::addmm", "aten::relu"]


def test_a_trace_is_saved_and_run_and_each_run_is_recorded() -> None:
    model, file = nn.Linear(4, 2), io.BytesIO()
    with observing(__file__) as recorder:
        torch.jit.save(torch.jit.trace(model, torch.ones(3, 4), check_trace=False), file)
        file.seek(0)
        loaded = torch.jit.load(file)
        before = kernels(recorder).count("aten::addmm")
        out = loaded(torch.ones(5, 4))
    assert (out.shape, kernels(recorder).count("aten::addmm")) == ((5, 2), before + 1)


def test_a_trace_of_a_convolution_holds_for_other_batches() -> None:
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding="same"), nn.BatchNorm2d(8), nn.Flatten()).eval()
    fresh = torch.randn(7, 3, 6, 6)
    with observe(Recorder([__file__])):
        traced: Any = torch.jit.trace(model, torch.randn(4, 3, 6, 6))
        torch.testing.assert_close(traced(fresh), model(fresh))
        file = io.BytesIO()
        torch.jit.save(traced, file)
        file.seek(0)
        torch.testing.assert_close(torch.jit.load(file, map_location="cpu")(fresh), model(fresh))


def test_factories_of_fake_tensors_are_no_work() -> None:
    recorder = Recorder([__file__])
    with observe(recorder), torch._subclasses.FakeTensorMode():
        x = torch.ones(3) + torch.tensor([1.0, 2.0, 3.0])
    assert x.device.type == "cpu"
    assert len(recorder.trace) == 0


COMPILED = """\
import torch
from gpututor.devices.real import observe
from gpututor.devices.recorder import Recorder

compiled = []

def backend(graph, inputs):
    compiled.append(graph)
    return graph.forward

def program(x):
    return (x.sin() + torch.tensor([1.0, 2.0])).cos()

recorder = Recorder([__file__])
x = torch.ones(2)
with observe(recorder):
    fast = torch.compile(program, backend=backend, fullgraph=True)
    for _ in range(3):
        fast(x)
print(len(compiled), *(event.name for event in recorder.complete() if event.kind == "kernel"))
"""


def test_a_program_is_compiled_once_and_its_operators_are_recorded(tmp_path: Path) -> None:
    """Run in a process of its own: other tests leave compilers in another state."""
    program = tmp_path / "program.py"
    program.write_text(COMPILED)
    assert printed(str(program)).split() == ["1", *["aten::sin", "aten::add", "aten::cos"] * 3]


def test_branches_of_cond_are_recorded() -> None:
    with observing(__file__) as recorder:
        out = torch.cond(torch.tensor(True), lambda x: x.sin(), lambda x: x.cos(), (torch.ones(2),))
    assert torch.equal(out, torch.ones(2).sin())
    assert kernels(recorder) == ["aten::ones", "aten::sin"]


def test_a_class_of_tensors_runs_its_own_operators() -> None:
    pair = TwoTensor(torch.ones(2), torch.zeros(2))
    with observing(__file__) as recorder:
        both: Any = pair + 1
    assert (both.a.tolist(), both.b.tolist()) == ([2.0, 2.0], [1.0, 1.0])
    assert kernels(recorder) == ["aten::add", "aten::add"]


@torch.library.custom_op("observed::composed", mutates_args=())
def composed(x: Tensor) -> Tensor:
    return x.sin() + 1


@torch.library.custom_op("observed::own", mutates_args=())
def own(x: Tensor) -> Tensor:
    return torch.from_numpy(x.numpy() + 1)


def test_custom_operators_count_by_their_bodies_or_as_one_kernel() -> None:
    x = torch.ones(2)
    with observing(__file__) as recorder:
        results = composed(x), own(x)
    assert (results[0].tolist(), results[1].tolist()) == ((x.sin() + 1).tolist(), [2.0, 2.0])
    assert kernels(recorder) == ["aten::sin", "aten::add", "observed::own"]


def test_a_profiler_sees_each_operator_once() -> None:
    def profiled() -> list[str]:
        x = torch.ones(8, 8)
        with profile(activities=[ProfilerActivity.CPU]) as seen:
            (x @ x + x).repeat(2, 2)
        events = seen.events() or ()
        return [event.name for event in events if event.name in ("aten::mm", "aten::add", "aten::repeat")]

    alone = profiled()
    with observe(Recorder()):
        names = profiled()
    assert names == alone


class Launcher:
    """A substitute for the launcher of compiled kernels, which TorchInductor makes."""

    def __init__(self, watched: Watched) -> None:
        self.device = watched.device
        self.inductor_meta = {"kernel_name": "triton_poi_fused_add_0"}
        self.launchers: list[object] = []

    def run(self, *args: Any, stream: int, **kwargs: Any) -> None:
        self.launchers = [self]
        self.device.work(70_000)


def test_a_profiler_sees_the_ranges_that_a_program_names() -> None:
    cpu, outer = profile(activities=[ProfilerActivity.CPU]), torch.profiler.record_function("outer")
    with observe(Recorder([__file__])), cpu as seen, outer:
        torch.ones(2) + 1
    names = [event.name for event in seen.events() or ()]
    assert names.count("outer") == names.count("aten::add") == 1


def test_compiled_kernels_are_recorded_with_times_from_the_second_launch_on(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = import_module(patched_calls._LAUNCHERS)
    monkeypatch.setattr(module, "CachingAutotuner", Launcher)
    original = Launcher.run
    launcher, x = Launcher(watched), row()
    monkeypatch.setattr(torch, "_inductor", SimpleNamespace())  # as before the first compilation
    with watched.on():
        launcher.run(x, 4, stream=0)
        monkeypatch.undo()
        monkeypatch.setattr(module, "CachingAutotuner", Launcher)
        torch.compile(lambda x: x, backend="eager")
        launcher.launchers = []
        launcher.run(x, x, 4, stream=0)
        launcher.run(x, x, 4, stream=0)
        launcher.run(x, stream=0, benchmark_run=True)
    first, second = watched.events(Kind.KERNEL)
    assert (first.name, first.size_bytes, first.line is not None) == ("triton_poi_fused_add_0", 32, True)
    assert (first.start, first.end) == (-1, -1)
    assert second.duration == 70_000
    assert Launcher.run is original
