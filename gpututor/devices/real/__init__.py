"""Observation of real devices. docs/real-devices.md explains how times are measured, and their cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from time import perf_counter_ns

from gpututor.devices.real.backends import Backend
from gpututor.devices.real.observation import Observation
from gpututor.devices.real.observer import ObservingMode
from gpututor.devices.real.patched_calls import watch_calls
from gpututor.devices.recorder import Recorder


@contextmanager
def observe(
    recorder: Recorder,
    *,
    times: bool = True,
    memory: bool = True,
    backends: Mapping[str, Backend] | None = None,
    clock_ns: Callable[[], int] = perf_counter_ns,
) -> Iterator[None]:
    """Record what real devices do in this thread inside the block; the virtual GPU records by itself.

    Enters a dispatch mode, and wraps the calls that do not dispatch. With `times=False`, no events go into the device's
    streams, and the times of kernels and copies on accelerators are unknown. `memory=False` records no allocations. The
    end of the block waits for the devices, to read the last times. `backends` are the kinds of devices, by default this
    machine's; `clock_ns` is the host's clock.
    """
    seen = Observation(recorder, times=times, memory=memory, known=backends, clock_ns=clock_ns)
    finish = recorder.finish
    recorder.finish = seen.settle
    try:
        with watch_calls(seen), ObservingMode(seen):
            yield
    finally:
        recorder.finish = finish
        seen.end()
