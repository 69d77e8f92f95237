"""Streams and events: the order and the overlap of work, and the times between."""

from __future__ import annotations

from typing import Any

import torch

from tests.fidelity.program import gives, raises

NOTES = "docs/source/notes/cuda.rst: CUDA streams"
POOL = "c10/cuda/CUDAStream.cpp: kStreamsPerPool, get_idx"
STREAM = "torch/cuda/streams.py: Stream"
CONTEXT = "torch/cuda/__init__.py: StreamContext"
GUIDE = "CUDA C++ Programming Guide, docs.nvidia.com: asynchronous concurrent execution"
CYCLES = 20_000_000


def timed() -> Any:
    return torch.cuda.Event(enable_timing=True)


def end_of(stream: Any, cycles: int = CYCLES) -> Any:
    """An event behind a kernel of one thread, which leaves the GPU free for others."""
    with torch.cuda.stream(stream):
        torch.cuda._sleep(cycles)
        event = timed()
        event.record()
    return event


@gives((True, 32), source=POOL)
def a_pool_has_32_streams_and_begins_again() -> Any:
    streams = [torch.cuda.Stream() for _ in range(33)]
    return streams[32] == streams[0], len(set(streams))


@gives((0, 0, 0, -1), source="c10/cuda/CUDAStream.h: priority")
def streams_have_the_priority_that_was_asked_for() -> Any:
    default = torch.cuda.default_stream()
    return default.cuda_stream, default.priority, torch.cuda.Stream().priority, torch.cuda.Stream(priority=-1).priority


@gives((False, False), source=STREAM)
def streams_of_two_gpus_are_not_equal() -> Any:
    return torch.cuda.default_stream(0) == torch.cuda.default_stream(1), torch.cuda.Stream() == torch.cuda.Stream()


@gives([(0, False), (1, True), (0, False)], source=CONTEXT)
def a_block_switches_device_and_stream_and_puts_both_back() -> Any:
    there = torch.cuda.Stream(1)
    seen = [(torch.cuda.current_device(), torch.cuda.current_stream() == there)]
    with torch.cuda.stream(there):
        seen.append((torch.cuda.current_device(), torch.cuda.current_stream() == there))
    seen.append((torch.cuda.current_device(), torch.cuda.current_stream() == there))
    return seen


@gives((0, True), source=CONTEXT)
def a_block_without_a_stream_changes_nothing() -> Any:
    before = torch.cuda.current_stream()
    with torch.cuda.stream(None):
        return torch.cuda.current_device(), torch.cuda.current_stream() == before


@gives((True, False), source=NOTES)
def work_of_one_stream_is_in_order_and_of_two_is_not() -> Any:
    first, second = torch.cuda.Stream(), torch.cuda.Stream()
    long, after_long, beside = end_of(first), end_of(first, CYCLES // 10), end_of(second, CYCLES // 10)
    torch.cuda.synchronize()
    return long.elapsed_time(after_long) > 0, long.elapsed_time(beside) > 0


@gives(True, source=NOTES)
def wait_stream_puts_later_work_behind_the_others() -> Any:
    first, second = torch.cuda.Stream(), torch.cuda.Stream()
    long = end_of(first)
    second.wait_stream(first)
    short = end_of(second, CYCLES // 10)
    torch.cuda.synchronize()
    return long.elapsed_time(short) > 0


@gives(False, source=NOTES)
def wait_stream_does_not_wait_for_what_comes_later() -> Any:
    first, second = torch.cuda.Stream(), torch.cuda.Stream()
    second.wait_stream(first)
    long = end_of(first)
    short = end_of(second, CYCLES // 10)
    torch.cuda.synchronize()
    return long.elapsed_time(short) > 0


@gives((False, True, True), source=STREAM)
def the_host_continues_until_it_synchronizes() -> Any:
    stream, idle = torch.cuda.Stream(), torch.cuda.Stream()
    end_of(stream, 10 * CYCLES)
    before = stream.query(), idle.query()
    stream.synchronize()
    return before[0], before[1], stream.query()


@gives(False, source="c10/cuda/CUDAStream.cpp: kDefaultFlags, cudaStreamNonBlocking")
def the_default_stream_does_not_wait_for_those_of_the_pool() -> Any:
    stream = torch.cuda.Stream()
    long = end_of(stream)
    short = end_of(torch.cuda.default_stream(), CYCLES // 10)
    torch.cuda.synchronize()
    return long.elapsed_time(short) > 0


@gives(True, source=GUIDE)
def small_kernels_of_two_streams_run_beside_each_other() -> Any:
    streams = [torch.cuda.Stream(), torch.cuda.Stream()]
    start = timed()
    start.record()
    for stream in streams:
        stream.wait_event(start)
    ends = [end_of(stream) for stream in streams]
    torch.cuda.synchronize()
    alone = start.elapsed_time(ends[0])
    return start.elapsed_time(ends[1]) < 1.5 * alone


@gives((True, False), source=f"{NOTES}; use pinned memory buffers")
def page_locked_copies_overlap_with_kernels_and_pageable_ones_do_not() -> Any:
    """Return True if the host continued while the kernel before the copy still runs."""
    gone_on = []
    for pinned in (True, False):
        host = torch.zeros(1 << 20)
        if pinned:
            host = host.pin_memory()
        busy = end_of(torch.cuda.current_stream(), 10 * CYCLES)
        device = host.to("cuda", non_blocking=True)
        gone_on.append(not busy.query())
        torch.cuda.synchronize()
        del device
    return tuple(gone_on)


@raises(ValueError, "Expected a cuda device, but got: cpu", source="torch/cuda/_utils.py: _get_device_index")
def the_cpu_has_no_cuda_streams() -> Any:
    return torch.cuda.Stream("cpu")


@gives((True, True, False), source="torch/_C/__init__.pyi.in: Stream; torch/cuda/streams.py")
def streams_of_cuda_are_generic_ones_too() -> Any:
    stream = torch.cuda.Stream()
    generic = torch.Stream("cuda")
    return isinstance(stream, torch.Stream), isinstance(generic, torch.Stream), isinstance(generic, torch.cuda.Stream)


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
