"""The exercises of a class: how each went, and which checks failed most."""

from __future__ import annotations

from collections.abc import Iterator

from textual.content import Content
from textual.widgets.option_list import Option

from gpututor.app.classroom.rows import ClassTable, title_of
from gpututor.classroom.gradebook.model import ExerciseSummary
from gpututor.grading.report import Outcome
from gpututor.grading.words import OUTCOME_TITLES, count
from gpututor.plain_text import shortened, visible

_TITLE = 28
"""With it, a line for thousands of students fits into 80 columns."""


def exercise_rows(table: ClassTable) -> Iterator[Option]:
    """A line for each."""
    students = len(table.rows)
    for each in table.gradebook.exercises:
        title = f"{shortened(title_of(each), _TITLE):<{_TITLE}}"
        passed = sum(number for outcome, number in each.outcomes if outcome is Outcome.PASSED)
        mean = f"mean {each.mean_share:4.0%}" if each.mean_share is not None else ""
        open_ = f"○ {each.without_mark} no mark" if each.without_mark else ""
        words = f"{title} {each.handed_in:>4}/{students} in  ✓ {passed:>4}  {mean:<9}  {open_}"
        yield Option(Content(words.rstrip()))


def about_exercise(each: ExerciseSummary) -> str:
    """How it went, as plain text."""
    lines = [title_of(each) + (" (left out of every total)" if each.is_dropped else "")]
    lines += [f"{number:>6}  {OUTCOME_TITLES[outcome]}" for outcome, number in each.outcomes]
    waiting = each.handed_in - sum(number for _, number in each.outcomes)
    lines += [f"{waiting:>6}  … Not graded yet"] if waiting > 0 else []
    failed = [check for check in each.checks if check.failed]
    if failed:
        lines += ["", "Checks that failed most"]
        for check in failed:
            told = f"{check.failed} of {count(check.judged, 'student')}"
            hidden = ", hidden from students" if check.is_hidden else ""
            lines.append(f"{check.failed:>6}  {check.check}: {check.sentence} ({told}{hidden})")
    return visible("\n".join(lines))
