"""Profilers, and the CPU's streams and events: what a virtual GPU lacks is refused, the CPU's work as ever."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from gpututor.devices.virtual import VirtualMachine, virtual_gpu


def _work() -> None:
    torch.ones(2) + 1


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: profile(activities=[ProfilerActivity.CUDA]), r"ProfilerActivity\.CUDA"),
        (lambda: profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]), r"ProfilerActivity\.CUDA"),
        (lambda: torch.autograd.profiler.profile(use_device="cuda"), r"torch\.autograd\.profiler\.profile"),
        (lambda: torch.autograd.profiler.emit_nvtx().__enter__(), r"torch\.autograd\.profiler\.emit_nvtx"),
    ],
)
def test_what_needs_the_devices_time_is_refused_by_name(
    two_gpus: VirtualMachine, call: Callable[[], Any], name: str
) -> None:
    with pytest.raises(NotImplementedError, match=name):
        call()


def test_the_cpus_streams_and_events_are_there_as_ever(two_gpus: VirtualMachine) -> None:
    stream = torch.Stream("cpu")
    assert isinstance(stream, torch.Stream)
    assert stream.device == torch.device("cpu")
    assert isinstance(torch.Event("cpu"), torch.Event)


@pytest.mark.parametrize("options", [{"activities": [ProfilerActivity.CPU]}, {}])
def test_the_cpus_work_is_profiled_as_ever(two_gpus: VirtualMachine, options: dict[str, Any]) -> None:
    with profile(**options) as seen:
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


def test_streams_and_profilers_are_put_back() -> None:
    before = torch.Stream, torch.Event, torch.profiler.supported_activities
    with virtual_gpu():
        pass
    assert (torch.Stream, torch.Event, torch.profiler.supported_activities) == before
