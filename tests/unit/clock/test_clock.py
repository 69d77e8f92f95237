"""What a program's waits, copies and streams cost on the virtual clock."""

from __future__ import annotations

import threading

from gpututor.devices.virtual.clock.clock import HostCosts, Link, MachineClock
from gpututor.devices.virtual.clock.host import READING
from gpututor.devices.virtual.clock.timeline import WHOLE

MS = 1_000_000
LINK = Link(latency=10_000, pageable=6e9, pinned=12e9, peer=20e9)


def machine(gpus: int = 1) -> MachineClock:
    return MachineClock([LINK] * gpus)


def test_without_a_wait_the_host_sees_the_launch_only() -> None:
    clock = machine()
    clock.launch(0, 0, 10 * MS, WHOLE)
    assert clock.host.now == 5_000
    assert clock.synchronise(0) == 10 * MS - 3_000
    assert clock.host.now == 10 * MS + 5_000


def test_a_pageable_copy_blocks_and_a_pinned_asynchronous_one_does_not() -> None:
    clock = machine()
    clock.copy(0, 0, 12_000_000, "h2d", pinned=False, asynchronous=False)
    assert clock.host.now == 5_000 + 10_000 + 2 * MS
    before = clock.host.now
    clock.copy(0, 0, 12_000_000, "h2d", pinned=True, asynchronous=True)
    assert clock.host.now == before + 5_000
    clock.copy(0, 0, 12_000_000, "d2h", pinned=True, asynchronous=False)
    assert clock.host.now == before + 5_000 + 2 * (MS + 10_000), "a stream's copies come one after another"


def _pipeline(streams: int, *, pinned: bool) -> int:
    clock = machine()
    for step in range(4):
        stream = 1 + step % streams
        clock.copy(0, stream, 12_000_000, "h2d", pinned=pinned, asynchronous=pinned)
        clock.launch(0, stream, MS, WHOLE)
    clock.synchronise(0)
    return clock.host.now


def test_copies_overlap_with_kernels_on_two_streams_only_when_they_are_pinned() -> None:
    assert _pipeline(2, pinned=True) < 0.65 * _pipeline(1, pinned=True)
    assert _pipeline(2, pinned=False) > 0.7 * _pipeline(1, pinned=False)


def test_events_tell_what_the_device_took() -> None:
    clock = machine()
    start = clock.record(0, 0)
    clock.launch(0, 0, 7 * MS, WHOLE)
    end = clock.record(0, 0)
    assert not clock.is_reached(0, end)
    assert not clock.is_idle(0, 0)
    clock.wait_for_mark(0, end)
    assert clock.is_reached(0, end)
    assert clock.is_idle(0, 0)
    assert 7 * MS <= end.time - start.time <= 7 * MS + 10_000


def test_a_stream_waits_for_another_gpu_and_the_host_does_not() -> None:
    clock = machine(2)
    clock.launch(0, 0, 5 * MS, WHOLE)
    done = clock.record(0, 0)
    clock.wait_for(1, 0, done)
    task = clock.launch(1, 0, MS, WHOLE)
    assert clock.host.now < MS
    clock.synchronise(1)
    assert task.start >= 5 * MS
    assert clock.synchronise(1) == 0


def test_the_host_cannot_run_ahead_for_ever() -> None:
    clock = MachineClock([LINK], HostCosts(launch=1_000))
    for _ in range(3000):
        clock.launch(0, 0, MS, WHOLE)
    assert clock.host.now > 1900 * MS


def test_a_loop_on_the_clock_ends_and_each_thread_has_its_own() -> None:
    clock = machine()
    seen = []
    while clock.host.read() < 10 * READING:
        pass

    def work() -> None:
        clock.host.spend(MS)
        seen.append(clock.host.now)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [MS]
    assert clock.host.now == 10 * READING
