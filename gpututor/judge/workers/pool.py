"""A pool of workers: spares are started ahead of need, and each is used once."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from gpututor.errors import GradingError
from gpututor.grading.report import Workers
from gpututor.judge.isolation import Isolation
from gpututor.judge.workers.worker import Worker, open_pipes, remove_own_scratch, remove_scratch
from gpututor.processes import end_descendants, kill_tree, reap_orphans, signal_below, status_of_child


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


PASSED_ON = ("PATH", "LANG", "LC_ALL", "CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH", "SYSTEMROOT")


class SpawnedWorkers:
    """A source of workers, each a Python of its own, `isolated` or not."""

    def __init__(self, isolation: Isolation) -> None:
        self._isolation = isolation

    @property
    def isolation(self) -> str:
        return self._isolation.name

    @property
    def name(self) -> Workers:
        return "spare"

    def start(self) -> Worker:
        """Raises `GradingError` when no process can be started."""
        isolation = self._isolation
        with open_pipes(isolation) as ends:
            passed = [ends.connection.fileno(), ends.stack]
            process = subprocess.Popen(
                isolation.command("gpututor.worker", *map(str, passed), str(ends.scratch.inside), isolation.name),
                stdin=subprocess.DEVNULL,
                stdout=ends.printed,
                stderr=ends.printed,
                pass_fds=passed,
                env=worker_environment(ends.scratch.inside),
                start_new_session=True,
            )
            return ends.worker(_OwnProcess(process, ends.scratch.outside, isolation.wrappers))

    def keep(self) -> set[int]:
        return set()

    def tidy(self) -> None:
        remove_own_scratch()


class _OwnProcess:
    """A process that the judge started, and all that descends from it."""

    def __init__(self, process: subprocess.Popen[bytes], scratch: Path | None, wrappers: int) -> None:
        self._process = process
        self._scratch = scratch
        self._wrappers = wrappers

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_until_started(self) -> None:
        pass

    def has_ended(self) -> bool:
        return self._status() is not None

    def exit_status(self) -> int:
        ends = time.monotonic() + 1.0
        while (status := self._status()) is None:
            if time.monotonic() > ends:
                return -signal.SIGKILL
            time.sleep(0.005)
        # bubblewrap tells a signal as a shell does.
        return 128 - status if self._wrappers and status > 128 else status

    def _status(self) -> int | None:
        """None while it lives. Where the system can tell without collecting it, it keeps its id until `collect`."""
        if hasattr(os, "waitid") and self._process.returncode is None:
            return status_of_child(self.pid)
        return self._process.poll()

    def ask_where(self) -> None:
        if self._process.returncode is None:
            signal_below(self.pid, self._wrappers, signal.SIGUSR1)

    def kill(self) -> None:
        if self._process.returncode is None:
            kill_tree(self.pid)

    def collect(self, keep: set[int]) -> None:
        self._process.wait()
        reap_orphans(keep)
        if self._scratch is not None:
            remove_scratch(self._scratch)


def worker_environment(scratch: Path) -> dict[str, str]:
    """A clean environment: no secrets, no settings of the learner's shell."""
    passed_on = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    return {
        **passed_on,
        "HOME": str(scratch),
        "TMPDIR": str(scratch),
        # PyTorch names its cache by it, and looks for it in /etc where it is not said.
        "USER": "learner",
        "OMP_NUM_THREADS": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        # Asking whether CUDA is there must not initialise it.
        "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
        "KINETO_LOG_LEVEL": "99",  # the profiler of torch writes lines for its own authors to stderr
    }
