"""Reports for tests of their words and their JSON, and Hypothesis strategies for any report that can be built."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from gpututor.grading.report import Environment, Outcome, Report, RunSummary, SourceNote, Status, Verdict

TEXTS = st.text(st.characters(exclude_categories=()), max_size=12)
"""Any text, even with control characters and halves of surrogate pairs."""
FLOATS = st.floats(0, 1e9)


@st.composite
def verdicts(draw: st.DrawFn, statuses: tuple[Status, ...] = tuple(Status)) -> Verdict:
    status = draw(st.sampled_from(statuses))
    of = draw(st.sampled_from([0.0, 1.0, 0.1]) | FLOATS)
    return Verdict(
        draw(st.sampled_from(["loads", "parity", "placement"]) | TEXTS),
        *(draw(TEXTS), status),
        *draw(st.tuples(TEXTS, TEXTS, TEXTS)),
        draw(st.none() | st.integers(1, 10**6)),
        *draw(st.tuples(TEXTS, TEXTS)),
        points=of if status is Status.PASSED else 0.0,
        of=of,
        measured=draw(TEXTS),
    )


def runs() -> st.SearchStrategy[RunSummary]:
    return st.builds(
        RunSummary,
        *(TEXTS, TEXTS, st.booleans(), TEXTS, st.integers(0), TEXTS),
        *(st.integers(0), st.integers(0), st.integers(0)),
        times=st.sampled_from(["modelled", "measured", ""]),
        placement=st.sampled_from(["traced", "corroborated", "self-reported", ""]),
    )


def environments() -> st.SearchStrategy[Environment]:
    workers = st.sampled_from(["spare", "fork server", ""])
    return st.builds(Environment, *(TEXTS,) * 5, st.integers(0, 2**32), driver=TEXTS, workers=workers)


@st.composite
def reports(draw: st.DrawFn) -> Report:
    outcome = draw(st.sampled_from(Outcome))
    passed = outcome is Outcome.PASSED
    return Report(
        exercise=draw(TEXTS),
        outcome=outcome,
        verdicts=tuple(draw(st.lists(verdicts((Status.PASSED,)) if passed else verdicts(), max_size=5))),
        runs=tuple(draw(st.lists(runs(), max_size=2))),
        environment=draw(environments()),
        submission_sha256=draw(TEXTS),
        started_at=draw(TEXTS),
        elapsed_s=draw(FLOATS),
        waited_s=draw(FLOATS),
        reason=draw(TEXTS),
        source_notes=tuple(draw(st.lists(st.builds(SourceNote, st.integers(1), TEXTS, TEXTS), max_size=2))),
        suspicions=() if passed else tuple(draw(st.lists(TEXTS, max_size=2))),
        of=0.0 if passed else draw(FLOATS),
    )


ENVIRONMENT = Environment("0.1.0", "2.13.0", "3.11.7", "linux x86_64", "process", 7)


def said(check: str, status: Status = Status.PASSED, of: float = 1.0, scenario: str = "one GPU") -> Verdict:
    points = of if status is Status.PASSED else 0.0
    return Verdict(check, f"{check} holds", status, scenario, points=points, of=of)


def report(outcome: Outcome, *said: Verdict, suspicions: tuple[str, ...] = (), of: float = 0.0) -> Report:
    return Report(
        *("lesson/exercise", outcome, said, (), ENVIRONMENT, "00", "2026-01-01T00:00:00+00:00", 0.5),
        suspicions=suspicions,
        of=of,
    )


def of_json(value: Report) -> Any:
    return json.loads(json.dumps(value.to_json()))
