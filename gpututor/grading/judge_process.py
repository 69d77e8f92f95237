"""The judge's process on the side of its client: started with a clean environment, ended with all descendants."""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
from collections.abc import Iterator
from typing import Any

from gpututor import paths
from gpututor.errors import GradingError
from gpututor.processes import children, hide_environment, hide_from_others, kill_tree, python_module
from gpututor.protocol.frames import read_frame, write_frame

SILENCE_S = 300.0
"""Seconds without an answer while no worker keeps the judge waiting: it imports PyTorch, or a check computes."""
SLACK_S = 60.0
"""Further seconds without an answer, after the time for which the judge waits for a worker."""
ENDS_WITHIN_S = 5.0
ENDED_WITHIN_S = 0.5
"""Seconds in which a judge must end after it closed its answers."""
INHERITED = (
    "PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "LANG", "TZ", "GPUTUTOR_HOME", "LD_LIBRARY_PATH", "SYSTEMROOT",
)  # fmt: skip
PREFIXES = (
    "LC_", "XDG_", "CUDA_", "NVIDIA_", "HIP_", "HSA_", "ROCR_", "ONEAPI_", "ZE_", "TORCH_", "PYTORCH_",
)  # fmt: skip
"""Environment variables that a judge inherits: no secret of the learner's shell."""


class JudgeProcess:
    """A judge and its keeper. Raises `GradingError` if it cannot be started."""

    def __init__(self, arguments: tuple[str, ...]) -> None:
        hide_from_others()
        hide_environment()
        self._writing, self._ending = threading.Lock(), threading.Lock()
        self._keeper = _start(arguments)
        self.silent_s = 0.0
        """Seconds of silence after which the judge was ended; 0.0 if it was not ended because of silence."""

    @property
    def pid(self) -> int:
        """The judge's process id; 0 if it does not run."""
        return next(iter(children(self._keeper.pid)), 0)

    def poll(self) -> int | None:
        """Return the judge's exit status; None while it runs."""
        return self._keeper.poll()

    @property
    def has_ended_itself(self) -> bool:
        """True if the judge ended without a signal."""
        return self._keeper.returncode is not None and self._keeper.returncode >= 0

    def write(self, header: dict[str, object]) -> None:
        """Send a request. Raises `OSError` or `ValueError` if the judge is gone."""
        assert self._keeper.stdin is not None
        with self._writing:
            write_frame(self._keeper.stdin, header)

    def answers(self) -> Iterator[dict[str, Any]]:
        """Yield the headers of the judge's answers; end it if it is silent too long. Raises `FrameError`, `OSError`."""
        assert self._keeper.stdout is not None
        allowed_s = SILENCE_S
        while True:
            with self._ended_after(allowed_s):
                header = read_frame(self._keeper.stdout).header
            allowed_s = SILENCE_S
            if "waits_s" in header:
                allowed_s = float(header["waits_s"]) + SLACK_S
            else:
                yield header

    def close(self) -> None:
        """Let the judge end by itself and remove its files; then kill what is left."""
        assert self._keeper.stdin is not None
        with contextlib.suppress(OSError):  # unsent requests are lost with a dead judge
            self._keeper.stdin.close()
        self._wait_for_end()
        self._close_pipes()

    def kill(self) -> None:
        """End the judge and everything that it started. Safe from any thread."""
        with self._ending:
            if self.poll() is None:
                self._keeper.terminate()
                self._wait_for_end()

    def forget(self) -> None:
        """End the judge, and close its pipes."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._keeper.wait(ENDED_WITHIN_S)
        self.kill()
        self._close_pipes()

    def _wait_for_end(self) -> None:
        try:
            self._keeper.wait(ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            kill_tree(self._keeper.pid)
            self._keeper.wait()

    def _close_pipes(self) -> None:
        for pipe in (self._keeper.stdin, self._keeper.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

    @contextlib.contextmanager
    def _ended_after(self, allowed_s: float) -> Iterator[None]:
        """End the judge if the block takes longer. Time during which this process is suspended hardly counts."""
        over = threading.Event()

        def watch() -> None:
            left_s = allowed_s
            while not over.wait(min(1.0, left_s)):
                left_s -= 1.0
                if left_s <= 0:
                    self.silent_s = allowed_s
                    self.kill()
                    return

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            over.set()


def _start(arguments: tuple[str, ...]) -> subprocess.Popen[bytes]:
    environment = {name: os.environ[name] for name in os.environ if name in INHERITED or name.startswith(PREFIXES)}
    environment |= {"OMP_NUM_THREADS": "1", "PYTORCH_NVML_BASED_CUDA_CHECK": "1"}
    with contextlib.ExitStack() as opened:
        log: Any = subprocess.DEVNULL
        with contextlib.suppress(OSError):  # a grading works without its log
            paths.log_file().parent.mkdir(parents=True, exist_ok=True)
            log = opened.enter_context(paths.log_file().open("ab"))
        command = [*python_module("gpututor.grading.keeper"), *arguments]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": log}
        try:
            return subprocess.Popen(command, env=environment, start_new_session=True, **pipes)
        except OSError as error:
            raise GradingError(f"The judge could not be started: {error}", "Run `gpututor doctor`.") from error
