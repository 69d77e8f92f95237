"""Workers that are processes of their own: each imports torch itself, waits, and is used once. Works everywhere."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

from gpututor.grading.report import Workers
from gpututor.judge.isolation import Isolation
from gpututor.judge.workers.ends import new_ends
from gpututor.judge.workers.scratch import remove_own_scratch, remove_scratch
from gpututor.judge.workers.worker import Worker
from gpututor.processes import kill_tree, reap_orphans, signal_below, status_of_child

PASSED_ON = ("PATH", "LANG", "LC_ALL", "CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH", "SYSTEMROOT")


class Spares:
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
        with new_ends(isolation) as ends:
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
