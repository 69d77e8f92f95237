"""What students are told of a report: nothing of checks that are hidden from them.

The one place that decides on it: the Markdown of `classroom feedback`, Gradescope's output, and the students' parts of
the HTML page are all made of this.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpututor.classroom.rules import Rules
from gpututor.grading.report import Report, Verdict

MORE_CHECKS = "There are more checks than are shown here; they count for the mark."
"""Said of every submission of an exercise that has hidden checks, whatever they found."""


@dataclass(frozen=True)
class ForStudent:
    """What may be shown. All texts are plain text, never markup."""

    verdicts: tuple[Verdict, ...]
    """Of the checks that are not hidden, in the order of the report."""
    note: str
    """A sentence to show beside them; empty where nothing is hidden."""


def for_student(report: Report, rules: Rules, exercise: str) -> ForStudent:
    """`exercise`: its key."""
    shown = tuple(each for each in report.verdicts if not rules.is_hidden(exercise, each.check))
    has_hidden = len(shown) < len(report.verdicts) or bool(rules.of(exercise).hidden)
    return ForStudent(shown, MORE_CHECKS if has_hidden else "")


def verdict_words(verdict: Verdict) -> str:
    """A few lines on one verdict: what must be true, what was found, why it matters, and what to try."""
    lines = [f"{verdict.sentence} ({verdict.scenario}): {verdict.status}"]
    lines += [f"Line {verdict.line}"] if verdict.line is not None else []
    lines += [f"Expected: {verdict.expected}"] if verdict.expected else []
    lines += [f"Got: {verdict.got}"] if verdict.got else []
    if verdict.status.has_details:
        lines += filter(None, (verdict.why, verdict.advice))
    return "\n".join(lines)
