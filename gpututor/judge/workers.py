"""Workers: starting them ahead of need, and ending them with everything that they started."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from gpututor.errors import GradingError
from gpututor.files import ordinary_and_no_link
from gpututor.judge.channel import Channel, DeadlinePassed
from gpututor.processes import is_alive, kill_descendants, kill_tree, python_module, reap_orphans
from gpututor.wire.frames import Bounds, FrameError

READY_WITHIN_S = 120.0
"""A cold import of torch from a slow disk takes a while."""
SCRATCH_PREFIX = "gpututor-"
"""Of a worker's scratch folder; its judge's process id follows."""
STACK_FILE = ".stack"
"""In the scratch folder: where a worker writes what it is at when it is asked by SIGUSR1."""
PASSED_ON = ("PATH", "LANG", "LC_ALL", "CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH", "SYSTEMROOT")


class Worker:
    """One worker process: made, got ready, used for one submission, ended."""

    def __init__(self) -> None:
        self.scratch = Path(tempfile.mkdtemp(prefix=f"{SCRATCH_PREFIX}{os.getpid()}-"))
        ours, theirs = socket.socketpair()
        printed_reader, printed_writer = os.pipe()
        try:
            self._process = subprocess.Popen(
                [*python_module("gpututor.worker", "-u"), str(theirs.fileno()), str(self.scratch)],
                stdin=subprocess.DEVNULL,
                stdout=printed_writer,
                stderr=printed_writer,
                pass_fds=[theirs.fileno()],
                env=_environment(self.scratch),
                start_new_session=True,
            )
        finally:
            theirs.close()
            os.close(printed_writer)
        self.channel = Channel(ours, printed_reader)
        self.devices: tuple[dict[str, object], ...] = ()
        self.torch_version = ""
        self._ended = False
        self._ending = threading.Lock()

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_until_ready(self) -> None:
        """Returns when torch is imported there. Raises `GradingError` with its last words when it died instead."""
        if self.torch_version:
            return
        self.channel.begin(time.monotonic() + READY_WITHIN_S, 64 << 10)
        try:
            ready = self.channel.receive(Bounds()).header
        except (FrameError, DeadlinePassed) as error:
            self.kill()
            self.channel.drain_printed()
            words = self.channel.printed.text.strip()[-2000:]
            raise GradingError(f"A worker did not start: {words or error}", "Run `gpututor doctor`.") from error
        self.devices = tuple(ready["devices"])
        self.torch_version = ready["torch"]

    def check(self) -> None:
        """Raises `GradingError` for a worker that is not what it was when it got ready."""
        if self._process.poll() is not None or not self.scratch.is_dir():
            raise GradingError("A worker that waited is gone.", "Try again.")

    def exit_status(self) -> int:
        """Of a worker whose channel ended: its exit code, or minus a signal's number. Waits a moment for it."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(timeout=1.0)
        return -9

    def stack_line(self, file_name: str) -> int | None:
        """The line of the learner's file that a worker past its deadline is at, where it can still tell."""
        submission = re.escape(str(self.scratch / file_name))
        with contextlib.suppress(OSError):
            os.kill(self.pid, signal.SIGUSR1)
            give_up = time.monotonic() + 0.2
            while time.monotonic() < give_up:
                # A submission may have put a link or a pipe in its place.
                with open(self.scratch / STACK_FILE, "rb", opener=ordinary_and_no_link) as stream:
                    text = stream.read(1 << 16).decode("utf-8", "replace")
                at = re.search(rf'"{submission}", line (\d{{1,7}}) in ', text)
                if at:
                    return int(at[1])
                time.sleep(0.005)
        return None

    def kill(self) -> None:
        """End the process and all that it started. Safe from any thread, and more than once."""
        with self._ending:
            if not self._ended:
                kill_tree(self.pid)

    def end(self, keep: set[int]) -> None:
        """Kill, collect the remains, remove the scratch folder. `keep`: children of ours that live on."""
        self.kill()
        with self._ending:
            self._process.wait()
            self._ended = True
        reap_orphans(keep)
        self.channel.close()
        shutil.rmtree(self.scratch, ignore_errors=True)


class WorkerPool:
    """Keeps one worker warm ahead of need. Used by one thread; only `kill_current` may come from another."""

    def __init__(self) -> None:
        self._spare: Worker | None = None
        self._current: Worker | None = None

    def warm(self) -> None:
        """Start a spare when there is none; does not wait for it."""
        if self._spare is None:
            self._spare = Worker()

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
        assert self._spare is not None
        worker = self._current = self._spare
        self._spare = None
        try:
            worker.wait_until_ready()
            worker.check()
        except GradingError:
            self._current = None
            worker.end(set())
            raise
        return worker

    def release(self, worker: Worker) -> None:
        """End a worker, and start the next spare."""
        self._current = None
        worker.end({self._spare.pid} if self._spare is not None else set())
        self.warm()

    def kill_current(self) -> None:
        """From any thread: end the worker that is in use, if one is."""
        worker = self._current
        if worker is not None:
            worker.kill()

    def kill_all(self) -> None:
        """From any thread, when the judge is about to end: no process and no scratch folder is left."""
        kill_descendants()
        for worker in (self._current, self._spare):
            if worker is not None:
                shutil.rmtree(worker.scratch, ignore_errors=True)


def sweep_scratch() -> None:
    """Remove the scratch folders of judges that were killed before they could do so themselves."""
    for folder in Path(tempfile.gettempdir()).glob(f"{SCRATCH_PREFIX}*-*"):
        owner = folder.name.removeprefix(SCRATCH_PREFIX).partition("-")[0]
        if owner.isdigit() and not is_alive(int(owner)) and folder.stat().st_uid == os.getuid():
            shutil.rmtree(folder, ignore_errors=True)


def _environment(scratch: Path) -> dict[str, str]:
    """A clean environment: no secrets, no settings of the learner's shell."""
    passed_on = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    return {
        **passed_on,
        "HOME": str(scratch),
        "TMPDIR": str(scratch),
        "OMP_NUM_THREADS": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        # Asking whether CUDA is there must not initialise it.
        "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
    }
