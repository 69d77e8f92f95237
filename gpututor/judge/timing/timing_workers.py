"""Timing workers: each holds one file and answers batches of calls while the other processes are stopped."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from gpututor.checks.model import Finding
from gpututor.course.model import Exercise
from gpututor.grading.report import Status
from gpututor.judge import failures
from gpututor.judge.channel import DeadlinePassed, WorkerSession, check_ticket, new_ticket
from gpututor.judge.responses import SubmissionFailed, WorkerProtocolError, expect
from gpututor.judge.runner import RunPlan, Submission, load_question
from gpututor.judge.timing.sequential_test import Inputs, Timed
from gpututor.judge.workers import Worker
from gpututor.judge.workers.worker import LimitExceeded
from gpututor.processes import descendants
from gpututor.protocol.decode import Decoder
from gpututor.protocol.encode import Encoder
from gpututor.protocol.frames import Bounds, EndOfFrames, Frame, FrameError, write_frame
from gpututor.protocol.messages import TICKET, MachineSpec, Sizes
from gpututor.protocol.values import ValueRefused

BOUNDS = Bounds(header_bytes=64 << 20, buffers=16384, buffer_bytes=512 << 20, total_bytes=1 << 30)


class Stopped(Exception):
    """A sibling did not answer as it should; carries what a person is told."""

    def __init__(self, finding: Finding, status: Status) -> None:
        super().__init__(finding.got)
        self.finding = finding
        self.status = status


class TimingWorker:
    """One worker with one file loaded, unobserved.

    `beside` is entered around each batch: it keeps the others still, or lets this one go on.
    """

    def __init__(
        self,
        worker: Worker,
        exercise: Exercise,
        spec: MachineSpec,
        file_name: str,
        source: str,
        beside: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext,
        clock_ns: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        self._worker = worker
        self._conversation = WorkerSession(worker.channel)
        self._exercise = exercise
        self._spec = spec
        self._file_name = file_name
        self._source = source
        self._beside = beside
        self._clock_ns = clock_ns

    def load(self, given_source: str) -> None:
        """Send the file. Raises `Stopped` when it does not load."""
        submission, sizes = Submission(self._file_name, self._source), Sizes(result_bytes=512 << 20)
        question = load_question(self._exercise, self._spec, submission, given_source, RunPlan(), sizes)
        with self._telling("loads"):
            self._begin()
            expect(self._conversation.ask({**question, "observed": False}), "loaded")

    def time(self, inputs: Inputs) -> Timed:
        """One batch. Raises `Stopped`."""
        return self._batch(inputs, again=False, keep=False)

    def leave(self) -> None:
        """Done: the file is let go."""
        with contextlib.suppress(FrameError, DeadlinePassed):
            self._conversation.ask({"op": "leave"})

    def _batch(self, inputs: Inputs, *, again: bool, keep: bool) -> Timed:
        ticket = new_ticket()
        content, sent_bytes = encoded(inputs, again=again, keep=keep, ticket=ticket)
        channel = self._worker.channel
        with self._telling("runs"):
            self._begin()
            self._conversation.check_silence()
            with self._beside():
                started = self._clock_ns()
                channel.write_all(content)
                frame = channel.receive(BOUNDS)
                elapsed_s = (self._clock_ns() - started) / 1e9
            check_ticket(frame, ticket)
            expect(frame, "timed")
            return Timed(elapsed_s, outputs_of(frame, len(inputs)), sent_bytes + sum(map(len, frame.buffers)))

    def _begin(self) -> None:
        limits = self._exercise.limits
        self._worker.channel.begin(time.monotonic() + limits.wall_s, limits.output_kib << 10)

    @contextlib.contextmanager
    def _telling(self, stage: str) -> Iterator[None]:
        """What goes wrong inside is raised as `Stopped`."""
        exercise = self._exercise
        try:
            yield
        except SubmissionFailed as failed:
            trouble = failures.from_failure(failed.failure, stage, exercise, self._source, " in a timed call")
        except DeadlinePassed:
            line = self._worker.stack_line(self._file_name)
            trouble = failures.from_deadline(stage, exercise, line)
            raise Stopped(trouble.finding, Status.TOO_SLOW) from None
        except EndOfFrames:
            trouble = failures.from_exit(stage, exercise, self._worker.exit_status())
        except LimitExceeded as over:
            trouble = failures.limit_exceeded(stage, exercise, over)
        except WorkerProtocolError as broke:
            trouble = failures.from_broken_worker(stage, exercise, broke)
            raise Stopped(trouble.finding, Status.NEEDS_REVIEW) from None
        except (FrameError, ValueRefused) as error:
            trouble = failures.from_bad_answer(stage, exercise, str(error))
            raise Stopped(trouble.finding, Status.NEEDS_REVIEW) from None
        else:
            return
        raise Stopped(trouble.finding, Status.FAILED)


class NullWorker(TimingWorker):
    """The baseline's file in another worker, which computes once and then answers with the same results again.

    So it brings the same inputs and as many bytes of results, and does none of the work in between.
    """

    _kept_calls = 0

    def time(self, inputs: Inputs) -> Timed:
        if len(inputs) != self._kept_calls:
            self._batch(inputs, again=False, keep=True)
            self._kept_calls = len(inputs)
        return self._batch(inputs, again=True, keep=False)


def encoded(inputs: Inputs, *, again: bool, keep: bool, ticket: str) -> tuple[bytes, int]:
    """The frame of a batch, made before the clock starts, and how many bytes of tensors it holds."""
    packer = Encoder()
    nodes = [packer.pack(drawn) for drawn in inputs]
    stream = io.BytesIO()
    header = {"op": "time", "drawn": nodes, "again": again, "keep": keep, TICKET: ticket}
    write_frame(stream, header, packer.buffers)
    return stream.getvalue(), sum(map(len, packer.buffers))


def outputs_of(frame: Frame, calls: int) -> list[Any]:
    """The results of a batch. Raises `FrameError` or `ValueRefused` for anything else."""
    nodes = frame.header.get("outputs")
    if not isinstance(nodes, list) or len(nodes) != calls:
        raise FrameError(f"the worker did not answer {calls} calls")
    unpacker = Decoder(frame.buffers)
    return [unpacker.unpack(node) for node in nodes]


MOST_LOOKS = 20


def family(pid: int) -> set[int]:
    """`pid` and every living process that descends from it."""
    try:
        return _family_by_threads(pid)
    except OSError:
        return {pid, *descendants(pid)}


class SuspendedProcesses:
    """Stops processes of this one's tree, and lets them go on.

    An orphan that a submission left is this process's own child by now, so whoever is not trusted is taken to be its.
    """

    def __init__(self, judge: int, trusted: Iterable[int], standing_still: Callable[[], Iterable[int]] = tuple) -> None:
        """`trusted` are process ids of workers that hold nothing of the submission; their families are left alone.

        So are those of `standing_still`: they must not go on when the others do.
        """
        self._judge = judge
        self._trusted = tuple(trusted)
        self._standing_still = standing_still

    def others(self) -> set[int]:
        """All that descends from the judge, without what is trusted or stands still already."""
        found = family(self._judge) - {self._judge}
        for pid in (*self._trusted, *self._standing_still()):
            found -= family(pid)
        return found

    @contextlib.contextmanager
    def still(self) -> Iterator[None]:
        """All others are stopped for the time of the block. Looked at again until nobody new is there, or `MOST_LOOKS`.

        A submission whose processes are born faster than that disturbs, and the guard against contention sees it.
        """
        stopped: set[int] = set()
        try:
            for _ in range(MOST_LOOKS):
                new = self.others() - stopped
                if not new:
                    break
                _signal_all(new, signal.SIGSTOP)
                stopped |= new
            yield
        finally:
            _signal_all(stopped, signal.SIGCONT)


def _family_by_threads(pid: int) -> set[int]:
    """By the lists of children that Linux keeps for each thread. Raises `OSError` where it does not."""
    if not Path(f"/proc/self/task/{os.getpid()}/children").exists():
        raise OSError("this system lists no children")
    found: set[int] = set()
    waiting = [pid]
    while waiting:
        one = waiting.pop()
        if one in found:
            continue
        found.add(one)
        with contextlib.suppress(OSError):  # it ended meanwhile
            for thread in os.listdir(f"/proc/{one}/task"):
                with contextlib.suppress(OSError):
                    waiting += map(int, Path(f"/proc/{one}/task/{thread}/children").read_text().split())
    return found


def _signal_all(pids: set[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
