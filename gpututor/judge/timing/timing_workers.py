"""Timing workers: each holds one file and answers batches of calls while the other processes are stopped."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any

from gpututor.checks.model import Finding
from gpututor.course.model import Exercise
from gpututor.grading.report import Outcome, Status
from gpututor.judge import failures
from gpututor.judge.channel import WorkerSession, check_ticket, new_ticket
from gpututor.judge.responses import SubmissionFailed, expect
from gpututor.judge.runner import RunPlan, Submission, load_request
from gpututor.judge.timing.sequential_test import Inputs, Timed
from gpututor.judge.workers import Worker
from gpututor.processes import tree
from gpututor.protocol.decode import Decoder
from gpututor.protocol.encode import Encoder
from gpututor.protocol.frames import Bounds, Frame, FrameError, write_frame
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


class TimingWorker:
    """A worker with a single file loaded, unobserved.

    `during_batch` is entered for each batch: it suspends other processes, or lets this worker run.
    """

    def __init__(
        self,
        worker: Worker,
        exercise: Exercise,
        spec: MachineSpec,
        file_name: str,
        source: str,
        during_batch: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext,
        clock_ns: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        self._worker = worker
        self._session = WorkerSession(worker.channel)
        self._exercise = exercise
        self._spec = spec
        self._file_name = file_name
        self._source = source
        self._during_batch = during_batch
        self._clock_ns = clock_ns

    def load(self, given_source: str) -> None:
        """Load the file. Raises `Stopped` if that fails."""
        submission, sizes = Submission(self._file_name, self._source), Sizes(result_bytes=512 << 20)
        question = load_request(self._exercise, self._spec, submission, given_source, RunPlan(), sizes)
        with self._failures_stop("loads"):
            self._begin()
            expect(self._session.ask({**question, "observed": False}), "loaded")

    def time(self, inputs: Inputs) -> Timed:
        return self._batch(inputs, again=False, keep=False)

    def _batch(self, inputs: Inputs, *, again: bool, keep: bool) -> Timed:
        ticket = new_ticket()
        content, sent_bytes = encode_batch(inputs, again=again, keep=keep, ticket=ticket)
        channel = self._worker.channel
        with self._failures_stop("runs"):
            self._begin()
            self._session.check_silence()
            with self._during_batch():
                started = self._clock_ns()
                channel.write(content)
                frame = channel.receive(BOUNDS)
                elapsed_s = (self._clock_ns() - started) / 1e9
            check_ticket(frame, ticket)
            expect(frame, "timed")
            return Timed(elapsed_s, decode_outputs(frame, len(inputs)), sent_bytes + sum(map(len, frame.buffers)))

    def _begin(self) -> None:
        limits = self._exercise.limits
        self._worker.channel.begin(time.monotonic() + limits.wall_s, limits.output_kib << 10)

    @contextlib.contextmanager
    def _failures_stop(self, stage: str) -> Iterator[None]:
        """Raise what goes wrong inside as `Stopped`."""
        exercise = self._exercise
        try:
            yield
        except SubmissionFailed as failed:
            failure = failures.from_failure(failed.failure, stage, exercise, self._source, " in a timed call")
            raise Stopped(failure.finding, Status.FAILED) from None
        except failures.REQUEST_ERRORS as error:
            failure = failures.from_error(error, stage, exercise, self._worker, self._file_name)
            raise Stopped(failure.finding, _STATUSES.get(failure.outcome, Status.FAILED)) from None


class NullWorker(TimingWorker):
    """A worker with the baseline's file that computes once, then repeats the same results.

    So it transfers the same inputs and as many bytes of results, without the work in between.
    """

    _stored_calls = 0

    def time(self, inputs: Inputs) -> Timed:
        if len(inputs) != self._stored_calls:
            self._batch(inputs, again=False, keep=True)
            self._stored_calls = len(inputs)
        return self._batch(inputs, again=True, keep=False)


def encode_batch(inputs: Inputs, *, again: bool, keep: bool, ticket: str) -> tuple[bytes, int]:
    """Return the frame of a batch, made before the clock starts, and the bytes of tensors in it."""
    packer = Encoder()
    nodes = [packer.pack(drawn) for drawn in inputs]
    stream = io.BytesIO()
    header = {"op": "time", "drawn": nodes, "again": again, "keep": keep, TICKET: ticket}
    write_frame(stream, header, packer.buffers)
    return stream.getvalue(), sum(map(len, packer.buffers))


def decode_outputs(frame: Frame, calls: int) -> list[Any]:
    """Return the results of a batch. Raises `FrameError` or `ValueRefused` for anything else."""
    nodes = frame.header.get("outputs")
    if not isinstance(nodes, list) or len(nodes) != calls:
        raise FrameError(f"the worker did not answer {calls} calls")
    unpacker = Decoder(frame.buffers)
    return [unpacker.unpack(node) for node in nodes]


MOST_LOOKS = 20
MAX_PROCESSES = 1 << 15
"""Members of a tree: one that grows while it is walked has no end."""


def family(pid: int) -> set[int]:
    """Return `pid` and every living process that descends from it."""
    return set(tree(pid, MAX_PROCESSES))


class SuspendedProcesses:
    """Processes of the judge's tree that are stopped while another one is timed.

    An orphan of a submission is the judge's own child by now, so every process that is not trusted is stopped.
    """

    def __init__(self, judge: int, trusted: Iterable[int], suspended: Callable[[], Iterable[int]] = tuple) -> None:
        """`trusted` are workers that hold nothing of the submission: their trees keep running.

        `suspended` returns workers that are stopped already, and must not continue with the others.
        """
        self._judge = judge
        self._trusted = tuple(trusted)
        self._suspended = suspended

    def untrusted(self) -> set[int]:
        """Return all descendants of the judge, without trusted and stopped trees."""
        pids = family(self._judge) - {self._judge}
        for pid in (*self._trusted, *self._suspended()):
            pids -= family(pid)
        return pids

    @contextlib.contextmanager
    def suspend(self) -> Iterator[None]:
        """Stop all others during the block; look again until there is no new process, or `MOST_LOOKS` times.

        A submission that starts processes faster disturbs the timing, and the guard against contention notices it.
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
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
