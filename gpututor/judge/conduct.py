"""Conducting one run: a submission in one scenario, loaded and called in a worker, every answer looked at."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from gpututor.checks.core import Call, Run, call_in_words
from gpututor.course.exercise import Exercise
from gpututor.errors import GradingError
from gpututor.judge import troubles
from gpututor.judge.channel import DeadlinePassed
from gpututor.judge.machines import seen_by_checks
from gpututor.judge.troubles import Trouble
from gpututor.judge.workers import Worker
from gpututor.trace.columns import LIMIT, Trace, TraceError
from gpututor.trace.events import Kind
from gpututor.wire.frames import Bounds, EndOfFrames, Frame, FrameError
from gpututor.wire.messages import Failure, MachineSpec
from gpututor.wire.observed import ValueRefused
from gpututor.wire.packer import Packer
from gpututor.wire.unpacker import Unpacker, facts_by_path

ANSWER_BOUNDS = Bounds(header_bytes=64 << 20, buffers=4096, buffer_bytes=512 << 20, total_bytes=1 << 30)


@dataclass
class Observation:
    """What was observed of one run."""

    run: Run
    trouble: Trouble | None = None
    printed: str = ""
    printed_dropped_bytes: int = 0
    kinds: dict[Kind, int] = field(default_factory=dict)
    """How many events of each kind there were."""


def conduct(
    worker: Worker,
    exercise: Exercise,
    spec: MachineSpec,
    submission: tuple[str, str],
    inputs: Iterable[dict[str, Any]],
    given_source: str,
) -> Observation:
    """Run `submission` (file name, text) on the machine `spec`, once for each of `inputs`.

    What the submission does never raises: what goes wrong is the observation's `trouble`. Raises `GradingError` when
    the worker itself broke.
    """
    file_name, source = submission
    channel = worker.channel
    channel.begin(time.monotonic() + exercise.limits.wall_s, exercise.limits.output_kib << 10)
    calls: list[Call] = []
    trouble: Trouble | None = None
    stage, last_drawn = "loads", dict[str, Any]()
    try:
        channel.send(
            {
                "op": "load",
                "machine": spec.to_json(),
                "file_name": file_name,
                "source": source,
                "given": given_source,
                "entry": exercise.entry,
            }
        )
        _expect(channel.receive(ANSWER_BOUNDS), "loaded")
        stage = "runs"
        for drawn in inputs:
            last_drawn = drawn
            packer = Packer()
            channel.send({"op": "call", "drawn": packer.pack(drawn)}, packer.buffers)
            calls.append(_read_call(channel.receive(ANSWER_BOUNDS), drawn, source))
        channel.send({"op": "leave"})
    except _Failed as failed:
        which = call_in_words(len(calls), exercise.cases, last_drawn) if stage == "runs" else ""
        trouble = troubles.from_failure(failed.failure, stage, exercise, source, which)
        if stage == "runs" or trouble.worker_lives:
            _leave(worker)
    except DeadlinePassed:
        trouble = troubles.from_deadline(stage, exercise, worker.stack_line(file_name))
    except EndOfFrames:
        trouble = troubles.from_exit(stage, exercise, worker.exit_status())
    except (FrameError, ValueRefused, TraceError) as error:
        trouble = troubles.from_bad_answer(stage, exercise, str(error))
    channel.drain_printed()
    observation = Observation(Run(seen_by_checks(spec, worker.devices), tuple(calls), source, exercise.entry), trouble)
    observation.printed, observation.printed_dropped_bytes = channel.printed.text, channel.printed.dropped_bytes
    for call in calls:
        for kind, times in call.trace.kinds().items():
            observation.kinds[kind] = observation.kinds.get(kind, 0) + times
    return observation


class _Failed(Exception):
    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def _expect(frame: Frame, event: str) -> None:
    if frame.header.get("event") == "broken":
        words = str(frame.header.get("words"))[-4000:]
        raise GradingError(f"The worker broke:\n{words}", "Run `gpututor doctor`.")
    if frame.header.get("event") == "failed":
        raise _Failed(Failure.from_json(frame.header.get("failure")))
    if frame.header.get("event") != event:
        raise FrameError(f"the worker answered {str(frame.header.get('event'))[:40]!r} instead of {event!r}")


def _read_call(frame: Frame, drawn: dict[str, Any], source: str) -> Call:
    _expect(frame, "returned")
    line = frame.header.get("line")
    trace = Trace.from_json(frame.header.get("trace"))
    if trace.dropped:
        message = f"the devices did more than {LIMIT:,} things in one call; only these are written down"
        raise _Failed(Failure("refused", "", message, None, ""))
    return Call(
        drawn=drawn,
        arguments=facts_by_path(frame.header.get("arguments")),
        output=Unpacker(frame.buffers).unpack(frame.header.get("output")),
        trace=trace,
        return_line=line if type(line) is int and 0 < line <= source.count("\n") + 1 else None,
    )


def _leave(worker: Worker) -> None:
    """The run failed, but the worker lives: the next scenario may use it."""
    try:
        worker.channel.send({"op": "leave"})
    except (EndOfFrames, DeadlinePassed):
        worker.kill()
