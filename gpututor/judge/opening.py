"""Having files opened that a submission wrote: in a fresh worker, which runs nothing of the submission."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from gpututor.checks.core import Call, Opened, Run
from gpututor.course.exercise import Exercise
from gpututor.judge.answers import SubmissionFailed, WorkerBroke, expect
from gpututor.judge.channel import DeadlinePassed
from gpututor.judge.conversation import Conversation
from gpututor.judge.plan import Plan
from gpututor.judge.workers import Worker, WorkerPool
from gpututor.judge.workers.watch import OverLimit
from gpututor.plain_text import visible
from gpututor.wire.frames import EndOfFrames, Frame, FrameError
from gpututor.wire.observed import ValueRefused
from gpututor.wire.sizes import KEPT_BYTES, MOST_NAMES, Sizes
from gpututor.wire.unpacker import Unpacker


def with_opened(pool: WorkerPool, exercise: Exercise, plan: Plan, run: Run) -> Run:
    """As `Opener.opened`, with a worker for this run only."""
    opener = Opener(pool, exercise)
    try:
        return opener.opened(plan, run)
    finally:
        opener.end()


class Opener:
    """A worker for opening the files of one submission, taken when there is something to open, and replaced when a
    file broke it."""

    def __init__(self, pool: WorkerPool, exercise: Exercise) -> None:
        self._pool = pool
        self._exercise = exercise
        self._worker: Worker | None = None
        self._kept_bytes = 0

    def opened(self, plan: Plan, run: Run) -> Run:
        """`run` with the files opened that `plan` wants opened. What is wrong with a file never raises."""
        if not plan.opens:
            return run
        self._kept_bytes = 0
        repeated = tuple(tuple(self._call(call, plan) for call in calls) for calls in run.repeated)
        return replace(run, calls=tuple(calls[0] for calls in repeated), repeated=repeated)

    def _call(self, call: Call, plan: Plan) -> Call:
        there = [(name, how) for name, how in plan.opens if call.files.get(name)]
        return replace(call, opened={(name, how): self._open(call.files[name], how) for name, how in there})

    def end(self) -> None:
        """Give the worker back."""
        worker, self._worker = self._worker, None
        if worker is not None:
            self._pool.release(worker)

    def _open(self, content: bytes, how: str) -> Opened:
        worker = self._worker = self._worker or self._pool.take()
        limits = self._exercise.limits
        worker.channel.begin(time.monotonic() + limits.wall_s, 1 << 10)
        sizes = Sizes(result_bytes=limits.result_mib << 20)
        question: dict[str, Any] = {"op": "open", "how": how, "sizes": sizes.to_json()}
        try:
            frame = Conversation(worker.channel).ask(question, [content], sizes.bounds)
            self._kept_bytes += worker.channel.received_bytes
            if self._kept_bytes > KEPT_BYTES:
                return Opened(refusal=f"it and the files before it hold more than {KEPT_BYTES:,} bytes")
            expect(frame, "opened")
            return _read(frame)
        except DeadlinePassed:
            words = f"opening it took more than {limits.wall_s:g} s"
        except OverLimit as over:
            words = f"opening it took too much of the machine ({over})"
        except (EndOfFrames, SubmissionFailed, WorkerBroke):
            words = "whoever opened it crashed"
        except (FrameError, ValueRefused) as error:
            words = f"it holds what cannot be read: {error}"
        self.end()
        return Opened(refusal=words)


def _read(frame: Frame) -> Opened:
    refusal, places = frame.header.get("refusal"), frame.header.get("places")
    if not isinstance(refusal, str) or not isinstance(places, list) or len(places) > MOST_NAMES:
        raise FrameError("this is no answer to `open`")
    content = Unpacker(frame.buffers).unpack(frame.header.get("output"))
    return Opened(content, tuple(visible(str(place)[:40]) for place in places), visible(refusal[:400]))
