"""CPU-only profiles, streams and events are unchanged while a virtual GPU is on."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from gpututor.devices.virtual import VirtualMachine, virtual_gpu


def _work() -> None:
    torch.ones(2) + 1


def _methods() -> list[Any]:
    older, ranges = torch.autograd.profiler.profile, torch.profiler.record_function
    return [*vars(older).values(), ranges.__enter__, ranges.__exit__, torch.profiler.profile.export_memory_timeline]


def test_cpu_streams_and_events_are_unchanged(two_gpus: VirtualMachine) -> None:
    stream = torch.Stream("cpu")
    assert isinstance(stream, torch.Stream)
    assert stream.device == torch.device("cpu")
    assert isinstance(torch.Event("cpu"), torch.Event)


def test_cpu_work_is_profiled_as_usual(two_gpus: VirtualMachine) -> None:
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        _work()
    assert "aten::add" in {event.name for event in seen.events() or ()}
    with torch.autograd.profiler.profile() as older:
        _work()
    assert "aten::add" in {event.name for event in older.function_events or ()}


def test_without_gpus_cuda_is_left_out_of_a_profile_as_in_a_cuda_build() -> None:
    with (
        virtual_gpu(0),
        pytest.warns(UserWarning, match="CUDA is not available, disabling CUDA profiling"),
        profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen,
    ):
        _work()
    assert "aten::add" in {event.name for event in seen.events() or ()}
    with virtual_gpu(0):
        assert ProfilerActivity.CUDA not in torch.profiler.supported_activities()


def test_streams_and_profilers_are_restored() -> None:
    before = torch.Stream, torch.Event, torch.profiler.supported_activities, *_methods()
    with virtual_gpu():
        pass
    assert (torch.Stream, torch.Event, torch.profiler.supported_activities, *_methods()) == before
