"""From a submission to a report. The decision is made here, on what was observed; no verdict ever travels."""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gpututor.checks.core import Check, Machine
from gpututor.checks.work import reference_flops
from gpututor.course.catalogue import load_exercise
from gpututor.course.exercise import MAX_SUBMISSION_BYTES, Exercise
from gpututor.errors import NotGradableHere
from gpututor.grading.events import (
    CallStarted,
    DeviceAwaited,
    GradeRequest,
    GradingEvent,
    RunStarted,
    TimingAdvanced,
    VerdictReached,
)
from gpututor.grading.report import Outcome, Report, RunSummary, SourceNote, Status, Verdict
from gpututor.judge import nvml
from gpututor.judge.about import environment_of, sha256_of
from gpututor.judge.baselines import run_baselines
from gpututor.judge.conduct import Observation, Submission, conduct
from gpututor.judge.conversation import outside_in_words
from gpututor.judge.device_locks import locks_for
from gpututor.judge.exercise_code import ExerciseCode, draw_inputs, load_code
from gpututor.judge.isolation.probe import working
from gpututor.judge.keeping import check_key, check_machine
from gpututor.judge.machines import in_key, in_words, machines_for, seen_by_checks
from gpututor.judge.opening import Opener
from gpututor.judge.placement import placement_of
from gpututor.judge.plan import plan_for
from gpututor.judge.recording import Recorder
from gpututor.judge.solution import Solution
from gpututor.judge.source_review import names_of, review, suspicions_in
from gpututor.judge.suspicions import suspicions_of
from gpututor.judge.timing.measuring import measure_for
from gpututor.judge.timing.statistics import MOST_PAIRS
from gpututor.judge.unasked import unasked_verdicts
from gpututor.judge.verdicts import not_run, outcome_of, own_verdicts, with_held_back
from gpututor.judge.workers import Worker, WorkerPool
from gpututor.judge.workers.worker import WorkerLost
from gpututor.plain_text import with_newlines
from gpututor.trace.events import Kind
from gpututor.wire.messages import MachineSpec

Emit = Callable[[GradingEvent], None]


def grade(request: GradeRequest, pool: WorkerPool, emit: Emit, *, doubts_kills: bool = False) -> Report:
    """Grade one submission. What the learner did never raises; what is broken in the grader or the exercise does.

    `doubts_kills`: a worker that was killed by a signal is `WorkerLost`, for somebody else may have sent it.
    """
    grading = _Grading(request, pool, emit, doubts_kills)
    check_key(request, grading.exercise, pool.isolation)
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
            self._driver = nvml.driver_version()
        return worker

    def run_all(self, worker: Worker, code: ExerciseCode) -> None:
        """Every scenario in turn, until one ends the worker or the file does not load. May raise `NotGradableHere`."""
        machines = machines_for(self.exercise, self.request, self._devices)
        check_machine(self.request, self._torch_version, in_key(self.exercise, self.request, self._devices))
        self._of = _to_be_earned(code.checks, [seen_by_checks(spec, self._devices) for spec in machines])
        source = with_newlines(self.request.submission.removeprefix("\ufeff"))
        submission = Submission(_file_name(self.request.file_name), source)
        # The starter's own names are the author's.
        allowed = names_of(self.exercise.starter).union(self.exercise.allowed_names)
        self._source_notes = review(source, allowed)
        if self.request.notes_count:
            self._suspicions += suspicions_in(self._source_notes, all_count=True)
        recorder = Recorder(self.request.recording_folder, code.checks, self.exercise.cases)
        self._locks = locks_for(machines, self._devices, lambda device: self._emit(DeviceAwaited(device)))
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
        recorder: Recorder,
    ) -> None:
        plans = [plan_for(code.checks, seen_by_checks(spec, self._devices)) for spec in machines]
        if any(plan.opens or plan.baselines for plan in plans):
            self._pool.warm()  # a second worker will be needed, and may take seconds to start
        for number, (spec, plan) in enumerate(zip(machines, plans, strict=True), 1):
            device = in_words(spec, self._devices)
            self._emit(RunStarted(spec.scenario, device, number, len(machines)))
            solution = Solution(self._pool, self.exercise, spec, plan, lambda: self._inputs(code), code)
            inputs = self._inputs(code)
            with worker.awake():
                exercise, given = self.exercise, code.given_source
                observation = conduct(worker, exercise, spec, submission, inputs, given, plan, self._call)
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
            if trouble is None and spec.kind == "virtual" and spec.gpus:
                flops = reference_flops(code.checks, observation.run)
                observation.run = replace(observation.run, reference_flops=flops)
            recorder.add(observation.run, device, submission.file_name, observation.stopped)
            self._suspicions += suspicions_of(observation.run, spec, observation.changed)
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

    def _judge(self, observation: Observation, spec: MachineSpec, code: ExerciseCode, solution: Solution) -> None:
        """The grader's own checks, then the author's, each after those that it needs, and last what has to be timed."""
        checks = code.checks
        trouble, run = observation.trouble, observation.run
        for verdict in own_verdicts(observation, self.exercise):
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
            for verdict in unasked_verdicts(checks, run):
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
        return lambda pairs: self._emit(TimingAdvanced(sentence, pairs, MOST_PAIRS))

    def _add(self, verdict: Verdict) -> None:
        self._verdicts.append(verdict)
        self._emit(VerdictReached(verdict))


def _to_be_earned(checks: Iterable[Check], machines: Sequence[Machine]) -> float:
    """The points of all checks that apply in any scenario, whether the run comes to it or not."""
    return math.fsum(check.points for check in checks if any(check.applies(machine) for machine in machines))


def _summary(spec: MachineSpec, device: str, observation: Observation, exercise: Exercise) -> RunSummary:
    own = next((scenario.gpu for scenario in exercise.scenarios if scenario.name == spec.scenario), "")
    is_another = spec.kind == "virtual" and spec.device != "cpu" and own != spec.gpu
    return RunSummary(
        scenario=spec.scenario,
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
