"""Workers that are processes of their own: each imports torch itself, waits, and is used once. Works everywhere."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import tempfile
from pathlib import Path

from gpututor.errors import GradingError
from gpututor.grading.report import Workers
from gpututor.judge.channel import Channel
from gpututor.judge.isolation import Isolation
from gpututor.judge.workers.scratch import make_scratch, remove_own_scratch, remove_scratch
from gpututor.judge.workers.worker import Scratch, Worker
from gpututor.processes import children, kill_tree, reap_orphans

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
        outside = None if isolation.own_scratch else make_scratch()
        scratch = Scratch(isolation.own_scratch or outside or Path(tempfile.gettempdir()), outside)
        ours, theirs = socket.socketpair()
        printed, printed_writer = os.pipe()
        stack, stack_writer = os.pipe()
        passed = [theirs.fileno(), stack_writer]
        try:
            process = subprocess.Popen(
                isolation.command("gpututor.worker", *map(str, passed), str(scratch.inside), isolation.name),
                stdin=subprocess.DEVNULL,
                stdout=printed_writer,
                stderr=printed_writer,
                pass_fds=passed,
                env=worker_environment(scratch.inside),
                start_new_session=True,
            )
        except OSError as error:
            raise GradingError(f"A worker could not be started: {error}", "Run `gpututor doctor`.") from error
        finally:
            theirs.close()
            os.close(printed_writer)
            os.close(stack_writer)
        body = _OwnProcess(process, outside, isolation.wrappers)
        return Worker(body, Channel(ours, printed), stack, scratch)

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
        return self._process.poll() is not None

    def exit_status(self) -> int:
        with contextlib.suppress(subprocess.TimeoutExpired):
            status = self._process.wait(timeout=1.0)
            # bubblewrap tells a signal as a shell does.
            return 128 - status if self._wrappers and status > 128 else status
        return -signal.SIGKILL

    def ask_where(self) -> None:
        pid = self.pid
        for _ in range(self._wrappers):
            pid = next(iter(children(pid)), 0)
        if pid:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGUSR1)

    def kill(self) -> None:
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
    }
