"""Conducting one run: a submission in one scenario, loaded and called in a worker, every answer looked at."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from gpututor.checks.core import Call, Run, call_in_words
from gpututor.course.exercise import Exercise
from gpututor.judge import troubles
from gpututor.judge.answers import SubmissionFailed, WorkerBroke, expect, read_call
from gpututor.judge.channel import DeadlinePassed
from gpututor.judge.conversation import Conversation
from gpututor.judge.machines import seen_by_checks
from gpututor.judge.plan import Plan
from gpututor.judge.ranks import rank_question, read_ranks
from gpututor.judge.troubles import Trouble
from gpututor.judge.workers import Worker
from gpututor.judge.workers.watch import OverLimit
from gpututor.trace.columns import TraceError
from gpututor.trace.events import Kind
from gpututor.wire.frames import EndOfFrames, FrameError
from gpututor.wire.messages import Failure, MachineSpec
from gpututor.wire.observed import ValueRefused
from gpututor.wire.packer import Packer
from gpututor.wire.sizes import KEPT_BYTES, Sizes


@dataclass(frozen=True)
class Submission:
    """A text to run, and what its author calls the file."""

    file_name: str
    source: str


@dataclass
class Observation:
    """What was observed of one run."""

    run: Run
    trouble: Trouble | None = None
    printed: str = ""
    printed_dropped_bytes: int = 0
    kinds: dict[Kind, int] = field(default_factory=dict)
    """How many events of each kind there were."""
    changed: tuple[str, ...] = ()
    """What the worker says was replaced in it."""
    outside: tuple[int, ...] = ()
    """At which lines, the worker says, the file used a device between calls."""
    stopped: Call | None = None
    """The call in which the file stopped with an error: what was drawn for it and what the devices did, no more."""


def conduct(
    worker: Worker,
    exercise: Exercise,
    spec: MachineSpec,
    submission: Submission,
    inputs: Iterable[dict[str, Any]],
    given_source: str,
    plan: Plan,
    tell: Callable[[int], None] = lambda _: None,
) -> Observation:
    """Run `submission` on the machine `spec`, `plan.repeats` times for each of `inputs`.

    `tell` hears the number of each call, from 1, before it is made.

    What the submission does never raises: what goes wrong is the observation's `trouble`.
    """
    source = submission.source
    channel = worker.channel
    conversation = Conversation(channel)
    sizes = Sizes(result_bytes=exercise.limits.result_mib << 20)
    channel.begin(time.monotonic() + exercise.limits.wall_s, exercise.limits.output_kib << 10)
    repeated: list[tuple[Call, ...]] = []
    trouble: Trouble | None = None
    stopped: Call | None = None
    stage, last_drawn = "loads", dict[str, Any]()
    try:
        expect(conversation.ask(load_question(exercise, spec, submission, given_source, plan, sizes)), "loaded")
        stage = "runs"
        for drawn in inputs:
            last_drawn = drawn
            tell(len(repeated) + 1)
            repeated.append(
                tuple(_call(conversation, drawn, source, sizes, plan, exercise) for _ in range(plan.repeats))
            )
        expect(conversation.ask({"op": "leave"}), "left")
        conversation.check_silence()
    except SubmissionFailed as failed:
        which = call_in_words(len(repeated), exercise.cases, last_drawn) if stage == "runs" else ""
        trouble = troubles.from_failure(failed.failure, stage, exercise, source, which, failed.trace)
        if failed.trace is not None:
            stopped = Call(last_drawn, {}, None, failed.trace)
        if stage == "runs" or trouble.worker_lives:
            _leave(worker, conversation)
    except DeadlinePassed:
        trouble = troubles.from_deadline(stage, exercise, worker.stack_line(submission.file_name))
    except OverLimit as over:
        trouble = troubles.from_over_limit(stage, exercise, over)
    except EndOfFrames:
        trouble = troubles.from_exit(stage, exercise, worker.exit_status())
    except WorkerBroke as broke:
        trouble = troubles.from_broken_worker(stage, exercise, broke)
    except (FrameError, ValueRefused, TraceError) as error:
        trouble = troubles.from_bad_answer(stage, exercise, str(error))
    channel.drain_printed()
    machine = seen_by_checks(spec, worker.devices)
    firsts = tuple(calls[0] for calls in repeated)
    observation = Observation(Run(machine, firsts, source, exercise.entry, tuple(repeated)), trouble, stopped=stopped)
    observation.printed, observation.printed_dropped_bytes = channel.printed.text, channel.printed.dropped_bytes
    observation.changed, observation.outside = tuple(conversation.changed), tuple(conversation.outside)
    for call in firsts:
        for kind, times in call.trace.kinds().items():
            observation.kinds[kind] = observation.kinds.get(kind, 0) + times
    return observation


def load_question(
    exercise: Exercise, spec: MachineSpec, submission: Submission, given_source: str, plan: Plan, sizes: Sizes
) -> dict[str, Any]:
    """What a worker is told before any call: the machine, the file, and what is wanted of its calls."""
    return {
        "op": "load",
        "machine": spec.to_json(),
        "file_name": submission.file_name,
        "source": submission.source,
        "given": given_source,
        "entry": exercise.entry,
        "wants": list(plan.wants),
        "files": list(plan.files),
        "sizes": sizes.to_json(),
        **rank_question(exercise),
    }


def _call(
    conversation: Conversation, drawn: dict[str, Any], source: str, sizes: Sizes, plan: Plan, exercise: Exercise
) -> Call:
    packer = Packer()
    frame = conversation.ask({"op": "call", "drawn": packer.pack(drawn)}, packer.buffers, sizes.bounds)
    check_kept(conversation.received_bytes)
    if exercise.kind == "processes":
        return read_ranks(frame, drawn, source, sizes, plan.files, exercise.processes)
    return read_call(frame, drawn, source, sizes, plan.files)


def check_kept(size_bytes: int) -> None:
    """Raises `SubmissionFailed` where the answers so far are more than the judge can keep."""
    if size_bytes > KEPT_BYTES:
        message = (
            f"the results and traces of the calls so far take {size_bytes:,} bytes; at most {KEPT_BYTES:,} are kept"
        )
        raise SubmissionFailed(Failure("refused", "", message, None, ""))


def _leave(worker: Worker, conversation: Conversation) -> None:
    """The run failed, but the worker lives: the next scenario may use it."""
    try:
        expect(conversation.ask({"op": "leave"}), "left")
    except (FrameError, DeadlinePassed, OverLimit, SubmissionFailed, WorkerBroke):
        worker.kill()
