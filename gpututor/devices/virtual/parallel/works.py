"""What a collective on device tensors gives: something to wait for."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch

from gpututor.devices.virtual import private


class DeviceWork(private.CollectiveWork):  # type: ignore[misc]
    """Stands in for torch's `Work`: gloo's own carries the CPU tensors, the results are device tensors."""

    def __init__(self, carried: Any, results: list[torch.Tensor], finish: Callable[[], None] | None) -> None:
        super().__init__()
        self._carried = private.CollectiveWork.unbox(carried)
        self._results = results
        self._finish = finish
        # C++ holds its own half only, and would wait for ever without this one.
        _under_way.append(self)

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Until the collective is done here; a timeout of 0 is the group's. Raises what gloo raises."""
        done = bool(self._carried.wait(timeout) if timeout else self._carried.wait())
        finish, self._finish = self._finish, None
        if finish is not None:
            finish()
        if self in _under_way:
            _under_way.remove(self)
        return done

    def synchronize(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        return bool(self._carried.is_completed())

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
        """Waits first: what is chained to the future then runs in this thread, on the virtual machine."""
        self.wait()
        future: torch.futures.Future[list[torch.Tensor]] = torch.futures.Future()
        future.set_result(self._results)
        return future


_under_way: deque[DeviceWork] = deque(maxlen=4096)
"""Bounded: a program may never wait for what it started."""
