"""What a collective on device tensors gives: something to wait for."""

from __future__ import annotations

import atexit
import time
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch

from gpututor.devices.virtual.parallel import lending, meetings
from gpututor.devices.virtual.parallel.futures import CollectiveFuture
from gpututor.devices.virtual.parallel.meetings import Meeting
from gpututor.devices.virtual.private import process_groups

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


class DeviceWork(process_groups.CollectiveWork):  # type: ignore[misc]
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
        self._carried: Any = process_groups.CollectiveWork.unbox(carried)
        self._results = results
        self._finish = finish
        self._in_a_thread = in_a_thread
        # As NCCL's work: until somebody waits, nothing else gets their memory.
        self._used: list[Any] = used
        self._arrived = False
        self.meeting: Meeting | None = None
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


_under_way: deque[DeviceWork] = deque(maxlen=4096)
"""Bounded: a program may never wait for what it started."""


def finish_last_works() -> None:
    """Called as Python ends: gloo's threads let go of tensors while they still can."""
    deadline = time.monotonic() + LAST_WORKS_S
    meetings.send_last(LAST_WORKS_S)
    while not lending.wait_for_return(0.01) and time.monotonic() < deadline:
        for work in list(_under_way):
            work.let_go()
        meetings.let_go_of_answers()


atexit.register(finish_last_works)
