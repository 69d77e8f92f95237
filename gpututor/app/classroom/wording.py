"""What the instructor's screens say, as plain text."""

from __future__ import annotations

from gpututor.app.classroom.class_table import Cell, ClassTable, Row, mark_words, title_of
from gpututor.app.widgets.output import Section
from gpututor.classroom.gradebook.model import Attempt, ExerciseSummary, Mark, MarkStatus
from gpututor.classroom.review import Kind
from gpututor.grading.report_text import OUTCOME_TITLES, count, outcome_line


def cell_words(row: Row, exercise: ExerciseSummary, cell: Cell, table: ClassTable) -> str:
    """A cell in full: who, what, what became of it, and why somebody should look at it."""
    mark = cell.mark
    first = f"{row.name} · {title_of(exercise)}"
    parts = [standing_words(mark), *filter(None, [mark_words(mark)])]
    parts += ["left out of the total"] if mark.is_dropped else []
    parts += [row.so_far] if row.so_far else []
    kinds = dict.fromkeys(
        item.kind.heading for attempt in mark.attempts for item in table.items.get(attempt.handed_in, ())
    )
    told = [f"! {'; '.join(kinds)}."] if kinds else []
    return "\n".join([first, " · ".join(parts), " ".join([*told, *filter(None, [mark.reason])])])


def standing_words(mark: Mark) -> str:
    """`✗ Failed: 1 of 4 checks passed`, or why there is no result."""
    if mark.counted is None:
        return "– Not handed in"
    return attempt_words(mark.counted)


def attempt_words(attempt: Attempt) -> str:
    if attempt.report is not None:
        return outcome_line(attempt.report)
    if attempt.standing is MarkStatus.NOT_GRADED or attempt.outcome is None:
        return "… Not graded yet"
    return OUTCOME_TITLES[attempt.outcome]


def review_sections(table: ClassTable) -> list[Section]:
    """The review list, and what else the instructor should know."""
    review = table.review
    assert review is not None
    found = []
    for kind in Kind:
        items = [item for item in review.items if item.kind is kind]
        if not items:
            continue
        texts = []
        for item in items:
            named = [f"{review.called(one.student)} (attempt {one.attempt})" for one in item.files]
            files = ", ".join(named or [*map(review.called, item.students), item.source])
            texts.append(f"{f'{item.label} ' if item.label else ''}{files}\n  {item.why}")
        found.append(Section(f"{kind.heading}: {count(len(items), 'item')}", "\n".join(texts)))
    if review.notices:
        found.append(Section("Notices", "\n".join(f"{each.title} {each.advice}".strip() for each in review.notices)))
    return found or [Section("✓ Nothing is to be looked at", "")]
