"""Grading: runs a submission in each scenario, collects verdicts, and writes the report."""

from __future__ import annotations

import errno
import hashlib
import math
import platform
import secrets
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gpututor import __version__
from gpututor.checks.authors import authors_frames, fault_of
from gpututor.checks.identity import unmodified
from gpututor.checks.model import Check, Machine, Run
from gpututor.checks.work import reference_flops
from gpututor.course.loader import load_exercise
from gpututor.course.model import MAX_SUBMISSION_BYTES, Exercise
from gpututor.errors import GradingError, NotGradableHere, TutorError, UsageError
from gpututor.grading.events import (
    CallStarted,
    CheckFinished,
    GradeRequest,
    GradingEvent,
    ScenarioStarted,
    TimingProgressed,
    WaitingForDevice,
)
from gpututor.grading.journal import GradingKey, exercise_digest, write_entry
from gpututor.grading.report import (
    Environment,
    Outcome,
    Placement,
    Report,
    RunSummary,
    SourceNote,
    Status,
    Verdict,
    Workers,
)
from gpututor.hardware.inventory import torch_version
from gpututor.judge import devices
from gpututor.judge.author_code import ExerciseCode, ReferenceSolution, draw_inputs, load_code, run_baselines
from gpututor.judge.channel import outside_in_words
from gpututor.judge.devices import in_key, in_words, locks_for, machine_specs, memory_of, to_machine
from gpututor.judge.isolation.probe import working
from gpututor.judge.recorder import RecordingWriter
from gpututor.judge.runner import Observation, Opener, Submission, plan_for, run_submission
from gpututor.judge.source_review import names_of, review, suspicions_in
from gpututor.judge.suspicions import find_inconsistencies
from gpututor.judge.timing.measure import measure_for
from gpututor.judge.timing.sequential_test import MOST_PAIRS
from gpututor.judge.verdicts import LONGEST, builtin_verdicts, not_run, outcome_of, verdict_of, with_held_back
from gpututor.judge.workers import Worker, WorkerPool
from gpututor.judge.workers.worker import WorkerLost
from gpututor.processes import tree
from gpututor.protocol.messages import MachineSpec
from gpututor.text import truncate, with_newlines
from gpututor.trace.events import Kind


def with_seed(request: GradeRequest) -> GradeRequest:
    """With a seed drawn, where it has none: who grades twice, or reports what broke, needs the same one."""
    return request if request.seed is not None else replace(request, seed=secrets.randbits(32))


def internal_error_report(request: GradeRequest, error: BaseException, isolation: str) -> Report:
    """The report when the grader or the exercise broke, in words. Never the learner's fault."""
    outcome = Outcome.REJECTED if isinstance(error, UsageError) else Outcome.INTERNAL_ERROR
    if not isinstance(error, TutorError) and authors_frames(error):
        error = fault_of(error)
    reason = str(error) if isinstance(error, TutorError) else f"{type(error).__name__}: {error}"
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        place = f" in {Path(error.filename).parent}" if error.filename else ""
        reason = f"There is no space left to write to{place}.\nMake some, then try again."
    return Report(
        exercise=_key(Path(request.exercise_folder)),
        outcome=outcome,
        verdicts=(),
        runs=(),
        environment=environment_of(request.seed or 0, isolation=isolation),
        submission_sha256=sha256_of(request.submission),
        started_at=datetime.now(UTC).isoformat(timespec="seconds"),
        elapsed_s=0.0,
        reason=truncate(reason, LONGEST),
    )


def _key(folder: Path) -> str:
    try:
        return load_exercise(folder).key
    except TutorError:
        return folder.name


def environment_of(
    seed: int, torch: str = "", isolation: str = "", workers: Workers = "", driver: str = ""
) -> Environment:
    """Where this judge is, and what it was told."""
    return Environment(
        gpututor=__version__,
        torch=torch,
        python=platform.python_version(),
        platform=f"{sys.platform} {platform.machine()}",
        isolation=isolation,
        seed=seed,
        workers=workers,
        driver=driver,
    )


def sha256_of(text: str) -> str:
    """Of a submission."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


NOT_JOURNALED = (Outcome.INTERNAL_ERROR, Outcome.NOT_GRADABLE_HERE)
"""They say nothing of the submission, and may go another way at the next try."""


def verify_grading_key(request: GradeRequest, exercise: Exercise, isolation: str) -> None:
    """Raises `GradingError` where the request's key is not true of what is about to be graded."""
    if request.key is not None:
        done = replace(
            request.key,
            submission=sha256_of(request.submission),
            exercise=exercise.key,
            exercise_version=exercise_digest(exercise.folder),
            gpututor=__version__,
            torch=torch_version(),
            isolation=isolation,
        )
        _check_same(request.key, done)


def check_machine(request: GradeRequest, torch: str, device: str) -> None:
    """Raises `GradingError` where the key names another PyTorch or another device than the worker has."""
    if request.key is not None:
        _check_same(request.key, replace(request.key, torch=torch, device=device))


def _check_same(key: GradingKey, done: GradingKey) -> None:
    lies = [
        f"{name} is {getattr(done, name)!r}, not {told!r}"
        for name, told in vars(key).items()
        if getattr(done, name) != told
    ]
    if lies:
        raise GradingError(
            f"The grading is not the one that was asked for: {'; '.join(lies)}.",
            "Change nothing of the course or of this installation while a class is graded; then go on with --resume.",
        )


def write_to_journal(request: GradeRequest, report: Report) -> None:
    """Put the report in the journal that the request names. Raises `GradingError` where it cannot be written."""
    if request.journal is None or request.key is None or report.outcome in NOT_JOURNALED:
        return
    try:
        write_entry(Path(request.journal), request.key, report)
    except OSError as error:
        advice = "Make room there, or give yourself the right to write; then go on with --resume."
        raise GradingError(f"{request.journal}: the report cannot be written ({error.strerror}).", advice) from error


_MOST_LOOKED_AT = 256


def placement_of(run: Run, machine: MachineSpec, pid: int) -> Placement:
    """Of a run whose worker, process `pid`, is still there.

    On CUDA it is corroborated where the driver says that the worker holds at least what tensors held in the call that
    held most: the caching allocator keeps that. It is memory that was held, not which tensors held it.
    """
    if not run.calls:
        return ""
    if machine.kind == "virtual":
        return "traced"
    if machine.kind != "cuda":
        return "self-reported"
    claimed = max(sum(use.after for use in call.memory.values()) for call in run.calls)
    held = memory_of(set(tree(pid, _MOST_LOOKED_AT)))
    return "corroborated" if held is not None and held >= max(claimed, 1) else "self-reported"


UNASKED = (replace(unmodified(), points=0.0),)


def implicit_verdicts(checks: Sequence[Check], run: Run) -> Iterator[Verdict]:
    """What they found wrong with a run that came to its end; an author's check of the same name replaces one."""
    named = {check.name for check in checks}
    for check in UNASKED:
        if check.name not in named:
            verdict = verdict_of(check, run)
            if verdict.status is not Status.PASSED:
                yield verdict


Emit = Callable[[GradingEvent], None]


def grade(request: GradeRequest, pool: WorkerPool, emit: Emit, *, doubts_kills: bool = False) -> Report:
    """Grade one submission. What the learner did never raises; what is broken in the grader or the exercise does.

    `doubts_kills`: a worker that was killed by a signal is `WorkerLost`, for somebody else may have sent it.
    """
    grading = _Grading(request, pool, emit, doubts_kills)
    verify_grading_key(request, grading.exercise, pool.isolation)
    if refusal := _refusal(request):
        return grading.report(Outcome.REJECTED, refusal)
    code = load_code(grading.exercise)
    try:
        worker = grading.take_worker()
    except NotGradableHere as error:
        return grading.report(Outcome.NOT_GRADABLE_HERE, str(error))
    try:
        grading.run_all(worker, code)
    except NotGradableHere as error:
        return grading.report(Outcome.NOT_GRADABLE_HERE, str(error))
    finally:
        pool.release(worker)
    return grading.report(grading.outcome())


def _refusal(request: GradeRequest) -> str:
    """Why a text cannot be graded at all; empty when it can."""
    if not request.is_text:
        return "The file is not text: it holds half of a surrogate pair."
    content = request.submission.encode("utf-8", "replace")
    if len(content) > MAX_SUBMISSION_BYTES:
        return "The file is over 1 MiB: a solution is a short Python file."
    if not content.strip():
        return "The file is empty."
    if b"\0" in content:
        return "The file holds NUL bytes: it is no Python file."
    return ""


class _Grading:
    """What is gathered while one submission is graded."""

    def __init__(self, request: GradeRequest, pool: WorkerPool, emit: Emit, doubts_kills: bool) -> None:
        self.request = request
        self._doubts_kills = doubts_kills
        self._pool = pool
        self.exercise: Exercise = load_exercise(Path(request.exercise_folder))
        self.seed = request.seed or 0
        self._torch_version = ""
        self._driver = ""
        self._waited_s = 0.0
        self._emit = emit
        self._started = time.monotonic()
        self._started_at = datetime.now(UTC).isoformat(timespec="seconds")
        self._verdicts: list[Verdict] = []
        self._runs: list[RunSummary] = []
        self._suspicions: list[str] = []
        self._source_notes: tuple[SourceNote, ...] = ()
        self._trouble_outcome: Outcome | None = None
        self._of = 0.0
        self._devices: tuple[dict[str, object], ...] = ()

    def take_worker(self) -> Worker:
        """The worker for the submission; how long it was waited for is a cold start, and is told apart."""
        before = time.monotonic()
        worker = self._pool.take()
        self._waited_s = time.monotonic() - before
        self._torch_version = worker.torch_version
        self._devices = working(worker.devices, self._pool.isolation)
        if any(device["kind"] == "cuda" for device in self._devices):
            self._driver = devices.driver_version()
        return worker

    def run_all(self, worker: Worker, code: ExerciseCode) -> None:
        """Every scenario in turn, until one ends the worker or the file does not load. May raise `NotGradableHere`."""
        machines = machine_specs(self.exercise, self.request, self._devices)
        check_machine(self.request, self._torch_version, in_key(self.exercise, self.request, self._devices))
        self._of = _to_be_earned(code.checks, [to_machine(spec, self._devices) for spec in machines])
        source = with_newlines(self.request.submission.removeprefix("\ufeff"))
        submission = Submission(_file_name(self.request.file_name), source)
        # The starter's own names are the author's.
        allowed = names_of(self.exercise.starter).union(self.exercise.allowed_names)
        self._source_notes = review(source, allowed)
        if self.request.notes_count:
            self._suspicions += suspicions_in(self._source_notes, all_count=True)
        recorder = RecordingWriter(self.request.recording_folder, code.checks, self.exercise.cases)
        self._locks = locks_for(machines, self._devices, lambda device: self._emit(WaitingForDevice(device)))
        self._opener = Opener(self._pool, self.exercise)
        try:
            with self._locks.shared():
                self._run_on(machines, worker, code, submission, recorder)
        finally:
            self._opener.end()

    def _run_on(
        self,
        machines: Sequence[MachineSpec],
        worker: Worker,
        code: ExerciseCode,
        submission: Submission,
        recorder: RecordingWriter,
    ) -> None:
        plans = [plan_for(code.checks, to_machine(spec, self._devices)) for spec in machines]
        if any(plan.opens or plan.baselines for plan in plans):
            self._pool.warm()  # a second worker will be needed, and may take seconds to start
        for number, (spec, plan) in enumerate(zip(machines, plans, strict=True), 1):
            device = in_words(spec, self._devices)
            self._emit(ScenarioStarted(spec.scenario.name, device, number, len(machines)))
            solution = ReferenceSolution(self._pool, self.exercise, spec, plan, lambda: self._inputs(code), code)
            inputs = self._inputs(code)
            with worker.awake():
                exercise, given = self.exercise, code.given_source
                observation = run_submission(worker, exercise, spec, submission, inputs, given, plan, self._call)
            trouble = observation.trouble
            if trouble is not None and trouble.killed and self._doubts_kills:
                raise WorkerLost("The worker was killed in the middle of a grading.", "Grade once more.")
            if trouble is not None and (trouble.worker_broke is not None or trouble.exited):
                solution.run()  # raises where it breaks with that one too
            if trouble is None and plan.baselines:
                parts = (self._pool, self.exercise, spec, plan, lambda: self._inputs(code), self.seed, code)
                baselines = run_baselines(*parts)
                observation.run = replace(observation.run, baselines=baselines)
            if trouble is None:
                observation.run = self._opener.opened(plan, observation.run)
            judges_times = any(check.timed and check.applies(observation.run.machine) for check in code.checks)
            if trouble is None and spec.kind == "virtual" and spec.scenario.gpus and judges_times:
                flops = reference_flops(code.checks, observation.run)
                observation.run = replace(observation.run, reference_flops=flops)
            recorder.add(observation.run, device, submission.file_name, observation.stopped)
            self._suspicions += find_inconsistencies(observation.run, spec, observation.changed)
            self._suspicions += outside_in_words(observation.outside)
            self._judge(observation, spec, code, solution)
            placement = placement_of(observation.run, spec, worker.pid)
            self._runs.append(replace(_summary(spec, device, observation, self.exercise), placement=placement))
            if trouble is not None and (trouble.stage == "loads" or not trouble.worker_lives):
                break

    def _call(self, number: int) -> None:
        self._emit(CallStarted(number, self.exercise.cases))

    def outcome(self) -> Outcome:
        return self._trouble_outcome or outcome_of(self._verdicts, self._suspicions)

    def _inputs(self, code: ExerciseCode) -> Iterator[dict[str, Any]]:
        for case in range(self.exercise.cases):
            yield draw_inputs(code, self.exercise.folder, self.seed + case, case)

    def report(self, outcome: Outcome, reason: str = "") -> Report:
        return Report(
            exercise=self.exercise.key,
            outcome=outcome,
            verdicts=tuple(self._verdicts),
            runs=tuple(self._runs),
            environment=environment_of(
                self.seed,
                self._torch_version,
                self._pool.isolation,
                self._pool.workers if self._torch_version else "",
                self._driver,
            ),
            submission_sha256=sha256_of(self.request.submission),
            started_at=self._started_at,
            elapsed_s=round(time.monotonic() - self._started, 3),
            reason=reason,
            waited_s=round(self._waited_s, 3),
            suspicions=tuple(dict.fromkeys(self._suspicions)),
            source_notes=self._source_notes,
            of=self._of,
        )

    def _judge(
        self, observation: Observation, spec: MachineSpec, code: ExerciseCode, solution: ReferenceSolution
    ) -> None:
        """The grader's own checks, then the author's, each after those that it needs, and last what has to be timed."""
        checks = code.checks
        trouble, run = observation.trouble, observation.run
        for verdict in builtin_verdicts(observation, self.exercise):
            if verdict.status is not Status.PASSED:
                self._trouble_outcome = self._trouble_outcome or (trouble.outcome if trouble else Outcome.FAILED)
            self._add(verdict)
        statuses: dict[str, Status] = {}
        judged: list[tuple[Check, Verdict]] = []
        applying = [check for check in checks if check.applies(run.machine)]
        # Pairs take seconds, and tell nothing of code that is wrong.
        timed = [check for check in applying if check.speed is not None and not run.machine.virtual]
        for check in applying:
            if check in timed:
                continue
            broken = trouble is not None or any(statuses.get(need) not in (None, Status.PASSED) for need in check.needs)
            verdict = not_run(check, run.machine) if broken else solution.verdict_of(check, run)
            statuses[check.name] = verdict.status
            judged.append((check, verdict))
        for verdict in with_held_back(judged):
            self._add(verdict)
        if trouble is None:
            for verdict in implicit_verdicts(checks, run):
                statuses[verdict.check] = verdict.status
                self._add(verdict)
        for check in timed:
            broken = trouble is not None or any(status is not Status.PASSED for status in statuses.values())
            if not broken:
                tell = self._teller(check, run.machine)
                tell(0)
                seed = secrets.randbits(32)
                with self._locks.alone():
                    timing = measure_for(check, self._pool, self.exercise, spec, run.source, code, seed, tell)
                run = replace(run, timings={**run.timings, check.name: timing})
            self._add(not_run(check, run.machine) if broken else solution.verdict_of(check, run))

    def _teller(self, check: Check, machine: Machine) -> Callable[[int], None]:
        sentence = check.sentence(machine)
        return lambda pairs: self._emit(TimingProgressed(sentence, pairs, MOST_PAIRS))

    def _add(self, verdict: Verdict) -> None:
        self._verdicts.append(verdict)
        self._emit(CheckFinished(verdict))


def _to_be_earned(checks: Iterable[Check], machines: Sequence[Machine]) -> float:
    """The points of all checks that apply in any scenario, whether the run comes to it or not."""
    return math.fsum(check.points for check in checks if any(check.applies(machine) for machine in machines))


def _summary(spec: MachineSpec, device: str, observation: Observation, exercise: Exercise) -> RunSummary:
    own = next((scenario.gpu for scenario in exercise.scenarios if scenario.name == spec.scenario.name), "")
    is_another = spec.kind == "virtual" and spec.device != "cpu" and own != spec.scenario.gpu
    return RunSummary(
        scenario=spec.scenario.name,
        device=device,
        virtual=spec.kind == "virtual",
        output=observation.printed,
        output_dropped_bytes=observation.printed_dropped_bytes,
        traceback=observation.trouble.traceback if observation.trouble else "",
        kernels=observation.kinds.get(Kind.KERNEL, 0),
        transfers=observation.kinds.get(Kind.TRANSFER, 0),
        synchronisations=observation.kinds.get(Kind.SYNCHRONISE, 0),
        own_gpu=own if is_another else "",
        times="modelled" if spec.kind == "virtual" else "measured",
    )


def _file_name(name: str) -> str:
    """A safe name for the scratch folder: the last part of the path, and never one that Python would import."""
    stem = Path(name).stem
    return f"{stem if stem.replace('_', '').isalnum() else 'solution'}.py"
