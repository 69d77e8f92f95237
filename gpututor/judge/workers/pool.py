"""A pool of workers: one is started ahead of need, each is used once, any number may be in use."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Protocol

from gpututor.errors import GradingError
from gpututor.grading.report import Workers
from gpututor.judge.workers.worker import Worker
from gpututor.processes import end_descendants


class WorkerSource(Protocol):
    """Where workers come from."""

    @property
    def isolation(self) -> str:
        """`process` or `bubblewrap`."""

    @property
    def name(self) -> Workers:
        """What reports call it."""

    def start(self) -> Worker:
        """A new worker, not waited for. Raises `GradingError`, or `NotGradableHere` where none can ever be had."""

    def keep(self) -> set[int]:
        """The source's own processes, children of the judge."""

    def tidy(self) -> None:
        """Remove what would be left when the judge ends at once. From any thread."""


class WorkerPool:
    """Keeps workers warm ahead of need. Used by one thread; only `kill_current` and `kill_all` may come from others.

    `is_last`: one submission is graded, so no spare follows a worker that is released.
    `waits`: called with the seconds for which a worker may keep the judge waiting.
    """

    def __init__(
        self, source: WorkerSource, *, is_last: bool = False, waits: Callable[[float], None] = lambda for_s: None
    ) -> None:
        self._source = source
        self._is_last = is_last
        self._waits = waits
        self._starting = threading.Lock()
        self._is_ending = False
        self._spares: list[Worker] = []
        self._in_use: list[Worker] = []

    @property
    def isolation(self) -> str:
        """`process` or `bubblewrap`."""
        return self._source.isolation

    @property
    def workers(self) -> Workers:
        """Where they come from."""
        return self._source.name

    def warm(self, count: int = 1) -> None:
        """Start spares until there are `count`; does not wait for them."""
        while len(self._spares) < count:
            with self._starting:
                if self._is_ending:
                    raise GradingError("The judge is ending.", "Try again.")
                self._spares.append(self._source.start())

    def take(self) -> Worker:
        """A worker that is ready, to be given back to `release`. Raises `GradingError` when none can be had.

        One that died or lost its scratch folder while it waited (low memory, a clean-up of /tmp) is replaced once.
        """
        try:
            return self._take()
        except GradingError:
            return self._take()

    def _take(self) -> Worker:
        self.warm()
        worker = self._spares.pop(0)
        self._in_use.append(worker)
        worker.channel.waits = self._waits
        try:
            worker.wait_until_ready()
            worker.check()
        except GradingError:
            self._end(worker)
            raise
        return worker

    def release(self, worker: Worker) -> None:
        """End a worker, and start the next spare where another submission may come."""
        self._end(worker)
        if self._is_last:
            return
        # A source that broke is asked again by the next `take`, which says so.
        with contextlib.suppress(GradingError):
            self.warm()

    def _end(self, worker: Worker) -> None:
        self._in_use.remove(worker)
        others = {other.pid for other in (*self._spares, *self._in_use)}
        worker.end(others | self._source.keep())

    def standing_still(self) -> list[int]:
        """The process ids of workers in use that are not awake."""
        return [worker.pid for worker in self._in_use if worker.stands_still]

    def kill_current(self) -> None:
        """From any thread: end the workers that are in use."""
        for worker in tuple(self._in_use):
            worker.kill()

    def kill_all(self) -> None:
        """From any thread, when the judge is about to end: no process and no scratch folder is left."""
        self._is_ending = True
        while not self._starting.acquire(timeout=0.05):  # a worker is being started: end that one, too
            end_descendants()
        end_descendants()
        self._source.tidy()
