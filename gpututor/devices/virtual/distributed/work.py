"""Work handles and futures of collectives.

They behave as CUDA futures (aten/src/ATen/core/ivalue_inl.h). A wait makes the current stream wait, and a chained
function runs afterwards on a stream of its own. A backward pass waits at its end for the works that it created, as DDP
does.
"""

from __future__ import annotations

import atexit
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, Protocol

import torch

from gpututor.devices.virtual import execution, torch_private
from gpututor.devices.virtual.clock.timeline import EventMarker
from gpututor.devices.virtual.distributed import c10d_private, communicator, gloo
from gpututor.devices.virtual.distributed.communicator import Rendezvous
from gpututor.devices.virtual.execution import waits
from gpututor.devices.virtual.execution.costs import tensors_of
from gpututor.devices.virtual.machine import VirtualGpu, VirtualMachine
from gpututor.devices.virtual.tensors.tensor import VirtualTensor

_Future: Any = torch.futures.Future


class Awaited(Protocol):
    """Work on the clock that a stream can wait for."""

    machine: VirtualMachine
    gpu: VirtualGpu

    def join(self) -> None:
        """Make later work of the current stream wait."""


@dataclass
class _Chained:
    """A function that was chained to a future and ran on a stream of its own."""

    machine: VirtualMachine
    gpu: VirtualGpu
    done: EventMarker

    def join(self) -> None:
        self.machine.clock.wait_for(self.gpu.index, self.machine.stream_of(self.gpu), self.done)


class CollectiveFuture(_Future):  # type: ignore[misc]
    """Replacement for torch's future of a collective."""

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
        """Make the current stream wait, and keep the memory of its results."""
        awaited = self._awaited
        if awaited is not None:
            awaited.join()
            stream = awaited.machine.stream_of(awaited.gpu)
            execution.races.keep_for(stream, [tensor for tensor in tensors_of(value) if type(tensor) is VirtualTensor])
        return value

    def then(self, callback: Callable[[Any], Any]) -> Any:
        """Return a future of `callback`, which is called immediately because the values have arrived."""
        awaited = self._awaited
        if awaited is None:
            return super().then(callback)
        machine, gpu = awaited.machine, awaited.gpu
        with _on_stream(machine, gpu, waits.next_number(gpu, 0)) as stream:
            awaited.join()
            error = None
            try:
                value = callback(self)
            except Exception as caught:
                error = caught
            done = machine.clock.record(gpu.index, stream, 0)
        future = CollectiveFuture(_Chained(machine, gpu, done))
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)
        return future


@contextmanager
def _on_stream(machine: VirtualMachine, gpu: VirtualGpu, number: int) -> Iterator[int]:
    before = machine.stream_of(gpu)
    machine.per_thread.choose_stream(gpu.index, number)
    try:
        yield number
    finally:
        machine.per_thread.choose_stream(gpu.index, before)


LAST_WORKS_S = 2.0
"""Seconds to wait for running collectives while Python exits."""


class _Done:
    """Replacement for a finished work of gloo, without its tensors."""

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


class CollectiveWork(c10d_private.CollectiveWork):  # type: ignore[misc]
    """Replacement for torch's `Work`: gloo's work carries the CPU tensors, the results are device tensors."""

    def __init__(
        self,
        gloo_work: Any,
        results: list[torch.Tensor],
        finish: Callable[[], None] | None,
        in_a_thread: bool,
        used: list[Any],
    ) -> None:
        """`in_a_thread` is True if a gloo thread runs it and holds its CPU tensors. `used` are its device tensors."""
        super().__init__()
        is_own = isinstance(gloo_work, communicator.OwnMessage)
        self._gloo_work: Any = gloo_work if is_own else c10d_private.CollectiveWork.unbox(gloo_work)
        self._results = results
        self._finish = finish
        self._in_a_thread = in_a_thread
        # Held until a wait: as with NCCL, their memory is not reused before.
        self._used: list[Any] = used
        self._arrived = False
        self.rendezvous: Rendezvous | None = None
        # C++ does not keep the Python object alive; without the object, C++ would wait forever.
        _under_way.append(self)

    def arrive(self, timeout: timedelta = timedelta(0)) -> bool:
        """Wait in real time until the values have arrived; a timeout of 0 is the group's. Raises gloo's errors."""
        if self._arrived:
            return True
        gloo_work = self._gloo_work
        done = bool(gloo_work.wait(timeout) if timeout else gloo_work.wait())
        self._arrived = True
        finish, self._finish = self._finish, None
        if finish is not None:
            finish()
        if self in _under_way:
            _under_way.remove(self)
        self.release()
        return done

    def sender(self) -> int:
        """Wait for a message and return the rank of its sender."""
        self.arrive()
        return int(self._gloo_work._source_rank())

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Make the current stream wait, but not the host's clock, as with NCCL. Blocks until the values arrive."""
        done = self.arrive(timeout)
        if torch_private.in_backward() and sum(tensor.numel() for tensor in self._results) == 1:
            # After the wait, DDP's reducer asks for the future, which holds the number of running ranks. C++ does not
            # keep the Python object alive; the function does nothing else.
            torch_private.at_the_end_of_backward(partial(id, self))
        if self.rendezvous is not None:
            self.rendezvous.join()
        self._used = []
        return done

    def release(self) -> None:
        """Release gloo's finished work, which holds its tensors."""
        if self._in_a_thread and self._gloo_work.is_completed():
            self._gloo_work = _Done()

    def synchronize(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        """Return True if it is done on the host's clock."""
        rendezvous = self.rendezvous
        if rendezvous is not None and rendezvous.has_all_ranks:
            self.arrive()
        if not self._arrived and not self._gloo_work.is_completed():
            return False
        return True if rendezvous is None else rendezvous.is_over()

    def is_success(self) -> bool:
        return bool(self._gloo_work.is_success())

    def exception(self) -> Any:
        return self._gloo_work.exception()

    def source_rank(self) -> int:
        return int(self._gloo_work._source_rank())

    def _source_rank(self) -> int:
        return self.source_rank()

    def result(self) -> list[torch.Tensor]:
        self.wait()
        return self._results

    def get_future(self) -> Any:
        """Wait for the values first, so that chained functions run in this thread, on the machine."""
        self.arrive()
        future = CollectiveFuture(self.rendezvous)
        future.set_result(self._results)
        return future


_under_way: deque[CollectiveWork] = deque(maxlen=4096)
"""Works that nothing has waited for. Bounded, because a program may never wait."""


def finish_last_works() -> None:
    """Wait, while Python exits, until gloo's threads have released their tensors."""
    deadline = time.monotonic() + LAST_WORKS_S
    communicator.send_last(LAST_WORKS_S)
    while not gloo.wait_for_release(0.01) and time.monotonic() < deadline:
        for work in list(_under_way):
            work.release()
        communicator.release_replies()


atexit.register(finish_last_works)
