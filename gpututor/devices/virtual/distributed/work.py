"""Work handles and futures of collectives.

As futures of CUDA: who waits makes the current stream wait; what is chained runs on a stream of its own, after it
(aten/src/ATen/core/ivalue_inl.h). A backward pass in which one is made waits for it at its end, as DDP does.
"""

from __future__ import annotations

import atexit
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Protocol

import torch

from gpututor.devices.virtual import execution, torch_private
from gpututor.devices.virtual.clock.timeline import EventMarker
from gpututor.devices.virtual.distributed import communicator
from gpututor.devices.virtual.distributed.communicator import Rendezvous
from gpututor.devices.virtual.execution import waits
from gpututor.devices.virtual.execution.prices import tensors_of
from gpututor.devices.virtual.machine import VirtualGpu, VirtualMachine
from gpututor.devices.virtual.tensors.tensor import VirtualTensor

_Future: Any = torch.futures.Future


class Awaited(Protocol):
    """Something on the clock that a stream can wait for."""

    machine: VirtualMachine
    gpu: VirtualGpu

    def join(self) -> None:
        """What the current stream is given from now on waits for it."""


class _Chained:
    """What was chained to a future, and runs on a stream of its own."""

    def __init__(self, machine: VirtualMachine, gpu: VirtualGpu, done: EventMarker) -> None:
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
        if awaited is not None and torch_private.in_backward():
            torch_private.at_the_end_of_backward(awaited.join)

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
            execution.races.keep_for(stream, [one for one in tensors_of(value) if type(one) is VirtualTensor])
        return value

    def then(self, callback: Callable[[Any], Any]) -> Any:
        """What `callback` makes of this one: it is called at once, as the values are there."""
        awaited = self._awaited
        if awaited is None:
            return super().then(callback)
        machine, gpu = awaited.machine, awaited.gpu
        with _on_stream(machine, gpu, waits.next_number(gpu, 0)) as stream:
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


LAST_WORKS_S = 2.0
"""How long the end of Python waits for collectives that are still under way."""


class _Done:
    """Answers as a work of gloo does that was waited for, and holds no tensors."""

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        return True

    def is_completed(self) -> bool:
        return True

    def is_success(self) -> bool:
        return True

    def exception(self) -> None:
        return None

    def _source_rank(self) -> int:
        raise RuntimeError(
            "sourceRank() may only be called on work objects that correspond to a recv or recv-from-any call."
        )


class CollectiveWork(torch_private.CollectiveWork):  # type: ignore[misc]
    """Stands in for torch's `Work`: gloo's own carries the CPU tensors, the results are device tensors."""

    def __init__(
        self,
        carried: Any,
        results: list[torch.Tensor],
        finish: Callable[[], None] | None,
        in_a_thread: bool,
        used: list[Any],
    ) -> None:
        """`in_a_thread`: one of gloo's threads carries it out and holds its tensors. `used` are those on the device."""
        super().__init__()
        self._carried: Any = torch_private.CollectiveWork.unbox(carried)
        self._results = results
        self._finish = finish
        self._in_a_thread = in_a_thread
        # As NCCL's work: until somebody waits, nothing else gets their memory.
        self._used: list[Any] = used
        self._arrived = False
        self.meeting: Rendezvous | None = None
        # C++ holds its own half only, and would wait for ever without this one.
        _under_way.append(self)

    def arrive(self, timeout: timedelta = timedelta(0)) -> bool:
        """Wait, for real, until the values are here; a timeout of 0 is the group's. Raises what gloo raises."""
        if self._arrived:
            return True
        carried = self._carried
        done = bool(carried.wait(timeout) if timeout else carried.wait())
        self._arrived = True
        finish, self._finish = self._finish, None
        if finish is not None:
            finish()
        if self in _under_way:
            _under_way.remove(self)
        self.let_go()
        return done

    def sender(self) -> int:
        """The rank that a message came from; waits for it."""
        self.arrive()
        return int(self._carried._source_rank())

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """The current stream waits, and the host does not, as with NCCL; here the values have to be there for that."""
        done = self.arrive(timeout)
        if self.meeting is not None:
            self.meeting.join()
        self._used = []
        return done

    def let_go(self) -> None:
        """Keep what gloo says of a work that is done, and no longer the work with its tensors."""
        if self._in_a_thread and self._carried.is_completed():
            self._carried = _Done()

    def synchronize(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        """Whether it is done by now; what not all ranks have come to is not."""
        meeting = self.meeting
        if meeting is not None and meeting.is_met:
            self.arrive()
        if not self._arrived and not self._carried.is_completed():
            return False
        return True if meeting is None else meeting.is_over()

    def is_success(self) -> bool:
        return bool(self._carried.is_success())

    def exception(self) -> Any:
        return self._carried.exception()

    def source_rank(self) -> int:
        return int(self._carried._source_rank())

    def _source_rank(self) -> int:
        return self.source_rank()

    def result(self) -> list[torch.Tensor]:
        self.wait()
        return self._results

    def get_future(self) -> Any:
        """Waits for the values first: what is chained to the future then runs in this thread, on the machine."""
        self.arrive()
        future = CollectiveFuture(self.meeting)
        future.set_result(self._results)
        return future


_under_way: deque[CollectiveWork] = deque(maxlen=4096)
"""Bounded: a program may never wait for what it started."""


def finish_last_works() -> None:
    """Called as Python ends: gloo's threads let go of tensors while they still can."""
    deadline = time.monotonic() + LAST_WORKS_S
    communicator.send_last(LAST_WORKS_S)
    while not communicator.wait_for_return(0.01) and time.monotonic() < deadline:
        for work in list(_under_way):
            work.let_go()
        communicator.let_go_of_answers()


atexit.register(finish_last_works)
