"""Running one submission in one scenario, and opening the files that it wrote."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gpututor.checks.model import Call, Check, Machine, Opened, Run, describe_call
from gpututor.course.model import Exercise
from gpututor.judge import failures
from gpututor.judge.channel import DeadlinePassed, WorkerSession
from gpututor.judge.devices import to_machine
from gpututor.judge.failures import RunFailure
from gpututor.judge.responses import SubmissionFailed, WorkerProtocolError, expect, rank_question, read_call, read_ranks
from gpututor.judge.workers import Worker, WorkerPool
from gpututor.judge.workers.worker import LimitExceeded
from gpututor.protocol.decode import Decoder
from gpututor.protocol.encode import Encoder
from gpututor.protocol.frames import EndOfFrames, Frame, FrameError
from gpututor.protocol.messages import KEPT_BYTES, MOST_NAMES, Failure, MachineSpec, Sizes
from gpututor.protocol.values import ValueRefused
from gpututor.text import escape_control_chars
from gpututor.trace.columns import TraceError
from gpututor.trace.events import Kind


@dataclass(frozen=True)
class RunPlan:
    """How often each case is called, and what is brought back besides results and traces."""

    repeats: int = 1
    wants: tuple[str, ...] = ()
    """See `Check.wants`."""
    files: tuple[str, ...] = ()
    """Names of files, without folders, that are brought back after each call."""
    opens: tuple[tuple[str, str], ...] = ()
    """See `Check.opens`."""
    baselines: tuple[str, ...] = ()
    """Files of the exercise's folder that are run too, on the same inputs, by workers of their own."""


def plan_for(checks: Sequence[Check], machine: Machine) -> RunPlan:
    """The least that answers all of `checks` that apply on `machine`."""
    applying = [check for check in checks if check.applies(machine)]
    limits = [check.speed for check in applying if check.speed is not None]
    timed = [limit.baseline for limit in limits] if machine.virtual else []
    return RunPlan(
        repeats=max((check.repeats for check in applying), default=1),
        wants=tuple(sorted({want for check in applying for want in check.wants})),
        files=tuple(dict.fromkeys(name for check in applying for name in check.files)),
        opens=tuple(dict.fromkeys(pair for check in applying for pair in check.opens)),
        baselines=tuple(dict.fromkeys([*timed, *(name for check in applying for name in check.baselines)])),
    )


@dataclass(frozen=True)
class Submission:
    """A text to run, and what its author calls the file."""

    file_name: str
    source: str


@dataclass
class Observation:
    """What was observed of one run."""

    run: Run
    trouble: RunFailure | None = None
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


def run_submission(
    worker: Worker,
    exercise: Exercise,
    spec: MachineSpec,
    submission: Submission,
    inputs: Iterable[dict[str, Any]],
    given_source: str,
    plan: RunPlan,
    tell: Callable[[int], None] = lambda _: None,
) -> Observation:
    """Run `submission` on the machine `spec`, `plan.repeats` times for each of `inputs`.

    `tell` hears the number of each call, from 1, before it is made.

    What the submission does never raises: what goes wrong is the observation's `trouble`.
    """
    source = submission.source
    channel = worker.channel
    conversation = WorkerSession(channel)
    sizes = Sizes(result_bytes=exercise.limits.result_mib << 20)
    channel.begin(time.monotonic() + exercise.limits.wall_s, exercise.limits.output_kib << 10)
    repeated: list[tuple[Call, ...]] = []
    trouble: RunFailure | None = None
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
        which = describe_call(len(repeated), exercise.cases, last_drawn) if stage == "runs" else ""
        trouble = failures.from_failure(failed.failure, stage, exercise, source, which, failed.trace)
        if failed.trace is not None:
            stopped = Call(last_drawn, {}, None, failed.trace)
        if stage == "runs" or trouble.worker_lives:
            _leave(worker, conversation)
    except DeadlinePassed:
        trouble = failures.from_deadline(stage, exercise, worker.stack_line(submission.file_name))
    except LimitExceeded as over:
        trouble = failures.limit_exceeded(stage, exercise, over)
    except EndOfFrames:
        trouble = failures.from_exit(stage, exercise, worker.exit_status())
    except WorkerProtocolError as broke:
        trouble = failures.from_broken_worker(stage, exercise, broke)
    except (FrameError, ValueRefused, TraceError) as error:
        trouble = failures.from_bad_answer(stage, exercise, str(error))
    channel.drain_printed()
    machine = to_machine(spec, worker.devices)
    firsts = tuple(calls[0] for calls in repeated)
    observation = Observation(Run(machine, firsts, source, exercise.entry, tuple(repeated)), trouble, stopped=stopped)
    observation.printed, observation.printed_dropped_bytes = channel.printed.text, channel.printed.dropped_bytes
    observation.changed, observation.outside = tuple(conversation.changed), tuple(conversation.outside)
    for call in firsts:
        for kind, times in call.trace.kinds().items():
            observation.kinds[kind] = observation.kinds.get(kind, 0) + times
    return observation


def load_question(
    exercise: Exercise, spec: MachineSpec, submission: Submission, given_source: str, plan: RunPlan, sizes: Sizes
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
    conversation: WorkerSession, drawn: dict[str, Any], source: str, sizes: Sizes, plan: RunPlan, exercise: Exercise
) -> Call:
    packer = Encoder()
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


def _leave(worker: Worker, conversation: WorkerSession) -> None:
    """The run failed, but the worker lives: the next scenario may use it."""
    try:
        expect(conversation.ask({"op": "leave"}), "left")
    except (FrameError, DeadlinePassed, LimitExceeded, SubmissionFailed, WorkerProtocolError):
        worker.kill()


def with_opened(pool: WorkerPool, exercise: Exercise, plan: RunPlan, run: Run) -> Run:
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

    def opened(self, plan: RunPlan, run: Run) -> Run:
        """`run` with the files opened that `plan` wants opened. What is wrong with a file never raises."""
        if not plan.opens:
            return run
        self._kept_bytes = 0
        repeated = tuple(tuple(self._call(call, plan) for call in calls) for calls in run.repeated)
        return replace(run, calls=tuple(calls[0] for calls in repeated), repeated=repeated)

    def _call(self, call: Call, plan: RunPlan) -> Call:
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
            frame = WorkerSession(worker.channel).ask(question, [content], sizes.bounds)
            self._kept_bytes += worker.channel.received_bytes
            if self._kept_bytes > KEPT_BYTES:
                return Opened(refusal=f"it and the files before it hold more than {KEPT_BYTES:,} bytes")
            expect(frame, "opened")
            return _read(frame)
        except DeadlinePassed:
            words = f"opening it took more than {limits.wall_s:g} s"
        except LimitExceeded as over:
            words = f"opening it took too much of the machine ({over})"
        except (EndOfFrames, SubmissionFailed, WorkerProtocolError):
            words = "whoever opened it crashed"
        except (FrameError, ValueRefused) as error:
            words = f"it holds what cannot be read: {error}"
        self.end()
        return Opened(refusal=words)


def _read(frame: Frame) -> Opened:
    refusal, places = frame.header.get("refusal"), frame.header.get("places")
    if not isinstance(refusal, str) or not isinstance(places, list) or len(places) > MOST_NAMES:
        raise FrameError("this is no answer to `open`")
    content = Decoder(frame.buffers).unpack(frame.header.get("output"))
    return Opened(
        content, tuple(escape_control_chars(str(place)[:40]) for place in places), escape_control_chars(refusal[:400])
    )
