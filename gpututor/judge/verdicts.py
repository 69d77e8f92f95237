"""Verdicts of the built-in, implicit and author's checks on one observed run, and the outcome of all runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from gpututor.checks.identity import unmodified
from gpututor.checks.model import Check, CheckKind, Finding, Machine, Run
from gpututor.checks.streams import races
from gpututor.course.model import Exercise
from gpututor.errors import TutorError
from gpututor.grading.report import Outcome, Status, Verdict
from gpututor.judge import failures
from gpututor.judge.runner import RunObservation
from gpututor.text import truncate
from gpututor.trace.formatting import duration

BUILTIN_CHECKS = ("loads", "runs", "prints")
"""Checks of the grader. They are worth no points, and do not make a submission pass."""
LONGEST = 4000
"""Characters of each text of a verdict: an author's check may show a whole result."""
UNPRICED_NS = 100_000_000
"""Processor time without a modelled price that a call may take before its modelled time is not judged.

Honest calls take up to 20 ms, and up to 62 ms on a machine whose load is five times its cores. Attacks took 375 ms.
"""
UNPRICED_FOR_EACH_NS = 20_000
"""Further processor time for each event of the call: benchmarks/unpriced.py shows what honest programs need."""
_WORST_FIRST = (
    (Status.FAILED, Outcome.FAILED),
    (Status.TOO_SLOW, Outcome.TOO_SLOW),
    (Status.NEEDS_REVIEW, Outcome.NEEDS_REVIEW),
    (Status.INCONCLUSIVE, Outcome.INCONCLUSIVE),
)


def builtin_verdicts(observation: RunObservation, exercise: Exercise) -> Iterator[Verdict]:
    """Yield the verdicts on `loads` and `runs`, up to the first failure, and on `prints` if it failed."""
    failure, machine = observation.failure, observation.run.machine
    for stage in ("loads", "runs"):
        sentence = failures.stage_sentence(stage, exercise)
        if failure is not None and failure.stage == stage:
            yield failed_verdict(stage, sentence, failure.finding, machine)
            return
        yield Verdict(stage, sentence, Status.PASSED, machine.scenario.name)
    if observation.printed_dropped_bytes:
        yield _too_much_output(observation, exercise.limits.output_kib)


def verdict_of(check: Check, run: Run) -> Verdict:
    finding = check.find(run)
    if finding is None and check.timed and run.machine.virtual:
        finding = _unpriced_finding(run)
    figures = check.measured(run) if check.measured is not None else ""
    sentence, scenario, points = check.sentence(run.machine), run.machine.scenario.name, check.points
    if finding is not None:
        verdict = failed_verdict(check.name, sentence, finding, run.machine, check.why, check.advice)
        return replace(verdict, of=points, measured=figures)
    return Verdict(check.name, sentence, Status.PASSED, scenario, points=points, of=points, measured=figures)


IMPLICIT_CHECKS = (replace(unmodified(), points=0.0), replace(races(), points=0.0))
"""Checks added to every exercise. Shown only on failure; worth no points."""


def implicit_verdicts(checks: Sequence[Check], run: Run) -> Iterator[Verdict]:
    """Yield the failed implicit checks of a finished run. An author's check replaces the implicit check of its name."""
    names = {check.name for check in checks}
    for check in IMPLICIT_CHECKS:
        if check.name in names or not check.applies(run.machine):
            continue
        if (verdict := verdict_of(check, run)).status is not Status.PASSED:
            yield verdict


def _unpriced_finding(run: Run) -> Finding | None:
    """Return a finding if too much of the host's work has no modelled price to judge the time."""
    for call in run.calls:
        work, elapsed_ns = call.unpriced, call.span.finished - call.span.started
        if work.nanoseconds > max(UNPRICED_NS + UNPRICED_FOR_EACH_NS * len(call.trace), elapsed_ns):
            most = f", most of it before line {work.line}" if work.line is not None else ""
            return Finding(
                "work that the modelled clock can price",
                f"not timed: {duration(work.nanoseconds)} of work on the host has no modelled time{most}"
                f"{run.which(call)}",
                line=work.line,
                why="NumPy, loops over values and child processes take no modelled time.",
                advice="Do that work with torch, on the device.",
                status=Status.INCONCLUSIVE,
            )
    return None


def not_run(check: Check, machine: Machine) -> Verdict:
    """Return the verdict of a check whose prerequisite failed."""
    return Verdict(check.name, check.sentence(machine), Status.NOT_RUN, machine.scenario.name, of=check.points)


def with_held_back(judged: Sequence[tuple[Check, Verdict]]) -> Iterator[Verdict]:
    """Yield the verdicts of one scenario in order; hold back points for cost if the values are wrong.

    A check of values that is inconclusive or needs review holds nothing back: the values may still be right. Then the
    points are not final.
    """
    for check, verdict in judged:
        guards = _HELD_BACK_BY[check.kind]
        guarding = [other for guard, other in judged if guard.kind in guards]
        statuses = {other.status for other in guarding}
        is_open = bool(statuses & {Status.INCONCLUSIVE, Status.NEEDS_REVIEW})
        are_wrong = any(status.is_failure for status in statuses) or (Status.NOT_RUN in statuses and not is_open)
        if are_wrong and verdict.status is Status.PASSED:
            verdict = replace(verdict, status=Status.HELD_BACK, points=0.0, why=_held_back_until(guarding))
        yield verdict


def _held_back_until(guarding: Iterable[Verdict]) -> str:
    """Name the checks that must pass first: those that failed, else those that did not run."""
    waited_for = [verdict.sentence for verdict in guarding if verdict.status.is_failure]
    waited_for = waited_for or [verdict.sentence for verdict in guarding if verdict.status is Status.NOT_RUN]
    sentences = [*dict.fromkeys(waited_for)]
    start = f"held back until {'these pass' if len(sentences) > 1 else 'this passes'}: "
    return truncate(start + "; ".join(sentences), LONGEST)


_HELD_BACK_BY: dict[CheckKind, tuple[CheckKind, ...]] = {
    "values": (),
    "structure": ("values",),
    "other": ("values", "structure"),
}


def outcome_of(verdicts: Sequence[Verdict], suspicions: Iterable[str]) -> Outcome:
    """Return the outcome of finished runs. Raises `TutorError` if no check applied."""
    statuses = {verdict.status for verdict in verdicts}
    if any(suspicions):
        statuses.add(Status.NEEDS_REVIEW)
    for status, outcome in _WORST_FIRST:
        if status in statuses:
            return outcome
    if not any(verdict.status is Status.PASSED and verdict.check not in BUILTIN_CHECKS for verdict in verdicts):
        raise TutorError("No check of this exercise applied to any scenario.", "Fix the exercise's checks.py.")
    return Outcome.PASSED


def failed_verdict(
    name: str, sentence: str, finding: Finding, machine: Machine, why: str = "", advice: str = ""
) -> Verdict:
    """Return the verdict for a finding, with texts of bounded length."""
    texts = (finding.expected, finding.got, why or finding.why, advice or finding.advice)
    expected, got, why, advice = (truncate(text, LONGEST) for text in texts)
    return Verdict(name, sentence, finding.status, machine.scenario.name, expected, got, finding.line, why, advice)


def _too_much_output(observation: RunObservation, limit_kib: int) -> Verdict:
    total = observation.printed_dropped_bytes + len(observation.printed.encode())
    return Verdict(
        "prints",
        f"It prints at most {limit_kib} KiB",
        Status.FAILED,
        observation.run.machine.scenario.name,
        expected=f"at most {limit_kib} KiB of text",
        got=f"{total / 1024:,.0f} KiB; only the first {limit_kib} were stored",
        why="Too much output hides what matters, and each print of a device tensor waits for the device.",
        advice="Remove the print from the loop.",
    )
