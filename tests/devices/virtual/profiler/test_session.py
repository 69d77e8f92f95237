"""Profiling sessions: activities, nesting, successive sessions and cleanup; profiles of the CPU are unchanged."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.profiler import ProfilerActivity, profile, record_function

from gpututor.devices.recorder import Recorder
from gpututor.devices.virtual import VirtualMachine, virtual_gpu
from gpututor.devices.virtual.operators.dispatch import DeviceMode
from gpututor.trace.events import Kind
from tests.support.profiles import BOTH, rows, works
from tests.support.threads import started


def test_out_of_memory_is_in_the_profile_and_the_profiler_ends() -> None:
    with virtual_gpu(memory_bytes=1 << 24) as machine:
        with pytest.raises(torch.cuda.OutOfMemoryError), profile(activities=BOTH, profile_memory=True) as seen:
            torch.ones(1 << 24, device="cuda")
        assert not machine.recorder.enabled
        with profile(activities=BOTH) as again:
            torch.ones(4, device="cuda")
    assert seen.key_averages() is not None
    assert rows(again)["virtual::ones"].count == 1


def test_default_activities_are_cpu_and_cuda_of_any_thread(two_gpus: VirtualMachine) -> None:
    assert ProfilerActivity.CUDA in torch.profiler.supported_activities()
    with profile() as seen:
        torch.ones(8, device="cuda") + 1
    assert rows(seen)["aten::add"].device_time_total > 0
    x = torch.ones(8, device="cuda")
    with profile(activities=BOTH) as seen:
        started(lambda: x + x).join()
    assert [work.name for work in works(seen)] == ["virtual::add"]
    assert "aten::add" not in rows(seen), "torch's profiler watches the thread that started it"


def test_the_legacy_profiler_accepts_a_device(two_gpus: VirtualMachine) -> None:
    x = torch.ones(8, device="cuda")
    with torch.autograd.profiler.profile(use_device="cuda") as seen:
        x + x
    assert seen.key_averages().table(sort_by="cuda_time_total").count("Self CUDA") >= 2
    assert seen.total_average().self_device_time_total > 0
    assert {event.name for event in seen.function_events} >= {"aten::add", "virtual::add"}
    with pytest.warns(FutureWarning, match="use_cuda"), torch.autograd.profiler.profile(use_cuda=True) as older:
        x + x
    assert older.self_cpu_time_total > 0
    with torch.autograd.profiler.profile(enabled=False, use_device="cuda"):
        x + x


def test_the_machines_recorder_is_restored(two_gpus: VirtualMachine) -> None:
    recorder, plain = two_gpus.recorder, DeviceMode.__torch_dispatch__
    trace = recorder.trace
    x = torch.ones(8, device="cuda")
    for _ in range(2):
        with profile(activities=BOTH) as seen:
            assert recorder.enabled
            x + x
        assert rows(seen)["aten::add"].count == 1
        assert (recorder.enabled, recorder.trace, len(trace)) == (False, trace, 0)
        assert DeviceMode.__torch_dispatch__ is plain

    def failing() -> None:
        with record_function("range"):
            x + x
            raise ValueError("by the program")

    with pytest.raises(ValueError, match="by the program"), profile(activities=BOTH) as seen:
        failing()
    assert rows(seen)["range"].count == rows(seen)["aten::add"].count == 1
    assert (recorder.enabled, recorder.trace) == (False, trace)


def test_a_recording_machine_keeps_a_single_trace(recorder: Recorder) -> None:
    trace = recorder.trace
    x = torch.ones(8, device="cuda")
    with profile(activities=BOTH):
        x + x
    x * x
    assert recorder.complete() is trace
    assert [event.name for event in trace if event.kind is Kind.KERNEL] == ["aten::ones", "aten::add", "aten::mul"]
    assert all(event.end >= event.start >= 0 for event in trace if event.kind is Kind.KERNEL)


def test_a_second_profile_replaces_the_first_as_in_torch(two_gpus: VirtualMachine) -> None:
    x = torch.ones(8, device="cuda")
    with profile(activities=BOTH) as outer:
        x + x
        with profile(activities=BOTH) as inner:
            x * x
        x - x
    assert "aten::mul" in rows(inner)
    assert list(outer.events()) == []
    assert not two_gpus.recorder.enabled
    with profile(activities=BOTH) as later:
        x + x
    assert rows(later)["aten::add"].count == 1


def test_a_profile_that_is_not_stopped_ends_with_its_machine() -> None:
    plain = DeviceMode.__torch_dispatch__
    with virtual_gpu():
        seen = profile(activities=BOTH)
        seen.start()
        torch.ones(8, device="cuda")
    assert DeviceMode.__torch_dispatch__ is plain
    assert rows(seen)["virtual::ones"].count == 1
    seen.stop()
    with profile(activities=[ProfilerActivity.CPU]) as later:
        torch.ones(2) + 1
    assert "aten::add" in rows(later)


def test_a_profile_of_the_cpu_alone_shows_its_own_times(two_gpus: VirtualMachine) -> None:
    with profile(activities=[ProfilerActivity.CPU]) as seen, record_function("range"):
        torch.ones(2) + 1
    assert "CUDA" not in seen.key_averages().table()
    assert {event.name for event in seen.events()} >= {"range", "aten::add"}
    assert not any("gpututor" in event.name for event in seen.events())
    with torch.autograd.profiler.profile() as older:
        torch.ones(2) + 1
    assert "aten::add" in {event.name for event in older.function_events or ()}


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (
            lambda profiler: profiler.toggle_collection_dynamic(False, [ProfilerActivity.CUDA]),
            "toggle_collection_dynamic",
        ),
        (lambda profiler: profiler.export_memory_timeline("x.html"), "export_memory_timeline"),
        (lambda profiler: torch.autograd.profiler.emit_nvtx().__enter__(), "emit_nvtx"),
    ],
)
def test_unsupported_profiler_options_are_refused(two_gpus: VirtualMachine, call: Any, name: str) -> None:
    with profile(activities=BOTH, profile_memory=True, record_shapes=True) as seen:
        torch.ones(2, device="cuda")
        with pytest.raises(NotImplementedError, match=name):
            call(seen)


def test_a_full_trace_does_not_shorten_profile_times() -> None:
    with virtual_gpu(recorder=Recorder(limit=10)) as machine:
        x = torch.ones(8, 8, device="cuda")
        with profile(activities=BOTH) as seen:
            for _ in range(20):
                x @ x
    assert len(machine.recorder.complete()) == 10
    assert rows(seen)["virtual::mm"].count == 20
    assert all(work.time_range.elapsed_us() > 0 for work in works(seen))


def test_cpu_streams_and_events_are_unchanged(two_gpus: VirtualMachine) -> None:
    stream = torch.Stream("cpu")
    assert isinstance(stream, torch.Stream)
    assert stream.device == torch.device("cpu")
    assert isinstance(torch.Event("cpu"), torch.Event)


def test_a_profile_without_gpus_leaves_out_cuda_as_cuda_builds_do() -> None:
    with (
        virtual_gpu(0),
        pytest.warns(UserWarning, match="CUDA is not available, disabling CUDA profiling"),
        profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen,
    ):
        torch.ones(2) + 1
    assert "aten::add" in {event.name for event in seen.events() or ()}
    with virtual_gpu(0):
        assert ProfilerActivity.CUDA not in torch.profiler.supported_activities()
