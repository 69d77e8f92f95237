"""Runs one submission in one scenario, and reads the files that it wrote."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from gpututor.checks.model import Call, Check, Machine, Opened, Run, describe_call
from gpututor.course.model import Exercise
from gpututor.judge import failures
from gpututor.judge.channel import DeadlinePassed, WorkerSession
from gpututor.judge.devices import to_machine
from gpututor.judge.failures import RunFailure
from gpututor.judge.responses import SubmissionFailure, WorkerProtocolError, expect, rank_fields, read_call, read_ranks
from gpututor.judge.workers import Worker, WorkerPool
from gpututor.judge.workers.worker import LimitExceeded
from gpututor.protocol.decode import Decoder
from gpututor.protocol.encode import Encoder
from gpututor.protocol.frames import EndOfFrames, Frame, FrameError
from gpututor.protocol.messages import KEPT_BYTES, MOST_NAMES, Failure, MachineSpec, Sizes
from gpututor.protocol.values import ValueRefused
from gpututor.text import escape_control_chars
from gpututor.trace.events import Kind


@dataclass(frozen=True)
class RunPlan:
    """Number of calls for each case, and what the worker sends besides results and traces."""

    repeats: int = 1
    wants: tuple[str, ...] = ()
    """Observations to make, as in `Check.wants`."""
    files: tuple[str, ...] = ()
    """Names of files, without folders, that are read after each call."""
    opens: tuple[tuple[str, str], ...] = ()
    baselines: tuple[str, ...] = ()
    """Files of the exercise's folder that also run on the same inputs, in workers of their own."""


def make_run_plan(checks: Sequence[Check], machine: Machine) -> RunPlan:
    """Return the smallest plan for all of `checks` that apply on `machine`."""
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
class SourceFile:
    """Source to run, and the name of its file."""

    file_name: str
    source: str


@dataclass
class RunObservation:
    """Result of one run."""

    run: Run
    failure: RunFailure | None = None
    printed: str = ""
    printed_dropped_bytes: int = 0
    kinds: Counter[Kind] = field(default_factory=Counter)
    changed: tuple[str, ...] = ()
    """Names of code that was replaced in the worker, as it reports."""
    outside: tuple[int, ...] = ()
    """Lines at which the file used a device between calls, as the worker reports."""
    stopped: Call | None = None
    """The call that ended with an error: its inputs and its trace, nothing else."""


def run_submission(
    worker: Worker,
    exercise: Exercise,
    spec: MachineSpec,
    submission: SourceFile,
    inputs: Iterable[dict[str, Any]],
    given_source: str,
    plan: RunPlan,
    on_call: Callable[[int], None] = lambda _: None,
    on_output: Callable[[str], None] = lambda _: None,
) -> RunObservation:
    """Run `submission` on the machine `spec`, `plan.repeats` times for each of `inputs`.

    `on_call` gets the number of each case, from 1, before its calls. `on_output` gets the newest printed line now and
    then. Failures of the submission never raise: they are the observation's `failure`.
    """
    source, channel = submission.source, worker.channel
    session = WorkerSession(channel)
    sizes = Sizes(result_bytes=exercise.limits.result_mib << 20)
    channel.begin(time.monotonic() + exercise.limits.wall_s, exercise.limits.output_kib << 10)
    channel.on_output = on_output
    repeated: list[tuple[Call, ...]] = []
    failure: RunFailure | None = None
    stopped: Call | None = None
    stage, drawn = "loads", dict[str, Any]()
    try:
        expect(session.ask(load_request(exercise, spec, submission, given_source, plan, sizes)), "loaded")
        stage = "runs"
        for drawn in inputs:
            on_call(len(repeated) + 1)
            repeated.append(tuple(_call(session, drawn, source, sizes, plan, exercise) for _ in range(plan.repeats)))
        expect(session.ask({"op": "leave"}), "left")
        session.check_silence()
    except SubmissionFailure as failed:
        which = describe_call(len(repeated), exercise.cases, drawn) if stage == "runs" else ""
        failure = failures.from_failure(failed.failure, stage, exercise, source, which, failed.trace)
        if failed.trace is not None:
            stopped = Call(drawn, {}, None, failed.trace)
        if stage == "runs" or failure.worker_is_usable:
            _leave(worker, session)
    except failures.REQUEST_ERRORS as error:
        failure = failures.from_error(error, stage, exercise, worker, submission.file_name)
    channel.drain_printed()
    calls = tuple(calls[0] for calls in repeated)
    kinds: Counter[Kind] = Counter()
    for call in calls:
        kinds.update(call.trace.kinds())
    run = Run(to_machine(spec, worker.devices), calls, source, exercise.entry, tuple(repeated))
    changed, outside = tuple(session.changed), tuple(session.outside)
    printed, dropped_bytes = channel.printed.text, channel.printed.dropped_bytes
    return RunObservation(run, failure, printed, dropped_bytes, kinds, changed, outside, stopped)


def load_request(
    exercise: Exercise, spec: MachineSpec, submission: SourceFile, given_source: str, plan: RunPlan, sizes: Sizes
) -> dict[str, Any]:
    """Return the first request of a run: the machine, the file, and what the worker sends for each call."""
    return {
        "op": "load",
        "machine": spec.to_json(),
        "file_name": submission.file_name,
        "source": submission.source,
        "given": given_source,
        "entry": exercise.entry,
        "wants": list(plan.wants),
        "files": list(plan.files),
        "sizes": asdict(sizes),
        **rank_fields(exercise),
    }


def _call(
    session: WorkerSession, drawn: dict[str, Any], source: str, sizes: Sizes, plan: RunPlan, exercise: Exercise
) -> Call:
    encoder = Encoder()
    frame = session.ask({"op": "call", "drawn": encoder.pack(drawn)}, encoder.buffers, sizes.bounds)
    if (received_bytes := session.channel.received_bytes) > KEPT_BYTES:
        amount = f"{received_bytes:,} bytes; at most {KEPT_BYTES:,} are allowed"
        message = f"the results and traces of the calls so far take {amount}"
        raise SubmissionFailure(Failure("refused", "", message, None, ""))
    if exercise.kind == "processes":
        return read_ranks(frame, drawn, source, sizes, plan.files, exercise.processes)
    return read_call(frame, drawn, source, sizes, plan.files)


def _leave(worker: Worker, session: WorkerSession) -> None:
    """End the scenario in a worker whose run failed, so that the next scenario can use the worker."""
    try:
        expect(session.ask({"op": "leave"}), "left")
    except (*failures.REQUEST_ERRORS, SubmissionFailure):
        worker.kill()  # the run has failed already; the next scenario must not get a broken worker


class Opener:
    """Reads files that a submission wrote, in a separate worker. A file that breaks the worker gets it replaced."""

    def __init__(self, pool: WorkerPool, exercise: Exercise) -> None:
        self._pool, self._exercise = pool, exercise
        self._worker: Worker | None = None
        self._received_bytes = 0

    def read_output_files(self, plan: RunPlan, run: Run) -> Run:
        """Return `run` with the files read that `plan` names. A bad file never raises."""
        if not plan.opens:
            return run
        self._received_bytes = 0
        repeated = tuple(tuple(self._with_opened(call, plan) for call in calls) for calls in run.repeated)
        return replace(run, calls=tuple(calls[0] for calls in repeated), repeated=repeated)

    def _with_opened(self, call: Call, plan: RunPlan) -> Call:
        existing = [(name, how) for name, how in plan.opens if call.files.get(name)]
        return replace(call, opened={(name, how): self._open(call.files[name], how) for name, how in existing})

    def close(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            self._pool.release(worker)

    def _open(self, content: bytes, how: str) -> Opened:
        worker = self._worker = self._worker or self._pool.take()
        limits = self._exercise.limits
        worker.channel.begin(time.monotonic() + limits.wall_s, 1 << 10)
        sizes = Sizes(result_bytes=limits.result_mib << 20)
        request: dict[str, Any] = {"op": "open", "how": how, "sizes": asdict(sizes)}
        try:
            frame = WorkerSession(worker.channel).ask(request, [content], sizes.bounds)
            self._received_bytes += worker.channel.received_bytes
            if self._received_bytes > KEPT_BYTES:
                return Opened(refusal=f"it and the files before it hold more than {KEPT_BYTES:,} bytes")
            expect(frame, "opened")
            return _read(frame)
        except DeadlinePassed:
            refusal = f"opening it took more than {limits.wall_s:g} s"
        except LimitExceeded as over:
            refusal = f"opening it took too much of the machine ({over})"
        except (EndOfFrames, SubmissionFailure, WorkerProtocolError):
            refusal = "the process that opened it crashed"
        except (FrameError, ValueRefused) as error:
            refusal = f"a value in it cannot be read: {error}"
        self.close()
        return Opened(refusal=refusal)


def _read(frame: Frame) -> Opened:
    refusal, places = frame.header.get("refusal"), frame.header.get("places")
    if not isinstance(refusal, str) or not isinstance(places, list) or len(places) > MOST_NAMES:
        raise FrameError("this is not an answer to `open`")
    content = Decoder(frame.buffers).unpack(frame.header.get("output"))
    devices = tuple(escape_control_chars(str(place)[:40]) for place in places)
    return Opened(content, devices, escape_control_chars(refusal[:400]))
