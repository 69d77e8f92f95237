"""Times of work by a device's events, on a device that only the tests move."""

from __future__ import annotations

import pytest

from gpututor.devices.real import timers
from gpututor.devices.real.timers import SWEEP, DeviceStopwatch, HostStopwatch
from tests.support.fake_devices import KERNEL_NS, LAUNCH_NS, Clock, Device
from tests.support.threads import started


class Bench:
    """A stopwatch, its device, and the times that it measured."""

    def __init__(self, **options: object) -> None:
        self.clock = Clock()
        self.device = Device(self.clock)
        self.capturing = False
        self.times: dict[int, tuple[int, int]] = {}
        self.watch = DeviceStopwatch(
            self.device,
            0,
            self.clock,
            lambda row, start, end: self.times.__setitem__(row, (start, end)),
            is_capturing=lambda: self.capturing,
            **options,  # type: ignore[arg-type]
        )

    def launch(self, row: int, duration: int = KERNEL_NS, stream: int = 0) -> None:
        self.device.current_stream = stream
        lap = self.watch.start()
        self.device.work(duration)
        self.watch.stop(lap)
        self.watch.keep(lap, row)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_kernels_of_one_stream_run_one_after_another_behind_the_host(bench: Bench) -> None:
    began = bench.clock.time
    for row in range(3):
        bench.launch(row)
    assert bench.times == {}
    assert bench.clock.time - began < KERNEL_NS
    bench.watch.settle()
    starts, ends = zip(*(bench.times[row] for row in range(3)), strict=True)
    # The first one's start is when it was launched; the others' are the ends of those before, to the nanosecond.
    assert [end - start for start, end in bench.times.values()][1:] == [KERNEL_NS] * 2
    assert starts[1:] == ends[:2]
    assert KERNEL_NS <= ends[0] - starts[0] <= KERNEL_NS + LAUNCH_NS + 10


def test_streams_run_concurrently(bench: Bench) -> None:
    bench.launch(0, stream=0)
    bench.launch(1, stream=1)
    bench.watch.settle()
    (first_start, first_end), (second_start, second_end) = bench.times[0], bench.times[1]
    assert first_start < second_start < first_end < second_end


def test_the_devices_clock_is_tied_to_the_hosts(bench: Bench) -> None:
    bench.launch(0)
    launched = bench.clock.time
    bench.watch.settle()
    start, end = bench.times[0]
    assert launched - LAUNCH_NS - 100 <= start <= launched
    assert end - launched == pytest.approx(KERNEL_NS, abs=50)


def test_events_are_reused(bench: Bench) -> None:
    for row in range(20 * SWEEP):
        bench.launch(row, duration=1000)
    assert len(bench.device.events) <= 2 * (2 * SWEEP) + 5
    assert bench.device.waited_for == 5, "a device that keeps up is waited for only to tie the clocks"
    bench.watch.settle()
    assert len(bench.times) == 20 * SWEEP


def test_the_host_waits_for_a_device_that_is_far_behind() -> None:
    bench = Bench(at_most=100)
    for row in range(1000):
        bench.launch(row, duration=10 * KERNEL_NS)
    assert len(bench.device.events) <= 2 * 100 + 5
    bench.watch.settle()
    assert sorted(bench.times) == list(range(1000))
    assert all(end - start == 10 * KERNEL_NS for start, end in list(bench.times.values())[1:])


def test_a_blocking_copy_ends_when_the_host_continues(bench: Bench) -> None:
    bench.launch(0)
    lap = bench.watch.start()
    bench.device.work(1000)
    bench.device.synchronize(0)
    bench.watch.stop(lap, waited=True)
    bench.watch.keep(lap, 1)
    bench.watch.host_waited()
    assert bench.times[1] == (bench.times[0][1], lap.end)


def test_nothing_is_timed_during_a_capture(bench: Bench) -> None:
    bench.launch(0)
    bench.capturing = bench.device.capturing = True
    bench.launch(1)
    bench.watch.host_waited()
    bench.watch.settle()
    assert bench.times == {}
    bench.capturing = bench.device.capturing = False
    bench.launch(2)
    bench.watch.settle()
    assert sorted(bench.times) == [0, 2]


def test_a_failed_launch_returns_its_event(bench: Bench) -> None:
    bench.launch(0)
    bench.watch.settle()
    made = len(bench.device.events)
    for _ in range(10):
        bench.watch.drop(bench.watch.start())
    assert len(bench.device.events) == made
    bench.launch(1)
    bench.watch.settle()
    assert sorted(bench.times) == [0, 1]


def test_a_dropped_row_holds_no_events(bench: Bench) -> None:
    for _ in range(100):
        bench.launch(-1)
    assert len(bench.device.events) <= 5 + 2
    bench.watch.settle()
    assert bench.times == {}


def test_after_a_device_error_times_are_unknown(bench: Bench) -> None:
    bench.launch(0)
    bench.watch.settle()
    lap = bench.watch.start()
    bench.device.broken = True
    bench.watch.stop(lap)
    bench.watch.keep(lap, 1)
    bench.watch.host_waited()
    bench.watch.settle()
    bench.watch.keep(bench.watch.start(), 2)
    assert sorted(bench.times) == [0]


def test_without_events_or_times_nothing_is_timed(bench: Bench) -> None:
    bench.device.has_events = False
    bench.launch(0)
    bench.watch.settle()
    assert bench.times == {}
    bench = Bench(timed=False)
    bench.launch(0)
    bench.watch.host_waited()
    bench.watch.settle()
    assert (bench.device.events, bench.device.synchronized, bench.times) == ([], 0, {})


def test_a_clock_that_waits_is_read_when_the_host_waits(bench: Bench) -> None:
    bench.device.elapsed_waits = True
    for row in range(3 * SWEEP):
        bench.launch(row, duration=10)
    assert bench.times == {}
    bench.watch.settle()
    assert len(bench.times) == 3 * SWEEP


def test_drifting_clocks_are_compared_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.launch(0)
    bench.watch.settle()
    monkeypatch.setattr("tests.support.fake_devices.AHEAD_NS", 7_000_300_000)  # the device's clock went on 0.3 ms more
    bench.clock.time += 2 * timers._TIE_AGAIN_NS
    bench.watch.host_waited()
    bench.launch(1)
    launched = bench.clock.time
    bench.watch.settle()
    assert bench.times[1][1] - launched == pytest.approx(KERNEL_NS, abs=50)


def test_late_times_are_as_precise_as_early_times(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Events give float32 milliseconds, which lose microseconds within a minute if the origin never moves."""
    import numpy

    exact = bench.device.elapsed_ms
    monkeypatch.setattr(
        bench.device, "elapsed_ms", lambda first, second: float(numpy.float32(exact(first, second))), raising=True
    )
    for row in range(60 * SWEEP):
        bench.launch(row, duration=2_000_000)
        bench.clock.time += 1_990_000
    bench.watch.settle()
    assert all(end - start == pytest.approx(2_000_000, abs=1100) for start, end in list(bench.times.values())[1:])
    assert bench.times[60 * SWEEP - 1][1] > 100e9
    assert bench.times[60 * SWEEP - 1][1] == pytest.approx(bench.device.busy_until[0], abs=20_000)


def test_two_threads_share_a_stopwatch(bench: Bench) -> None:

    def launch(first: int) -> None:
        for row in range(first, first + 3 * SWEEP):
            bench.launch(row, duration=10)

    for thread in [started(launch, 3 * SWEEP * number) for number in range(3)]:
        thread.join()
    bench.watch.settle()
    assert sorted(bench.times) == list(range(9 * SWEEP))


def test_host_work_ends_when_the_call_returns() -> None:
    clock = Clock()
    watch = HostStopwatch(clock)
    lap = watch.start()
    clock.time += 500
    watch.stop(lap)
    assert (lap.start, lap.end) == (lap.launched, lap.launched + 510)
