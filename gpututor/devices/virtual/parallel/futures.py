"""What comes of a collective, for what is chained to it: the values are there, and the GPU has still to get to them.

As futures of CUDA: who waits makes the current stream wait; what is chained runs on a stream of its own, after it
(aten/src/ATen/core/ivalue_inl.h). A backward pass in which one is made waits for it at its end, as DDP does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import torch

from gpututor.devices.virtual import private, work
from gpututor.devices.virtual.clock.timeline import Mark
from gpututor.devices.virtual.face import pools
from gpututor.devices.virtual.machine import VirtualGpu, VirtualMachine
from gpututor.devices.virtual.tensors.tensor import VirtualTensor
from gpututor.devices.virtual.work.prices import tensors_of

_Future: Any = torch.futures.Future


class Awaited(Protocol):
    """Something on the clock that a stream can wait for."""

    machine: VirtualMachine
    gpu: VirtualGpu

    def join(self) -> None:
        """What the current stream is given from now on waits for it."""


class _Chained:
    """What was chained to a future, and runs on a stream of its own."""

    def __init__(self, machine: VirtualMachine, gpu: VirtualGpu, done: Mark) -> None:
        self.machine = machine
        self.gpu = gpu
        self._done = done

    def join(self) -> None:
        self.machine.clock.wait_for(self.gpu.index, self.machine.stream_of(self.gpu), self._done)


class CollectiveFuture(_Future):  # type: ignore[misc]
    """Stands in for torch's future of a collective."""

    def __init__(self, awaited: Awaited | None) -> None:
        super().__init__()
        self._awaited = awaited
        if awaited is not None and private.in_backward():
            private.at_the_end_of_backward(awaited.join)

    def wait(self) -> Any:
        return self._joined(super().wait())

    def value(self) -> Any:
        return self._joined(super().value())

    def _joined(self, value: Any) -> Any:
        """The current stream waits, and keeps the memory of what it gets."""
        awaited = self._awaited
        if awaited is not None:
            awaited.join()
            stream = awaited.machine.stream_of(awaited.gpu)
            work.hazards.keep_for(stream, [one for one in tensors_of(value) if type(one) is VirtualTensor])
        return value

    def then(self, callback: Callable[[Any], Any]) -> Any:
        """What `callback` makes of this one: it is called at once, as the values are there."""
        awaited = self._awaited
        if awaited is None:
            return super().then(callback)
        machine, gpu = awaited.machine, awaited.gpu
        with _on_stream(machine, gpu, pools.next_number(gpu, 0)) as stream:
            awaited.join()
            try:
                value, error = callback(self), None
            except Exception as caught:
                value, error = None, caught
            done = machine.clock.record(gpu.index, stream, 0)
        future = CollectiveFuture(_Chained(machine, gpu, done))
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)
        return future


@contextmanager
def _on_stream(machine: VirtualMachine, gpu: VirtualGpu, number: int) -> Iterator[int]:
    """That stream is this thread's current one."""
    streams = machine.per_thread.streams
    before = machine.stream_of(gpu)
    streams[gpu.index] = number
    try:
        yield number
    finally:
        streams[gpu.index] = before
