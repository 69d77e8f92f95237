"""Events and the times between them."""

from __future__ import annotations

from typing import Any

import torch

from tests.fidelity.program import gives, raises
from tests.fidelity.programs.streams import CYCLES, end_of, timed

EVENT = "c10/cuda/CUDAEvent.h"
ELAPSED = f"{EVENT}: elapsed_time"


@gives((True, 0, None), source=f"{EVENT}: query; torch/csrc/cuda/Event.cpp")
def an_event_that_was_never_recorded_is_done() -> Any:
    event = torch.cuda.Event()
    return event.query(), event.cuda_event, event.device


@gives("<torch.cuda.Event uninitialized>", source="torch/cuda/streams.py: Event.__repr__")
def an_event_is_made_when_it_is_recorded() -> Any:
    return repr(torch.cuda.Event())


@gives((False, True), source=f"{EVENT}: synchronize")
def an_event_is_done_when_the_work_before_it_is() -> Any:
    event = end_of(torch.cuda.current_stream(), 10 * CYCLES)
    before = event.query()
    event.synchronize()
    return before, event.query()


@gives(True, source=ELAPSED)
def twice_the_work_takes_twice_the_time() -> Any:
    torch.cuda.synchronize()
    start = timed()
    start.record()
    once, twice = end_of(torch.cuda.current_stream()), end_of(torch.cuda.current_stream())
    twice.synchronize()
    return 1.8 < start.elapsed_time(twice) / start.elapsed_time(once) < 2.2


@gives(True, source="docs/source/notes/cuda.rst: asynchronous execution")
def the_host_launches_long_before_the_gpu_is_done() -> Any:
    start = timed()
    start.record()
    end = end_of(torch.cuda.current_stream(), 50 * CYCLES)
    launched = not end.query()
    end.synchronize()
    return launched and start.elapsed_time(end) > 1


@raises(ValueError, "Both events must be created with argument 'enable_timing=True'.", source=ELAPSED)
def events_without_timing_have_no_time() -> Any:
    start, end = torch.cuda.Event(), torch.cuda.Event(enable_timing=True)
    start.record()
    end.record()
    end.synchronize()
    return start.elapsed_time(end)


@raises(ValueError, "Both events must be recorded before calculating elapsed time.", source=ELAPSED)
def events_that_were_not_recorded_have_no_time() -> Any:
    start, end = timed(), timed()
    start.record()
    return start.elapsed_time(end)


@raises(RuntimeError, "Both events must be completed before calculating elapsed time.", source=ELAPSED)
def events_that_are_not_done_have_no_time() -> Any:
    start = timed()
    start.record()
    return start.elapsed_time(end_of(torch.cuda.current_stream(), 10 * CYCLES))


@raises(
    RuntimeError,
    "Event device \x00 does not match recording stream's device \x01.",
    source=f"{EVENT}: record; DeviceIndex is a character",
)
def an_event_stays_on_its_gpu() -> Any:
    event = torch.cuda.Event()
    event.record(torch.cuda.default_stream(0))
    event.record(torch.cuda.default_stream(1))


@gives((False, True), source=f"{EVENT}: block; CUDA Runtime API, docs.nvidia.com: cudaStreamWaitEvent")
def a_stream_can_wait_for_an_event_of_another_gpu() -> Any:
    event = end_of(torch.cuda.default_stream(0), 10 * CYCLES)
    there = torch.cuda.Stream(1)
    there.wait_event(event)
    before = there.query()
    event.synchronize()
    there.synchronize()
    return before, there.query()


@gives((True, False), source="CUDA Runtime API, docs.nvidia.com: cudaEventRecord")
def who_waits_for_an_event_waits_for_where_it_was() -> Any:
    busy, waiting = torch.cuda.Stream(), torch.cuda.Stream()
    event = torch.cuda.Event()
    event.record(busy)
    waiting.wait_event(event)
    last = end_of(busy, 10 * CYCLES)
    event.record(busy)
    waiting.synchronize()
    done = waiting.query(), last.query()
    torch.cuda.synchronize()
    return done
