"""Waits: the host stands still until a stream, or all of a GPU, has done its work."""

from __future__ import annotations

from gpututor.devices.virtual.clock.timeline import Mark
from gpututor.devices.virtual.machine import VirtualGpu, VirtualMachine
from gpututor.devices.virtual.work import permits


def wait(machine: VirtualMachine, gpu: VirtualGpu, name: str, stream: int | None = None) -> None:
    """The host waits for a stream, or for all streams of a GPU; `name` is the call that made it wait."""
    if stream is None:
        permits.wait(machine, gpu)
    else:
        permits.wait_for_stream(machine, gpu, stream)
    began = machine.clock.host.now
    machine.clock.synchronise(gpu.index, stream)
    record_wait(machine, gpu, name, 0 if stream is None else stream, began)


def wait_for_mark(machine: VirtualMachine, gpu: VirtualGpu, name: str, stream: int, mark: Mark) -> None:
    """The host waits until a stream has reached a mark, as for an event."""
    permits.wait(machine)
    began = machine.clock.host.now
    machine.clock.wait_for_mark(gpu.index, mark)
    record_wait(machine, gpu, name, stream, began)


def record_wait(machine: VirtualMachine, gpu: VirtualGpu, name: str, stream: int, began: int) -> None:
    """Write down that the host waited since `began`."""
    recorder = machine.recorder
    if recorder.enabled:
        now = machine.clock.host.now
        recorder.synchronise(name, gpu.name, stream=stream, launched=began, start=began, end=now)
