"""Reports for tests of their words and their JSON."""

from __future__ import annotations

import json
from typing import Any

from gpututor.grading.report import Environment, Outcome, Report, Status, Verdict

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
