"""The client of the judge: starts it, warms it, streams what it says, cancels. No torch here."""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Literal

from gpututor import paths
from gpututor.errors import GradingError
from gpututor.grading.events import (
    Cancelled,
    Graded,
    GradeRequest,
    GradingEvent,
    event_from_json,
    request_to_json,
)
from gpututor.processes import exit_status, kill_tree, python_module
from gpututor.wire.frames import FrameError, read_frame, write_frame

CANCEL_GRACE_S = 0.5
"""How long the judge may take to answer a cancel before it is killed with everything that it started."""

CLOSE_GRACE_S = 2.0

IsolationName = Literal["process", "bubblewrap"]
WorkersName = Literal["spare", "fork server"]
QUICKEST: WorkersName = "fork server" if sys.platform == "linux" else "spare"
"""For who grades more than once: PyTorch is imported once, and a second worker, for a baseline or for files that are
opened, is there in milliseconds."""


class GradingClient:
    """One judge process, started when it is first needed and again when it died.

    `isolation`: what its workers run in. Where that cannot be had, gradings end with `not gradable here`.
    `workers`: each a Python of its own, started ahead of need; or forked by a server that has imported torch (Linux).
    """

    def __init__(self, isolation: IsolationName = "process", workers: WorkersName = "spare") -> None:
        self._arguments = ("--isolation", isolation, "--workers", workers)
        self._numbers = itertools.count()
        self._judge: subprocess.Popen[bytes] | None = None
        self._starting = threading.Lock()
        self._writing = threading.Lock()
        self._turn = threading.Lock()
        self._current: int | None = None
        self._cancelled: set[int] = set()

    def warm(self) -> None:
        """Start the judge, which starts a worker; returns at once. Raises `GradingError` when it cannot be started."""
        self._running_judge()

    def grade(self, request: GradeRequest) -> Iterator[GradingEvent]:
        """Grade, and yield what happens as it happens; the last event is `Graded` or `Cancelled`.

        Blocks: iterate in a thread. One grading runs at a time: a second call waits for the first to end, so cancel
        that one first. Raises `GradingError` when the judge cannot be started, or broke.
        """
        with self._turn:
            number = next(self._numbers)
            judge = self._running_judge()
            self._current = number
            try:
                yield from self._conversation(judge, number, request)
            finally:
                self._current = None
                self._cancelled.discard(number)

    def cancel(self) -> None:
        """End the running grading, from any thread. Its iterator ends with `Cancelled`."""
        number, judge = self._current, self._judge
        if number is None or judge is None:
            return
        self._cancelled.add(number)
        with contextlib.suppress(OSError, ValueError):
            self._write(judge, {"op": "cancel", "id": number})
        timer = threading.Timer(CANCEL_GRACE_S, self._kill_if_still_at, (judge, number))
        timer.daemon = True
        timer.start()

    def close(self) -> None:
        """End the judge and all that it started."""
        with self._starting:
            judge, self._judge = self._judge, None
        if judge is not None:
            assert judge.stdin is not None
            with contextlib.suppress(OSError):
                judge.stdin.close()  # at the end of its input the judge ends everything, and tidies up
            try:
                judge.wait(CLOSE_GRACE_S)
            except subprocess.TimeoutExpired:
                kill_tree(judge.pid)
                judge.wait()
            _close_pipes(judge)

    def _conversation(
        self, judge: subprocess.Popen[bytes], number: int, request: GradeRequest
    ) -> Iterator[GradingEvent]:
        answers = judge.stdout
        assert answers is not None
        ended = False
        try:
            self._write(judge, {"op": "grade", "id": number, "request": request_to_json(request)})
            while not ended:
                frame = read_frame(answers)
                if frame.header.get("id") != number:
                    continue  # the tail of a grading that was given up
                event = event_from_json(frame.header)
                ended = isinstance(event, Graded | Cancelled)
                yield event
        except (FrameError, OSError, ValueError) as error:
            status = exit_status(judge.pid)
            self._forget(judge)
            if number not in self._cancelled:
                advice = f"Try again. If it stays so, run `gpututor doctor` and look at {paths.log_file()}."
                title = "The judge stopped in the middle of a grading."
                if status is not None:
                    title = (
                        f"The judge stopped in the middle of a grading of {request.exercise_folder}: it ended itself."
                    )
                    advice = f"Remove os._exit() and the like from checks.py and given.py of that folder. {advice}"
                raise GradingError(title, advice) from error
            yield Cancelled()
        finally:
            if not ended and number not in self._cancelled:
                self.cancel()  # the caller stopped listening

    def _running_judge(self) -> subprocess.Popen[bytes]:
        with self._starting:
            if self._judge is None or self._judge.poll() is not None:
                self._judge = _start_judge(*self._arguments)
            return self._judge

    def _write(self, judge: subprocess.Popen[bytes], header: dict[str, object]) -> None:
        requests = judge.stdin
        assert requests is not None
        with self._writing:
            write_frame(requests, header)

    def _kill_if_still_at(self, judge: subprocess.Popen[bytes], number: int) -> None:
        if self._current == number:
            kill_tree(judge.pid)

    def _forget(self, judge: subprocess.Popen[bytes]) -> None:
        kill_tree(judge.pid)
        judge.wait()
        with self._starting:
            if self._judge is judge:
                self._judge = None
        _close_pipes(judge)


def _start_judge(*arguments: str) -> subprocess.Popen[bytes]:
    paths.log_file().parent.mkdir(parents=True, exist_ok=True)
    try:
        with paths.log_file().open("ab") as log:
            return subprocess.Popen(
                [*python_module("gpututor.judge"), *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, "OMP_NUM_THREADS": "1", "PYTORCH_NVML_BASED_CUDA_CHECK": "1"},
                start_new_session=True,
            )
    except OSError as error:
        raise GradingError(f"The judge could not be started: {error}", "Run `gpututor doctor`.") from error


def _close_pipes(judge: subprocess.Popen[bytes]) -> None:
    for pipe in (judge.stdin, judge.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
