"""The judge's process: `python -I -m gpututor.judge --isolation NAME --workers NAME`.

Reads requests as frames on stdin, answers with frames on stdout.

One request at a time is graded, on the main thread; a second thread listens, so that a cancel is heard at once and the
end of stdin (the app is gone, however it went) ends everything.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib
import os
import queue
import sys
import threading
import traceback
from collections.abc import Callable
from typing import BinaryIO

from gpututor.errors import TutorError
from gpututor.grading.events import Cancelled, Graded, GradeRequest, GradingEvent, event_to_json, request_from_json
from gpututor.judge.isolation import Isolation, Process
from gpututor.judge.isolation.bubblewrap import Bubblewrap
from gpututor.judge.workers import WorkerPool, WorkerSource
from gpututor.judge.workers.fork_server import ForkServer
from gpututor.judge.workers.scratch import sweep_scratch
from gpututor.judge.workers.spares import Spares
from gpututor.judge.workers.worker import WorkerLost
from gpututor.processes import adopt_orphans
from gpututor.wire.frames import FrameError, read_frame, write_frame

ISOLATIONS: dict[str, type[Isolation]] = {"process": Process, "bubblewrap": Bubblewrap}
SOURCES: dict[str, Callable[[Isolation], WorkerSource]] = {"spare": Spares, "fork server": ForkServer}


class Server:
    """Serves one client."""

    def __init__(self, requests: BinaryIO, answers: BinaryIO, workers: WorkerSource) -> None:
        self._requests = requests
        self._answers = answers
        self._waiting: queue.SimpleQueue[tuple[int, GradeRequest]] = queue.SimpleQueue()
        self._pool = WorkerPool(workers)
        self._cancelled_up_to = -1

    def serve(self) -> None:
        """Until the client closes."""
        adopt_orphans()
        # Where no worker can be had, each grading says why.
        with contextlib.suppress(TutorError):
            self._pool.warm()
        sweep_scratch()
        threading.Thread(target=self._listen, daemon=True).start()
        importlib.import_module("gpututor.judge.judge")  # 1.1 s: torch, while the first worker imports it too
        gc.freeze()  # torch's 170,000 objects stay: what a grading leaves is collected without looking at them

        while True:
            number, request = self._waiting.get()
            self._grade(number, request)
            gc.collect()  # 3 ms. Left to itself it would come late, and memory grow by 5 KiB with each grading

    def _grade(self, number: int, request: GradeRequest) -> None:
        from gpututor.judge.about import broken_report, with_seed
        from gpututor.judge.judge import grade
        from gpututor.judge.keeping import keep

        def emit(event: GradingEvent) -> None:
            if not self._is_cancelled(number):
                self._answer(number, event)

        if self._is_cancelled(number):
            self._answer(number, Cancelled())
            return
        request = with_seed(request)
        try:
            try:
                report = grade(request, self._pool, emit, doubts_kills=request.journal is not None)
            except WorkerLost:
                if self._is_cancelled(number):
                    raise
                # As far as can be told the submission did nothing to it: once more.
                report = grade(request, self._pool, emit)
            if not self._is_cancelled(number):  # else it is about a worker that was killed, whatever it blames
                keep(request, report)
        except (Exception, SystemExit) as error:  # an author's check may call sys.exit()
            if not self._is_cancelled(number):
                traceback.print_exc()
            report = broken_report(request, error, self._pool.isolation)
        self._answer(number, Cancelled() if self._is_cancelled(number) else Graded(report))

    def _is_cancelled(self, number: int) -> bool:
        return number <= self._cancelled_up_to

    def _answer(self, number: int, event: GradingEvent) -> None:
        with contextlib.suppress(BrokenPipeError):  # nobody hears it: `_listen` is about to end everything
            write_frame(self._answers, {"id": number, **event_to_json(event)})

    def _listen(self) -> None:
        try:
            while True:
                header = read_frame(self._requests).header
                if header["op"] == "cancel":
                    self._cancelled_up_to = header["id"]
                    self._pool.kill_current()
                else:
                    self._waiting.put((header["id"], request_from_json(header["request"])))
        except (FrameError, OSError):
            self._cancelled_up_to = sys.maxsize
            self._pool.kill_all()
            os._exit(0)


def main() -> None:
    parser = argparse.ArgumentParser(prog="gpututor.judge")
    parser.add_argument("--isolation", choices=tuple(ISOLATIONS), default="process")
    parser.add_argument("--workers", choices=tuple(SOURCES), default="spare")
    arguments = parser.parse_args()
    requests = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    # What an exercise's code or torch prints must not get between the frames.
    os.dup2(2, 1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    workers = SOURCES[arguments.workers](ISOLATIONS[arguments.isolation]())
    Server(requests, answers, workers).serve()


if __name__ == "__main__":
    main()
