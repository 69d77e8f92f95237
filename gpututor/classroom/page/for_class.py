"""The parts of the page about the class as a whole. They are for the instructor: they name hidden checks."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from gpututor.classroom.gradebook.canvas import title_of
from gpututor.classroom.gradebook.cells import number, number_of
from gpututor.classroom.gradebook.model import BINS, CheckCount, ExerciseSummary, Gradebook, Timing
from gpututor.classroom.page.charts import LEGEND, distribution, strip
from gpututor.classroom.page.html import listed, name, section, share_bar, table, text
from gpututor.grading.words import OUTCOME_TITLES, count

MOST_ROWS = 200
"""Of lists that can be as long as the class; the rest is counted."""
MOST_CHECKS = 15


def overview(gradebook: Gradebook) -> str:
    """Figures of the class, and how totals are distributed."""
    class_, students = gradebook.class_, gradebook.students
    totals = [min(marks.points / marks.of, 1.0) for marks in students if marks.final and marks.of]
    figures = [
        ("Students", f"{len(students):,}"),
        ("Files handed in", f"{len(class_.handed_in):,}"),
        ("Exercises", str(len(gradebook.exercises))),
        ("Final totals", f"{sum(marks.final for marks in students)} of {len(students)}"),
    ]
    if totals:
        figures += [("Mean total", _percent(statistics.fmean(totals))), ("Median", _percent(statistics.median(totals)))]
    cells = "".join(f"<div><dt>{text(label)}</dt><dd>{text(value)}</dd></div>" for label, value in figures)
    bins = [0] * BINS
    for share in totals:
        bins[min(int(share * BINS + 1e-9), BINS - 1)] += 1
    chart = f"<figure><figcaption>Final totals</figcaption>{distribution(bins, 'total')}</figure>" if totals else ""
    return section("overview", "The class", f'<div class="overview"><dl class="figures">{cells}</dl>{chart}</div>')


def exercises(gradebook: Gradebook) -> str:
    cards = "\n".join(_card(each, len(gradebook.students)) for each in gradebook.exercises)
    return section("exercises", "Exercises", f'<div class="cards">{cards}</div>' if cards else "")


def _card(each: ExerciseSummary, students: int) -> str:
    facts = [
        f"{each.handed_in} of {students} handed in",
        f"{number_of(each.known_of)} points" + (" (not known yet)" if not each.knows_of else ""),
    ]
    if each.extra:
        facts.append(f"{number(each.extra)} extra")
    if each.mean_share is not None and each.median_share is not None:
        facts += [f"mean {_percent(each.mean_share)}", f"median {_percent(each.median_share)}"]
    if each.weight != 1:
        facts.append(f"weight {number(each.weight)}")
    if each.due is not None:
        facts.append(f"due {each.due:%Y-%m-%d %H:%M %z}")
    if each.is_dropped:
        facts.append("does not count")
    if each.without_mark:
        facts.append(f"{each.without_mark} without a mark")
    outcomes = "".join(f"<li>{text(OUTCOME_TITLES[outcome])} {found}</li>" for outcome, found in each.outcomes)
    checks = table(
        f"Checks of {title_of(each)}",
        ("Check", "Passed", "Failed", "Open", "Not run", "Held back"),
        [
            (_check(check), *map(str, (check.passed, check.failed, check.open, check.not_run, check.held_back)))
            for check in each.checks
        ],
        "numbers",
    )
    more = f"<details><summary>{count(len(each.checks), 'check')}</summary>{checks}</details>" if each.checks else ""
    return (
        f'<article><h3>{text(title_of(each))}</h3><p class="facts">{text(" · ".join(facts))}</p>'
        f'{distribution(each.distribution, "mark")}<ul class="outcomes">{outcomes}</ul>{more}</article>'
    )


def _check(check: CheckCount) -> str:
    tags = [f"{number(check.of)} points"] if check.of not in (0, 1) else []
    tags += (["extra"] if check.is_extra else []) + (["hidden from students"] if check.is_hidden else [])
    return f'{text(check.sentence)} <span class="tag">{text(", ".join([check.check, *tags]))}</span>'


def failed_checks(gradebook: Gradebook) -> str:
    found = gradebook.most_failed
    rows = [
        (
            _check(check),
            text(title_of(exercise)),
            share_bar(check.failed / max(check.judged, 1), f"{check.failed} of {check.judged}"),
        )
        for exercise, check in found[:MOST_CHECKS]
    ]
    more = _more(len(found) - MOST_CHECKS, "check", "Each exercise above lists all of its own.")
    if not rows:
        return ""
    label = "Checks most often failed"
    return section("checks", label, table(label, ("Check", "Exercise", "Failed"), rows), more)


def timings(gradebook: Gradebook) -> str:
    figures = "\n".join(figure for exercise in gradebook.exercises for figure in _strips(exercise))
    return (
        section("timings", "Times against the baseline", LEGEND + f'<div class="cards">{figures}</div>')
        if figures
        else ""
    )


def _strips(exercise: ExerciseSummary) -> Iterator[str]:
    by_check: dict[tuple[str, str], list[Timing]] = {}
    for timing in exercise.timings:
        by_check.setdefault((timing.check, timing.scenario), []).append(timing)
    for (check, scenario), found in by_check.items():
        median = statistics.median(timing.ratio for timing in found)
        facts = (
            f"{check}, {scenario}: {count(len(found), 'time')}, fastest {found[0].ratio:.2g} ×, median {median:.2g} ×"
        )
        yield (
            f'<article><h3>{text(title_of(exercise))}</h3><p class="facts">{text(facts)}</p>{strip(found)}</article>'
        )


def questions(gradebook: Gradebook) -> str:
    """What is to be decided or looked at."""
    titles = {each.exercise: title_of(each) for each in gradebook.exercises}
    rows = [
        (
            f'<a href="#s{place}e{column}">{name(marks.student.id)}</a>',
            text(titles[mark.exercise]),
            f"<b>{text(mark.standing.value)}</b> {text(mark.reason)}",
        )
        for place, marks in enumerate(gradebook.students)
        for column, mark in enumerate(marks.marks)
        if not mark.standing.is_mark
    ]
    parts = []
    if rows:
        parts.append(
            f"<p>{count(len(rows), 'mark')} still to be decided. The reasons are for you, not for students.</p>"
        )
        headers = ("Student", "Exercise", "Why")
        parts.append(table("Marks still to be decided", headers, rows[:MOST_ROWS]))
        parts.append(_more(len(rows) - MOST_ROWS, "mark", "The table of marks shows all."))
    notices = [f"{text(each.title)} {text(each.advice)}" for each in gradebook.notices]
    unmatched = [f"<b>{name(each.source)}</b> {text(each.why)}" for each in gradebook.class_.unmatched]
    parts += _lists("Good to know", notices) + _lists("Files of nobody, or of no exercise", unmatched)
    return section("questions", "Open questions", *parts)


def _lists(title: str, lines: Sequence[str]) -> list[str]:
    if not lines:
        return []
    return [f"<h3>{text(title)}</h3>", listed(lines[:MOST_ROWS]), _more(len(lines) - MOST_ROWS, "line", "")]


def _more(left: int, what: str, where: str) -> str:
    return f"<p>{text(f'{count(left, what)} more. {where}'.strip())}</p>" if left > 0 else ""


def _percent(share: float) -> str:
    return f"{share:.0%}".replace("%", "\u00a0%")
