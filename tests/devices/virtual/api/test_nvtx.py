"""NVTX ranges, `torch.cuda.profiler` and `record_function` are ranges of the trace."""

from __future__ import annotations

import time
from typing import Any

import pytest
import torch
from torch import nn
from torch.cuda import nvtx
from torch.profiler import ProfilerActivity, profile, record_function

from gpututor.devices.recorder import Recorder
from gpututor.devices.virtual import virtual_gpu
from gpututor.trace.events import Event, Kind
from tests.support.threads import started

MS = 1_000_000


def ranges(recorder: Recorder) -> dict[str, Event]:
    return {event.name: event for event in recorder.complete() if event.kind is Kind.RANGE}


def test_ranges_nest_and_have_durations_of_the_hosts_clock(recorder: Recorder) -> None:
    depths = [nvtx.range_push("outer")]
    time.sleep(0.001)
    depths.append(nvtx.range_push("inner"))
    time.sleep(0.002)
    depths += [nvtx.range_pop(), nvtx.range_pop(), nvtx.range_pop()]
    assert depths == [-2] * 5, "no tool is attached"
    result = ranges(recorder)
    outer, inner = result["outer"], result["inner"]
    assert (outer.duration, inner.duration) == (3 * MS, 2 * MS)
    assert outer.start <= inner.start < inner.end <= outer.end
    assert (outer.device, outer.launched) == ("cpu", outer.start)
    assert (inner.line or 0) - (outer.line or 0) == 2, "where they begin"


def test_range_blocks_marks_and_range_start_are_recorded(recorder: Recorder) -> None:
    with nvtx.range("step {}", 3):
        nvtx.mark("here")
        time.sleep(0.001)
    identity = nvtx.range_start("loading")
    nvtx.range_end(identity)
    nvtx.range_end(identity)
    result = ranges(recorder)
    assert list(result) == ["here", "step 3", "loading"]
    assert (result["here"].duration, result["step 3"].duration, result["loading"].duration) == (0, MS, 0)


def test_each_thread_has_its_own_ranges(recorder: Recorder) -> None:
    def other() -> None:
        nvtx.range_pop()
        nvtx.range_push("other")
        nvtx.range_pop()

    nvtx.range_push("main")
    started(other).join()
    assert set(ranges(recorder)) == {"other"}
    nvtx.range_pop()
    assert set(ranges(recorder)) == {"main", "other"}


def test_profiler_start_and_stop_record_a_range(recorder: Recorder) -> None:
    with torch.cuda.profiler.profile():
        torch.ones(2, device="cuda")
    torch.cuda.profiler.stop()
    torch.cuda.profiler.start()
    torch.cuda.profiler.start()
    torch.cuda.profiler.stop()
    assert [event.name for event in recorder.complete() if event.kind is Kind.RANGE] == ["cudaProfilerStart"] * 2


def test_record_function_records_ranges_for_the_learner_only(recorder: Recorder) -> None:
    layer = nn.Linear(2, 2, device="cuda")
    sgd = torch.optim.SGD(layer.parameters())
    with record_function("step"):
        layer(torch.ones(1, 2, device="cuda")).sum().backward()
        sgd.step()
        list(torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(2))))
    assert list(ranges(recorder)) == ["step"]
    assert ranges(recorder)["step"].duration > 0

    @record_function("function")
    def work() -> None:
        time.sleep(0.001)

    work()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]), record_function("profiled"):
        time.sleep(0.001)
    result = ranges(recorder)
    assert (result["function"].duration, result["profiled"].duration) == (MS, MS)


def test_ranges_without_a_recorder_or_left_open_are_not_recorded() -> None:
    with virtual_gpu() as machine:
        with nvtx.range("quiet"), record_function("quiet"):
            pass
        assert len(machine.recorder.trace) == 0
    with virtual_gpu():
        nvtx.range_push("left open")
        torch.cuda.profiler.start()
    recorder = Recorder()
    with virtual_gpu(recorder=recorder):
        nvtx.range_pop()
    assert ranges(recorder) == {}


@pytest.mark.parametrize("call", [nvtx.range_push, nvtx.range_start, nvtx.mark])
def test_range_names_are_strings_and_long_names_are_cut(recorder: Recorder, call: Any) -> None:
    assert recorder.enabled
    with pytest.raises(TypeError, match="incompatible function arguments"):
        getattr(nvtx, call.__name__)(3)
    nvtx.mark("x" * 10_000)
    assert len(next(iter(ranges(recorder)))) == 200


def doubled(x: torch.Tensor) -> torch.Tensor:
    with torch.profiler.record_function("scripted"):
        return x * 2


@pytest.mark.filterwarnings("ignore:.*torch.jit.script. is deprecated:DeprecationWarning")
def test_torchscript_compiles_record_function(recorder: Recorder) -> None:
    assert recorder.enabled
    scripted = torch.jit.script(doubled)
    assert scripted(torch.ones(2)).tolist() == [2, 2]
    with profile() as seen:
        scripted(torch.ones(2, device="cuda"))
    (named,) = [event for event in seen.events() if event.name == "scripted" and event.cpu_time_total]
    assert named.device_time_total > 0
