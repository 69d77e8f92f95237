"""Entry point of the judge's process, which `gpututor.grading.keeper` starts.

It reads requests as frames on stdin and answers with frames on stdout. The main thread grades one request at a time. A
second thread reads the requests, handles a cancel at once, and ends everything when stdin closes. A third thread ends
everything when the keeper's pipe closes.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import gc
import importlib
import os
import queue
import secrets
import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import replace
from typing import Any, BinaryIO

from gpututor.errors import TutorError
from gpututor.grading.events import (
    GradeRequest,
    GradingCancelled,
    GradingEvent,
    GradingFinished,
    event_to_json,
    request_from_json,
)
from gpututor.judge.isolation import Isolation, Process
from gpututor.judge.isolation.bubblewrap import Bubblewrap
from gpututor.judge.workers import WorkerPool, WorkerSource
from gpututor.judge.workers.fork_server import ForkServer
from gpututor.judge.workers.pool import SpawnedWorkers
from gpututor.judge.workers.worker import WorkerLost, sweep_scratch
from gpututor.processes import adopt_orphans, hide_from_others
from gpututor.protocol.frames import FrameError, read_frame, write_frame

ISOLATIONS: dict[str, type[Isolation]] = {"process": Process, "bubblewrap": Bubblewrap}
SOURCES: dict[str, Callable[[Isolation], WorkerSource]] = {"spare": SpawnedWorkers, "fork server": ForkServer}


class Freezer:
    """Frozen objects of imported modules, which garbage collections skip: torch alone has 170,000 of them."""

    MANY = 100
    """New modules after which objects are frozen again: more than an exercise's own code imports."""

    def __init__(self) -> None:
        self._modules = 0

    def freeze(self) -> None:
        gc.freeze()
        self._modules = len(sys.modules)

    def freeze_imports(self) -> None:
        """Freeze again if many modules are new: SymPy, which a reference may import, costs each collection 20 ms."""
        if len(sys.modules) >= self._modules + self.MANY:
            self.freeze()


_malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
"""glibc's function; other C libraries return free memory by themselves."""


def return_free_memory() -> None:
    """Return the heap's free pages to the system: after a large reference, they are more than 200 MiB."""
    if _malloc_trim is not None:
        _malloc_trim(ctypes.c_size_t(0))


class JudgeServer:
    """Server for one client."""

    def __init__(
        self, requests: BinaryIO, answers: BinaryIO, workers: WorkerSource, *, keeper: int = -1, once: bool = False
    ) -> None:
        """`keeper` is a pipe that closes with the keeper. With `once`, one submission is graded."""
        self._requests, self._answers, self._keeper = requests, answers, keeper
        # Requests to grade, and folders of exercises whose checks are to be described.
        self._queue: queue.SimpleQueue[tuple[int, GradeRequest | str]] = queue.SimpleQueue()
        self._pool = WorkerPool(workers, is_last=once, on_deadline=self._report_wait)
        self._current = -1
        self._ending = threading.Lock()
        self._cancelled_up_to = -1

    def serve(self) -> None:
        adopt_orphans()
        threading.Thread(target=self._listen, daemon=True).start()
        if self._keeper >= 0:
            threading.Thread(target=self._watch_keeper, daemon=True).start()
        # If no worker can be started, each grading reports why.
        with contextlib.suppress(TutorError):
            self._pool.warm()
        sweep_scratch()
        importlib.import_module("gpututor.judge.grader")  # 1.1 s: torch, while the first worker imports it too
        freezer = Freezer()
        freezer.freeze()

        while True:
            self._current, request = self._queue.get()
            if isinstance(request, str):
                self._describe(self._current, request)
            else:
                self._grade(self._current, request)
            gc.collect()  # below 1 ms; without it memory grows by 5 KiB a grading until a late collection
            return_free_memory()  # 1 ms
            freezer.freeze_imports()

    def _grade(self, number: int, request: GradeRequest) -> None:
        from gpututor.judge.grader import grade, internal_error_report, write_to_journal

        def emit(event: GradingEvent) -> None:
            if not self._is_cancelled(number):
                self._answer(number, event)

        if self._is_cancelled(number):
            self._answer(number, GradingCancelled())
            return
        if request.seed is None:  # a second grading and a report need the same seed
            request = replace(request, seed=secrets.randbits(32))
        try:
            try:
                report = grade(request, self._pool, emit, retry_if_killed=request.journal is not None)
            except WorkerLost:
                if self._is_cancelled(number):
                    raise
                # The submission probably did not cause this: grade once more.
                report = grade(request, self._pool, emit)
            if not self._is_cancelled(number):  # after a cancel, the report is about a killed worker
                write_to_journal(request, report)
        except (Exception, SystemExit) as error:  # an author's check may call sys.exit()
            if not self._is_cancelled(number):
                with contextlib.suppress(OSError):  # the log's disk may be full; the report says what failed
                    traceback.print_exc()
                    sys.stderr.flush()
            report = internal_error_report(request, error, self._pool.isolation)
        self._answer(number, GradingCancelled() if self._is_cancelled(number) else GradingFinished(report))

    def _describe(self, number: int, exercise_folder: str) -> None:
        from gpututor.judge.author_code import answer_describe

        self._write(number, answer_describe(exercise_folder))

    def _is_cancelled(self, number: int) -> bool:
        return number <= self._cancelled_up_to

    def _report_wait(self, for_s: float) -> None:
        """Tell the client how long the judge may be silent; the client ends a judge that is silent for longer."""
        self._write(self._current, {"waits_s": for_s})

    def _answer(self, number: int, event: GradingEvent) -> None:
        self._write(number, event_to_json(event))

    def _write(self, number: int, answer: dict[str, Any]) -> None:
        with contextlib.suppress(BrokenPipeError):  # the client is gone: `_listen` is about to end everything
            write_frame(self._answers, {"id": number, **answer})

    def _listen(self) -> None:
        try:
            while True:
                header = read_frame(self._requests).header
                if header["op"] == "cancel":
                    self._cancelled_up_to = header["id"]
                    self._pool.kill_current()
                elif header["op"] == "describe":
                    self._queue.put((header["id"], str(header["exercise_folder"])))
                else:
                    self._queue.put((header["id"], request_from_json(header["request"])))
        except (FrameError, OSError):
            self._end()

    def _watch_keeper(self) -> None:
        with contextlib.suppress(OSError):
            os.read(self._keeper, 1)
        self._end()

    def _end(self) -> None:
        with self._ending:
            self._cancelled_up_to = sys.maxsize
            self._pool.kill_all()
            os._exit(0)


def main() -> None:
    parser = argparse.ArgumentParser(prog="gpututor.judge")
    parser.add_argument("--isolation", choices=tuple(ISOLATIONS), default="process")
    parser.add_argument("--workers", choices=tuple(SOURCES), default="spare")
    parser.add_argument("--once", action="store_true")
    parser.add_argument("--keeper", type=int, required=True, metavar="DESCRIPTOR")
    arguments = parser.parse_args()
    hide_from_others()
    requests = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    # Output of an exercise's code or of torch must not get between the frames.
    os.dup2(2, 1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    workers = SOURCES[arguments.workers](ISOLATIONS[arguments.isolation]())
    os.set_inheritable(arguments.keeper, False)
    JudgeServer(requests, answers, workers, keeper=arguments.keeper, once=arguments.once).serve()


if __name__ == "__main__":
    main()
