"""Verdicts: what the grader's own checks and the author's say about one observed run, and the one word for all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from gpututor.checks.model import Check, CheckKind, Finding, Machine, Run
from gpututor.course.model import Exercise
from gpututor.errors import TutorError
from gpututor.grading.report import Outcome, Status, Verdict
from gpututor.judge import failures
from gpututor.judge.runner import Observation
from gpututor.text import truncate
from gpututor.trace.formatting import duration

OWN = ("loads", "runs", "prints")
"""The grader's own checks: they are worth no points, and passing them alone is no pass."""
LONGEST = 4000
"""Characters of each text of a verdict: an author's check may show a whole result."""
VALUES_ARE_WRONG = "the values are wrong"
UNPRICED_NS = 50_000_000
"""Processor time of a call without a modelled price, from which on modelled times are not judged …"""
UNPRICED_FOR_EACH_NS = 20_000
"""… and as much more for each event: benchmarks/unpriced.py shows what honest programs need."""
_WORST_FIRST = (
    (Status.FAILED, Outcome.FAILED),
    (Status.TOO_SLOW, Outcome.TOO_SLOW),
    (Status.NEEDS_REVIEW, Outcome.NEEDS_REVIEW),
    (Status.INCONCLUSIVE, Outcome.INCONCLUSIVE),
)


def builtin_verdicts(observation: Observation, exercise: Exercise) -> Iterator[Verdict]:
    """`loads`, then `runs`, as far as it came, then `prints` where it printed too much."""
    trouble, machine = observation.trouble, observation.run.machine
    for stage in ("loads", "runs"):
        words = failures.sentence(stage, exercise)
        if trouble is not None and trouble.stage == stage:
            yield found(stage, words, trouble.finding, machine)
            return
        yield Verdict(stage, words, Status.PASSED, machine.scenario.name)
    if observation.printed_dropped_bytes:
        yield _printed_too_much(observation, exercise.limits.output_kib)


def verdict_of(check: Check, run: Run) -> Verdict:
    """What a check says about a run that came to its end."""
    finding = check.find(run)
    if finding is None and check.timed and run.machine.virtual:
        finding = _not_timed(run)
    figures = check.measured(run) if check.measured is not None else ""
    if finding is not None:
        verdict = found(check.name, check.sentence(run.machine), finding, run.machine, check.why, check.advice)
        return replace(verdict, of=check.points, measured=figures)
    return Verdict(
        check.name,
        check.sentence(run.machine),
        Status.PASSED,
        run.machine.scenario.name,
        points=check.points,
        of=check.points,
        measured=figures,
    )


def _not_timed(run: Run) -> Finding | None:
    """What keeps a modelled time from being judged: much work of the host that is no part of it."""
    for call in run.calls:
        work, elapsed_ns = call.unpriced, call.span.finished - call.span.started
        if work.nanoseconds > max(UNPRICED_NS + UNPRICED_FOR_EACH_NS * len(call.trace), elapsed_ns):
            most = f", most of it before line {work.line}" if work.line is not None else ""
            return Finding(
                "work that the modelled clock can price",
                f"not timed: {duration(work.nanoseconds)} of work on the host that it cannot price{most}"
                f"{run.which(call)}",
                line=work.line,
                why="NumPy, loops over values and child processes take no modelled time.",
                advice="Do that work with torch, on the device.",
                status=Status.INCONCLUSIVE,
            )
    return None


def not_run(check: Check, machine: Machine) -> Verdict:
    """Something that the check depends on broke first."""
    return Verdict(check.name, check.sentence(machine), Status.NOT_RUN, machine.scenario.name, of=check.points)


def with_held_back(judged: Sequence[tuple[Check, Verdict]]) -> Iterator[Verdict]:
    """Yield the verdicts of one scenario in order; hold back what wrong values would earn for their cost.

    A check of values that is inconclusive or needs review holds nothing back: nobody knows yet that it is wrong, and
    the points are not final.
    """
    for check, verdict in judged:
        guards = _HELD_BACK_BY[check.kind]
        statuses = {other.status for guard, other in judged if guard.kind in guards}
        is_open = bool(statuses & {Status.INCONCLUSIVE, Status.NEEDS_REVIEW})
        are_wrong = any(status.is_failure for status in statuses) or (Status.NOT_RUN in statuses and not is_open)
        yield held_back(verdict) if are_wrong and verdict.status is Status.PASSED else verdict


_HELD_BACK_BY: dict[CheckKind, tuple[CheckKind, ...]] = {
    "values": (),
    "structure": ("values",),
    "other": ("values", "structure"),
}


def held_back(verdict: Verdict) -> Verdict:
    """Return a verdict that passed as one that earns nothing, as the values are wrong."""
    return replace(verdict, status=Status.HELD_BACK, points=0.0, why=VALUES_ARE_WRONG)


def outcome_of(verdicts: Sequence[Verdict], suspicions: Iterable[str]) -> Outcome:
    """The one word for runs that came to their ends. Raises `TutorError` when nothing was checked at all."""
    statuses = {verdict.status for verdict in verdicts}
    if any(suspicions):
        statuses.add(Status.NEEDS_REVIEW)
    for status, outcome in _WORST_FIRST:
        if status in statuses:
            return outcome
    if not any(verdict.status is Status.PASSED and verdict.check not in OWN for verdict in verdicts):
        raise TutorError("No check of this exercise applied to any scenario.", "Mend the exercise's checks.py.")
    return Outcome.PASSED


def found(name: str, sentence: str, finding: Finding, machine: Machine, why: str = "", advice: str = "") -> Verdict:
    """What was found wrong, in texts of bounded length: here all of them come by."""
    return Verdict(
        check=name,
        sentence=sentence,
        status=finding.status,
        scenario=machine.scenario.name,
        expected=truncate(finding.expected, LONGEST),
        got=truncate(finding.got, LONGEST),
        line=finding.line,
        why=truncate(why or finding.why, LONGEST),
        advice=truncate(advice or finding.advice, LONGEST),
    )


def _printed_too_much(observation: Observation, limit_kib: int) -> Verdict:
    total = observation.printed_dropped_bytes + len(observation.printed.encode())
    return Verdict(
        "prints",
        f"It prints at most {limit_kib} KiB",
        Status.FAILED,
        observation.run.machine.scenario.name,
        expected=f"at most {limit_kib} KiB of text",
        got=f"{total / 1024:,.0f} KiB; only the first {limit_kib} were kept",
        why="A flood of text hides what a program has to say, and each print of a device tensor is a wait.",
        advice="Remove the print from the loop.",
    )
