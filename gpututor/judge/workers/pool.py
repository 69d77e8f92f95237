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
    """A way to start workers."""

    @property
    def isolation(self) -> str:
        """`process` or `bubblewrap`."""

    @property
    def name(self) -> Workers:
        """Name of the source in reports."""

    @property
    def starts_ahead(self) -> bool:
        """True if a spare may start while a submission runs: cheaply, and where the submission cannot see it."""

    def start(self) -> Worker:
        """Start a worker without waiting for it. Raises `GradingError`; `NotGradableHere` if none can ever start."""

    def own_pids(self) -> set[int]:
        """Return the source's own processes, children of the judge."""


class WorkerPool:
    """A pool of warm workers, used by one thread; other threads may call only `kill_current` and `kill_all`.

    With `is_last`, one submission is graded, and no spare follows a released worker. `on_deadline` is called with the
    seconds for which a worker may keep the judge waiting.
    """

    def __init__(
        self, source: WorkerSource, *, is_last: bool = False, on_deadline: Callable[[float], None] = lambda for_s: None
    ) -> None:
        self._source, self._is_last, self._on_deadline = source, is_last, on_deadline
        self.isolation, self.workers = source.isolation, source.name
        self._starting = threading.Lock()
        self._is_ending = False
        self._spares: list[Worker] = []
        self._in_use: list[Worker] = []

    def warm(self, count: int = 1) -> None:
        """Start spares until there are `count`; does not wait for them."""
        while len(self._spares) < count:
            with self._starting:
                if self._is_ending:
                    raise GradingError("The judge is ending.", "Try again.")
                self._spares.append(self._source.start())

    def take(self) -> Worker:
        """Return a worker that is ready, for `release` later. Raises `GradingError` if there is none.

        A spare that died or lost its scratch folder while it waited (low memory, a clean-up of /tmp) is replaced once.
        """
        try:
            return self._take()
        except GradingError:
            return self._take()

    def _take(self) -> Worker:
        self.warm()
        worker = self._spares.pop(0)
        self._in_use.append(worker)
        worker.channel.on_deadline = self._on_deadline
        try:
            worker.wait_until_ready()
            worker.check()
        except GradingError:
            self._end(worker)
            raise
        if self._source.starts_ahead:
            self._warm_for_next()
        return worker

    def release(self, worker: Worker) -> None:
        """End a worker, and start the next spare if another submission may come."""
        self._end(worker)
        self._warm_for_next()

    def _warm_for_next(self) -> None:
        if self._is_last:
            return
        # The next `take` asks a broken source again, and reports the error.
        with contextlib.suppress(GradingError):
            self.warm()

    def _end(self, worker: Worker) -> None:
        self._in_use.remove(worker)
        others = {other.pid for other in (*self._spares, *self._in_use)}
        worker.end(others | self._source.own_pids())

    def suspended_pids(self) -> list[int]:
        """Return the process ids of suspended workers in use."""
        return [worker.pid for worker in self._in_use if worker.suspended]

    def kill_current(self) -> None:
        """End the workers in use; from any thread."""
        for worker in tuple(self._in_use):
            worker.kill()

    def kill_all(self) -> None:
        """End all processes and remove the scratch folders before the judge ends; from any thread."""
        self._is_ending = True
        while not self._starting.acquire(timeout=0.05):  # a worker is being started: end it too
            end_descendants()
        end_descendants()
        remove_own_scratch()


PASSED_ON = ("PATH", "LANG", "LC_ALL", "CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH", "SYSTEMROOT")


class SpawnedWorkers:
    """A source that starts a Python process for each worker."""

    name: Workers = "spare"
    starts_ahead = False

    def __init__(self, isolation: Isolation) -> None:
        self._isolation = isolation
        self.isolation = isolation.name

    def start(self) -> Worker:
        isolation = self._isolation
        with open_pipes(isolation) as pipes:
            passed = [pipes.connection.fileno(), pipes.stack]
            process = subprocess.Popen(
                isolation.command("gpututor.worker", *map(str, passed), str(pipes.scratch.inside), isolation.name),
                stdin=subprocess.DEVNULL,
                stdout=pipes.printed,
                stderr=pipes.printed,
                pass_fds=passed,
                env=worker_environment(pipes.scratch.inside),
                start_new_session=True,
            )
            return pipes.worker(_OwnProcess(process, pipes.scratch.outside, isolation.wrappers))

    def own_pids(self) -> set[int]:
        return set()


class _OwnProcess:
    """A process that the judge started, and its descendants."""

    def __init__(self, process: subprocess.Popen[bytes], scratch: Path | None, wrappers: int) -> None:
        self._process, self._scratch, self._wrappers = process, scratch, wrappers
        self.pid = process.pid

    def wait_for_pid(self) -> None:
        pass

    def has_ended(self) -> bool:
        return self._status() is not None

    def exit_status(self) -> int:
        deadline = time.monotonic() + 1.0
        while (status := self._status()) is None:
            if time.monotonic() > deadline:
                return -signal.SIGKILL
            time.sleep(0.005)
        # bubblewrap reports a signal as a shell does.
        return 128 - status if self._wrappers and status > 128 else status

    def _status(self) -> int | None:
        """Return the exit status; None while the process runs. If possible, its id stays reserved until `reap`."""
        if hasattr(os, "waitid") and self._process.returncode is None:
            return status_of_child(self.pid)
        return self._process.poll()

    def dump_stack(self) -> None:
        if self._process.returncode is None:
            signal_below(self.pid, self._wrappers, signal.SIGUSR1)

    def kill(self) -> None:
        if self._process.returncode is None:
            kill_tree(self.pid)

    def reap(self, keep: set[int]) -> None:
        self._process.wait()
        reap_orphans(keep)
        if self._scratch is not None:
            remove_scratch(self._scratch)


def worker_environment(scratch: Path) -> dict[str, str]:
    """Return a clean environment: no secrets, no settings of the learner's shell."""
    passed_on = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    return {
        **passed_on,
        "HOME": str(scratch),
        "TMPDIR": str(scratch),
        # PyTorch names its cache after the user. Without USER, it looks for the name in /etc/passwd.
        "USER": "learner",
        "OMP_NUM_THREADS": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        # Asking for CUDA must not initialize it.
        "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
        "KINETO_LOG_LEVEL": "99",  # no debug lines of torch's profiler on stderr
    }
