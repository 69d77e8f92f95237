"""Grading: runs a submission in each scenario, collects verdicts, and makes the report."""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import math
import platform
import secrets
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gpututor import __version__
from gpututor.checks.author_errors import authors_frames, fault_of
from gpututor.checks.model import Check, Machine, Run, Timing
from gpututor.checks.work import reference_flops
from gpututor.course.loader import load_exercise
from gpututor.course.model import MAX_SUBMISSION_BYTES, Exercise
from gpututor.errors import GradingError, NotGradableHere, TutorError, UsageError
from gpututor.grading.events import (
    CallStarted,
    CheckFinished,
    GradeRequest,
    GradingEvent,
    OutputPrinted,
    ScenarioStarted,
    TimingProgressed,
    WaitingForDevice,
)
from gpututor.grading.journal import GradingKey, exercise_digest, grader_version, write_entry
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
from gpututor.hardware.nvidia_driver import driver_version, memory_of
from gpututor.hardware.packages import require_package
from gpututor.judge.author_code import AuthorRuns, ExerciseCode, draw_inputs, load_code
from gpututor.judge.cross_checks import changed_inputs, unread_inputs
from gpututor.judge.devices import (
    describe_device,
    journal_device,
    locks_for,
    machine_specs,
    to_machine,
)
from gpututor.judge.inconsistencies import find_inconsistencies
from gpututor.judge.isolation.probe import working
from gpututor.judge.recorder import RecordingWriter
from gpututor.judge.runner import Opener, RunObservation, RunPlan, SourceFile, make_run_plan, run_submission
from gpututor.judge.source_review import names_of, review, suspicions_in
from gpututor.judge.timing.measure import TIMING_WORKERS, measure
from gpututor.judge.timing.sequential_test import MOST_PAIRS
from gpututor.judge.verdicts import (
    LONGEST,
    builtin_verdicts,
    implicit_verdicts,
    not_run,
    outcome_of,
    with_held_back,
)
from gpututor.judge.workers import Worker, WorkerPool
from gpututor.judge.workers.worker import WorkerLost
from gpututor.processes import tree
from gpututor.protocol.messages import MachineSpec
from gpututor.text import truncate, with_newlines
from gpututor.trace.events import Kind


def internal_error_report(request: GradeRequest, error: BaseException, isolation: str) -> Report:
    """Return the report for a fault of the grader or the exercise, never the learner's."""
    outcome = Outcome.REJECTED if isinstance(error, UsageError) else Outcome.INTERNAL_ERROR
    if not isinstance(error, TutorError) and authors_frames(error):
        error = fault_of(error)
    reason = str(error) if isinstance(error, TutorError) else f"{type(error).__name__}: {error}"
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        where = f" in {Path(error.filename).parent}" if error.filename else ""
        reason = f"The disk is full{where}.\nFree some space, then try again."
    folder = Path(request.exercise_folder)
    key = folder.name
    with contextlib.suppress(TutorError):  # the exercise itself may be the fault
        key = load_exercise(folder).key
    return Report(
        exercise=key,
        outcome=outcome,
        verdicts=(),
        runs=(),
        environment=environment_of(request.seed or 0, isolation=isolation),
        submission_sha256=sha256_of(request.submission),
        started_at=datetime.now(UTC).isoformat(timespec="seconds"),
        elapsed_s=0.0,
        reason=truncate(reason, LONGEST),
    )


def environment_of(
    seed: int, torch: str = "", isolation: str = "", workers: Workers = "", driver: str = ""
) -> Environment:
    """Describe this judge and its options."""
    system = f"{sys.platform} {platform.machine()}"
    return Environment(__version__, torch, platform.python_version(), system, isolation, seed, driver, workers)


def sha256_of(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


NOT_JOURNALED = (Outcome.INTERNAL_ERROR, Outcome.NOT_GRADABLE_HERE)
"""Outcomes that say nothing about the submission, and may differ at the next try."""


def _verify_key(key: GradingKey, **actual: str) -> None:
    """Raise `GradingError` if the key does not describe the `actual` grading."""
    expected = vars(key)
    differences = [
        f"{name} is {value!r}, not {expected[name]!r}" for name, value in actual.items() if value != expected[name]
    ]
    if differences:
        raise GradingError(
            f"The course or the installation changed while grading: {'; '.join(differences)}.",
            "Restore it, then continue with --resume.",
        )


def write_to_journal(request: GradeRequest, report: Report) -> None:
    """Write the report to the journal that the request names. Raises `GradingError` if that fails."""
    if request.journal is None or request.key is None or report.outcome in NOT_JOURNALED:
        return
    try:
        write_entry(Path(request.journal), request.key, report)
    except OSError as error:
        advice = "Free some space there, or give yourself write permission. Then continue with --resume."
        raise GradingError(f"{request.journal}: the report cannot be written ({error.strerror}).", advice) from error


_MAX_PROCESSES = 256


def placement_of(run: Run, machine: MachineSpec, pid: int) -> Placement:
    """Return how reliable the placement of a run's tensors is. Its worker, process `pid`, must still be running.

    On CUDA, the driver reports the worker's memory, but not its tensors. It corroborates the placement if it reports at
    least as much as tensors held after the largest call. The caching allocator keeps that memory.
    """
    if not run.calls:
        return ""
    if machine.kind == "virtual":
        return "traced"
    if machine.kind != "cuda":
        return "self-reported"
    held_by_tensors = max(sum(use.after for use in call.memory.values()) for call in run.calls)
    held = memory_of(set(tree(pid, _MAX_PROCESSES)))
    return "corroborated" if held is not None and held >= max(held_by_tensors, 1) else "self-reported"


Emit = Callable[[GradingEvent], None]


def grade(request: GradeRequest, pool: WorkerPool, emit: Emit, *, retry_if_killed: bool = False) -> Report:
    """Grade one submission. Raises for faults of the grader or the exercise, never for those of the submission.

    With `retry_if_killed`, a worker killed by a signal raises `WorkerLost`: another process may have sent it.
    """
    grading = _Grading(request, pool, emit, retry_if_killed)
    if request.key is not None:
        _verify_key(
            request.key,
            submission=sha256_of(request.submission),
            exercise=grading.exercise.key,
            exercise_version=exercise_digest(grading.exercise.folder),
            gpututor=_own_version(),
            torch=torch_version(),
            isolation=pool.isolation,
        )
    if refusal := _refusal(request):
        return grading.report(Outcome.REJECTED, refusal)
    code = load_code(grading.exercise)
    try:
        for package in grading.exercise.packages:
            require_package(package)
        worker = grading.take_worker()
        try:
            grading.run_all(worker, code)
        finally:
            pool.release(worker)
    except NotGradableHere as error:
        return grading.report(Outcome.NOT_GRADABLE_HERE, str(error))
    return grading.report()


_own_version = functools.cache(grader_version)
"""The version of the code that this process runs: computed once, as the files may change later."""


def _refusal(request: GradeRequest) -> str:
    """Explain why a text cannot be graded at all; empty if it can."""
    if not request.is_text:
        return "The file is not text: it contains half of a surrogate pair."
    content = request.submission.encode("utf-8", "replace")
    if len(content) > MAX_SUBMISSION_BYTES:
        return "The file is over 1 MiB: a solution is a short Python file."
    if not content.strip():
        return "The file is empty."
    if b"\0" in content:
        return "The file contains NUL bytes, so it is not a Python file."
    return ""


class _Grading:
    """State of one grading."""

    def __init__(self, request: GradeRequest, pool: WorkerPool, emit: Emit, retry_if_killed: bool) -> None:
        self.request, self._pool, self._emit, self._retry_if_killed = request, pool, emit, retry_if_killed
        self.exercise: Exercise = load_exercise(Path(request.exercise_folder))
        self.seed = request.seed or 0
        self._torch_version = ""
        self._driver = ""
        self._waited_s = 0.0
        self._started = time.monotonic()
        self._started_at = datetime.now(UTC).isoformat(timespec="seconds")
        self._verdicts: list[Verdict] = []
        self._runs: list[RunSummary] = []
        self._suspicions: list[str] = []
        self._source_notes: tuple[SourceNote, ...] = ()
        self._failure_outcome: Outcome | None = None
        self._of = 0.0
        self._devices: tuple[dict[str, object], ...] = ()

    def take_worker(self) -> Worker:
        """Take the submission's worker. The wait for it is a cold start, reported apart from the grading."""
        before = time.monotonic()
        worker = self._pool.take()
        self._waited_s = time.monotonic() - before
        self._torch_version = worker.torch_version
        self._devices = working(worker.devices, self._pool.isolation)
        if any(device["kind"] == "cuda" for device in self._devices):
            self._driver = driver_version()
        return worker

    def run_all(self, worker: Worker, code: ExerciseCode) -> None:
        """Run all scenarios, until the worker ends or the file does not load. May raise `NotGradableHere`."""
        specs = machine_specs(self.exercise, self.request, self._devices)
        if self.request.key is not None:
            device = journal_device(self.exercise, self.request, self._devices)
            _verify_key(self.request.key, torch=self._torch_version, device=device)
        machines = [to_machine(spec, self._devices) for spec in specs]
        # Points of all scenarios, including scenarios that the grading does not reach.
        self._of = math.fsum(check.points for check in code.checks if any(map(check.applies, machines)))
        source = with_newlines(self.request.submission.removeprefix("\ufeff"))
        # The author chose the names in the starter.
        self._source_notes = review(source, names_of(self.exercise.starter).union(self.exercise.allowed_names))
        if self.request.notes_count:
            self._suspicions += suspicions_in(self._source_notes, all_count=True)
        plans = [make_run_plan(code.checks, machine) for machine in machines]
        self._code = code
        self._submission = SourceFile(_file_name(self.request.file_name), source)
        self._recorder = RecordingWriter(self.request.recording_folder, code.checks, self.exercise.cases)
        self._locks = locks_for(specs, self._devices, lambda device: self._emit(WaitingForDevice(device)))
        with contextlib.closing(Opener(self._pool, self.exercise)) as self._opener, self._locks.shared():
            # More workers will be needed, and may take seconds to start.
            if any(_is_timed(check, machine) for check in code.checks for machine in machines):
                self._pool.warm(TIMING_WORKERS)
            elif any(plan.opens or plan.baselines for plan in plans):
                self._pool.warm()
            for number, (spec, plan) in enumerate(zip(specs, plans, strict=True), 1):
                device = describe_device(spec, self._devices)
                self._emit(ScenarioStarted(spec.scenario.name, device, number, len(specs)))
                if not self._run_scenario(worker, spec, plan, device):
                    break

    def _run_scenario(self, worker: Worker, spec: MachineSpec, plan: RunPlan, device: str) -> bool:
        """Run one scenario and judge it; return True if the worker can run the next one."""
        exercise, code = self.exercise, self._code
        authors = AuthorRuns(self._pool, exercise, spec, plan, self._inputs, self.seed, code)
        with worker.running():
            source, inputs = code.given_source, self._inputs()
            callbacks = (self._on_call, self._on_output)
            observation = run_submission(worker, exercise, spec, self._submission, inputs, source, plan, *callbacks)
        failure = observation.failure
        if failure is None:
            run = replace(observation.run, baselines=authors.baselines())
            run = self._opener.read_output_files(plan, run)
            is_timed = any(check.timed and check.applies(run.machine) for check in code.checks)
            if is_timed and spec.kind == "virtual" and spec.scenario.gpus:
                run = replace(run, reference_flops=reference_flops(code.checks, run))
            observation.run = run
        elif failure.killed and self._retry_if_killed:
            raise WorkerLost("The worker was killed during a grading.", "Grade again.")
        elif (failure.worker_broke is not None or failure.exited) and authors.has_solution:
            authors.solution()  # raises if the worker breaks with the solution too
        self._recorder.add(observation.run, device, self._submission.file_name, observation.stopped)
        self._suspicions += find_inconsistencies(observation.run, spec, observation.changed)
        if authors.has_solution:
            self._suspicions += changed_inputs(observation.run, authors.solution)
        for line in observation.outside:
            place = f"line {line}" if line else "code without a line"
            self._suspicions.append(f"{place} used a device between calls")
        self._judge(observation, spec, authors)
        placement = placement_of(observation.run, spec, worker.pid)
        self._runs.append(replace(_summary(spec, device, observation, exercise), placement=placement))
        return failure is None or (failure.stage != "loads" and failure.worker_is_usable)

    def _on_call(self, number: int) -> None:
        self._emit(CallStarted(number, self.exercise.cases))

    def _on_output(self, line: str) -> None:
        self._emit(OutputPrinted(line))

    def _inputs(self) -> Iterator[dict[str, Any]]:
        for case in range(self.exercise.cases):
            yield draw_inputs(self._code, self.exercise.folder, self.seed + case, case)

    def report(self, outcome: Outcome | None = None, reason: str = "") -> Report:
        workers = self._pool.workers if self._torch_version else ""
        return Report(
            exercise=self.exercise.key,
            outcome=outcome or self._failure_outcome or outcome_of(self._verdicts, self._suspicions),
            verdicts=tuple(self._verdicts),
            runs=tuple(self._runs),
            environment=environment_of(self.seed, self._torch_version, self._pool.isolation, workers, self._driver),
            submission_sha256=sha256_of(self.request.submission),
            started_at=self._started_at,
            elapsed_s=round(time.monotonic() - self._started, 3),
            reason=reason,
            waited_s=round(self._waited_s, 3),
            suspicions=tuple(dict.fromkeys(self._suspicions)),
            source_notes=self._source_notes,
            of=self._of,
        )

    def _judge(self, observation: RunObservation, spec: MachineSpec, authors: AuthorRuns) -> None:
        """Judge built-in checks, then the author's, each after its prerequisites, and timed checks last."""
        checks, failure, run = self._code.checks, observation.failure, observation.run
        for verdict in builtin_verdicts(observation, self.exercise):
            if verdict.status is not Status.PASSED:
                self._failure_outcome = self._failure_outcome or (failure.outcome if failure else Outcome.FAILED)
            self._add(verdict)
        statuses: dict[str, Status] = {}
        judged: list[tuple[Check, Verdict]] = []
        applying = [check for check in checks if check.applies(run.machine)]
        # Timing takes seconds, and says nothing about wrong code.
        timed = [check for check in applying if _is_timed(check, run.machine)]
        for check in applying:
            if check in timed:
                continue
            broken = failure is not None or any(statuses.get(need) not in (None, Status.PASSED) for need in check.needs)
            verdict = not_run(check, run.machine) if broken else authors.verdict_of(check, run)
            statuses[check.name] = verdict.status
            judged.append((check, verdict))
        for verdict in with_held_back(judged):
            self._add(verdict)
        on_virtual_gpu = run.machine.virtual and run.machine.device != "cpu"
        if failure is None and on_virtual_gpu and not any(verdict.status.is_failure for _, verdict in judged):
            passed = [check for check, verdict in judged if verdict.status is Status.PASSED]
            self._suspicions += unread_inputs(run, [check.tolerance.reference for check in passed if check.tolerance])
        if failure is None:
            for verdict in implicit_verdicts(checks, run):
                statuses[verdict.check] = verdict.status
                self._add(verdict)
        for check in timed:
            broken = failure is not None or any(status is not Status.PASSED for status in statuses.values())
            if not broken:
                run = replace(run, timings={**run.timings, check.name: self._measure(check, spec, run)})
            self._add(not_run(check, run.machine) if broken else authors.verdict_of(check, run))

    def _measure(self, check: Check, spec: MachineSpec, run: Run) -> Timing:
        """Time the submission for a check with a speed limit, alone on the device."""
        limit, sentence = check.speed, check.sentence(run.machine)
        assert limit is not None

        def on_pair(pairs: int) -> None:
            self._emit(TimingProgressed(sentence, pairs, MOST_PAIRS))

        on_pair(0)
        seed, baseline = secrets.randbits(32), self.exercise.file(limit.baseline)
        options: dict[str, Any] = {"on_pair": on_pair, "alone": self._locks.alone}
        return measure(self._pool, self.exercise, spec, run.source, baseline, self._code, limit, seed, **options)

    def _add(self, verdict: Verdict) -> None:
        self._verdicts.append(verdict)
        self._emit(CheckFinished(verdict))


def _is_timed(check: Check, machine: Machine) -> bool:
    """Return True if the judge times the submission for this check, on a real device."""
    return check.speed is not None and not machine.virtual and check.applies(machine)


def _summary(spec: MachineSpec, device: str, observation: RunObservation, exercise: Exercise) -> RunSummary:
    default_gpu = next((scenario.gpu for scenario in exercise.scenarios if scenario.name == spec.scenario.name), "")
    differs = spec.kind == "virtual" and spec.device != "cpu" and default_gpu != spec.scenario.gpu
    return RunSummary(
        scenario=spec.scenario.name,
        device=device,
        virtual=spec.kind == "virtual",
        output=observation.printed,
        output_dropped_bytes=observation.printed_dropped_bytes,
        traceback=observation.failure.traceback if observation.failure else "",
        kernels=observation.kinds[Kind.KERNEL],
        transfers=observation.kinds[Kind.TRANSFER],
        synchronisations=observation.kinds[Kind.SYNCHRONISE],
        own_gpu=default_gpu if differs else "",
        times="modelled" if spec.kind == "virtual" else "measured",
    )


def _file_name(name: str) -> str:
    """Return a safe name for the scratch folder: the last part of the path, and no name that Python would import."""
    stem = Path(name).stem
    return f"{stem if stem.replace('_', '').isalnum() else 'solution'}.py"
