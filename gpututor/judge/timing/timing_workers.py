"""Timing workers: each holds one file and answers batches of calls while the other processes are stopped."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass

from gpututor.checks.model import Finding
from gpututor.course.model import Exercise
from gpututor.grading.report import Outcome, Status
from gpututor.judge import failures
from gpututor.judge.channel import WorkerSession, check_ticket, new_ticket
from gpututor.judge.responses import SubmissionFailure, expect
from gpututor.judge.runner import RunPlan, SourceFile, load_request
from gpututor.judge.timing.sequential_test import Inputs, TimedBatch
from gpututor.judge.workers import Worker
from gpututor.processes import tree
from gpututor.protocol.decode import Decoder
from gpututor.protocol.encode import Encoder
from gpututor.protocol.frames import Bounds, FrameError, write_frame
from gpututor.protocol.messages import TICKET, MachineSpec, Sizes

BOUNDS = Bounds(header_bytes=64 << 20, buffers=16384, buffer_bytes=512 << 20, total_bytes=1 << 30)


_STATUSES = {Outcome.TIMEOUT: Status.TOO_SLOW, Outcome.NEEDS_REVIEW: Status.NEEDS_REVIEW}
"""Status of the timed check by the outcome of a failure; any other failure fails it."""


class Stopped(Exception):
    """A timing worker failed; `finding` explains it."""

    def __init__(self, finding: Finding, status: Status) -> None:
        super().__init__(finding.got)
        self.finding = finding
        self.status = status


@dataclass
class TimingWorker:
    """A worker with a single file loaded, unobserved."""

    worker: Worker
    exercise: Exercise
    spec: MachineSpec
    file_name: str
    source: str
    during_batch: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext
    """Entered for each batch: it suspends other processes, or lets this worker run."""
    clock_ns: Callable[[], int] = time.perf_counter_ns

    def __post_init__(self) -> None:
        self._session = WorkerSession(self.worker.channel)

    def load(self, given_source: str) -> None:
        """Load the file. Raises `Stopped` if that fails."""
        submission, sizes = SourceFile(self.file_name, self.source), Sizes(result_bytes=512 << 20)
        request = load_request(self.exercise, self.spec, submission, given_source, RunPlan(), sizes)
        with self._converted_failures("loads"):
            self._begin()
            expect(self._session.ask({**request, "observed": False}), "loaded")

    def time(self, inputs: Inputs) -> TimedBatch:
        return self._batch(inputs, again=False, keep=False)

    def _batch(self, inputs: Inputs, *, again: bool, keep: bool) -> TimedBatch:
        ticket, encoder, content = new_ticket(), Encoder(), io.BytesIO()  # the frame is made before the clock starts
        nodes = [encoder.pack(drawn) for drawn in inputs]
        header = {"op": "time", "drawn": nodes, "again": again, "keep": keep, TICKET: ticket}
        write_frame(content, header, encoder.buffers)
        channel = self.worker.channel
        with self._converted_failures("runs"):
            self._begin()
            self._session.check_silence()
            with self.during_batch():
                started = self.clock_ns()
                channel.write(content.getbuffer())
                frame = channel.receive(BOUNDS)
                elapsed_s = (self.clock_ns() - started) / 1e9
            check_ticket(frame, ticket)
            expect(frame, "timed")
            results = frame.header.get("outputs")
            if not isinstance(results, list) or len(results) != len(inputs):
                raise FrameError(f"the worker did not answer {len(inputs)} calls")
            decoder = Decoder(frame.buffers)
            outputs = [decoder.unpack(node) for node in results]
            return TimedBatch(elapsed_s, outputs, sum(map(len, (*encoder.buffers, *frame.buffers))))

    def _begin(self) -> None:
        limits = self.exercise.limits
        self.worker.channel.begin(time.monotonic() + limits.wall_s, limits.output_kib << 10)

    @contextlib.contextmanager
    def _converted_failures(self, stage: str) -> Iterator[None]:
        """Convert failures inside the block to `Stopped`."""
        exercise = self.exercise
        try:
            yield
        except SubmissionFailure as failed:
            failure = failures.from_failure(failed.failure, stage, exercise, self.source, " in a timed call")
            raise Stopped(failure.finding, Status.FAILED) from None
        except failures.REQUEST_ERRORS as error:
            failure = failures.from_error(error, stage, exercise, self.worker, self.file_name)
            raise Stopped(failure.finding, _STATUSES.get(failure.outcome, Status.FAILED)) from None


class NullWorker(TimingWorker):
    """A baseline's worker that computes once, then repeats its results: the same transfers without the work."""

    _stored_calls = 0

    def time(self, inputs: Inputs) -> TimedBatch:
        if len(inputs) != self._stored_calls:
            self._batch(inputs, again=False, keep=True)
            self._stored_calls = len(inputs)
        return self._batch(inputs, again=True, keep=False)


MOST_LOOKS = 20
MAX_PROCESSES = 1 << 15
"""Most processes to read from a tree: it may grow while it is read."""


class SuspendedProcesses:
    """Suspends all untrusted processes below the judge, including orphans of submissions, while a worker is timed."""

    def __init__(self, judge: int, trusted: Iterable[int], suspended: Callable[[], Iterable[int]] = tuple) -> None:
        """`trusted` workers hold nothing of the submission and keep running; `suspended` ones stay stopped."""
        self._judge, self._trusted, self._suspended = judge, tuple(trusted), suspended

    def untrusted(self) -> set[int]:
        """Return all descendants of the judge, without trusted and stopped trees."""
        pids = set(tree(self._judge, MAX_PROCESSES)) - {self._judge}
        return pids.difference(*(tree(pid, MAX_PROCESSES) for pid in (*self._trusted, *self._suspended())))

    @contextlib.contextmanager
    def suspend(self) -> Iterator[None]:
        """Suspend the untrusted processes during the block. Look for new processes at most `MOST_LOOKS` times.

        A submission that starts processes faster disturbs the timing; then the result is `contended`.
        """
        stopped: set[int] = set()
        try:
            for _ in range(MOST_LOOKS):
                new = self.untrusted() - stopped
                if not new:
                    break
                _signal_all(new, signal.SIGSTOP)
                stopped |= new
            yield
        finally:
            _signal_all(stopped, signal.SIGCONT)


def _signal_all(pids: set[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):  # it has ended, or its id has another owner now
            os.kill(pid, number)
