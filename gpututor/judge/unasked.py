"""Checks that every exercise has without asking: they are shown only when they fail, and are worth no points."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from gpututor.checks.core import Check, Run
from gpututor.checks.unmodified import unmodified
from gpututor.grading.report import Status, Verdict
from gpututor.judge.verdicts import verdict_of

UNASKED = (replace(unmodified(), points=0.0),)


def unasked_verdicts(checks: Sequence[Check], run: Run) -> Iterator[Verdict]:
    """What they found wrong with a run that came to its end; an author's check of the same name replaces one."""
    named = {check.name for check in checks}
    for check in UNASKED:
        if check.name not in named:
            verdict = verdict_of(check, run)
            if verdict.status is not Status.PASSED:
                yield verdict
