"""Sections of the HTML report: the class and its students."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from gpututor.classroom.feedback import (
    ShownCheck,
    StudentView,
    SubmittedLines,
    slip_days_for_student,
    student_view,
    total_for_student,
)
from gpututor.classroom.gradebook import marking
from gpututor.classroom.gradebook.model import (
    CheckCount,
    ExerciseSummary,
    Gradebook,
    Mark,
    MarkStatus,
    StudentMarks,
)
from gpututor.classroom.gradebook.terminal import BY_HAND, UNKNOWN
from gpututor.classroom.html_report.elements import (
    caption,
    distribution,
    name,
    section,
    share_bar,
    table,
    text,
)
from gpututor.classroom.misconceptions import Misconception
from gpututor.classroom.tables import number
from gpututor.grading.report_text import OUTCOME_TITLES, count
from gpututor.text import truncate

MOST_ROWS = 200
"""Rows of lists that may be as long as the class; the rest is counted."""
MOST_CHECKS = 15
MOST_NAMES = 12
"""Students that a misconception names; the rest is counted."""


def overview(gradebook: Gradebook) -> str:
    class_, students = gradebook.class_, gradebook.students
    totals = [min(marks.points / marks.of, 1.0) for marks in students if marks.final and marks.of]
    figures = [
        ("Students", f"{len(students):,}"),
        ("Files submitted", f"{len(class_.submissions):,}"),
        ("Exercises", str(len(gradebook.exercises))),
        ("Final totals", f"{sum(marks.final for marks in students)} of {len(students)}"),
    ]
    if totals:
        figures += [("Mean total", _percent(statistics.fmean(totals))), ("Median", _percent(statistics.median(totals)))]
    cells = "".join(f"<div><dt>{text(label)}</dt><dd>{text(value)}</dd></div>" for label, value in figures)
    sections = table(
        "Sections",
        ("Section", "Students", "Final totals", "Mean total"),
        [
            (text(summary.section), str(summary.students), str(summary.final), _percent(summary.mean_share))
            for summary in gradebook.sections
        ],
        "numbers",
    )
    bars = distribution(marking.distribution(totals), "total")
    chart = f"<figure><figcaption>Final totals</figcaption>{bars}</figure>" if totals else ""
    body = f'<div class="overview"><dl class="figures">{cells}</dl>{chart}</div>'
    return section("overview", "The class", body, sections if gradebook.sections else "")


def exercises(gradebook: Gradebook) -> str:
    cards = "\n".join(_card(summary, len(gradebook.students)) for summary in gradebook.exercises)
    return section("exercises", "Exercises", f'<div class="cards">{cards}</div>' if cards else "")


def _card(summary: ExerciseSummary, students: int) -> str:
    facts = [
        f"{summary.handed_in} of {students} submitted",
        f"{number(summary.known_of)} points" + (" (not known yet)" if summary.known_of is None else ""),
    ]
    if summary.extra:
        facts.append(f"{number(summary.extra)} extra")
    if summary.mean_share is not None and summary.median_share is not None:
        facts += [f"mean {_percent(summary.mean_share)}", f"median {_percent(summary.median_share)}"]
    if summary.weight != 1:
        facts.append(f"weight {number(summary.weight)}")
    if summary.due is not None:
        facts.append(f"due {summary.due:%Y-%m-%d %H:%M %z}")
    if summary.is_dropped:
        facts.append("does not count")
    if summary.without_mark:
        facts.append(f"{summary.without_mark} without a mark")
    outcomes = "".join(f"<li>{text(OUTCOME_TITLES[outcome])} {amount}</li>" for outcome, amount in summary.outcomes)
    checks = table(
        f"Checks of {summary.numbered_title}",
        ("Check", "Passed", "Failed", "Open", "Not run", "Held back"),
        [
            (_check(check), *map(str, (check.passed, check.failed, check.open, check.not_run, check.held_back)))
            for check in summary.checks
        ],
        "numbers",
    )
    more = (
        f"<details><summary>{count(len(summary.checks), 'check')}</summary>{checks}</details>" if summary.checks else ""
    )
    return (
        f'<article><h3>{text(summary.numbered_title)}</h3><p class="facts">{text(" · ".join(facts))}</p>'
        f'{distribution(summary.distribution, "mark")}<ul class="outcomes">{outcomes}</ul>{more}</article>'
    )


def _check(check: CheckCount) -> str:
    tags = [f"{number(check.of)} points"] if check.of not in (0, 1) else []
    tags += (["extra"] if check.is_extra else []) + (["hidden from students"] if check.is_hidden else [])
    return f'{text(check.sentence)} <span class="tag">{text(", ".join([check.check, *tags]))}</span>'


def failed_checks(gradebook: Gradebook) -> str:
    checks = [(exercise, check) for exercise in gradebook.exercises for check in exercise.checks if check.failed]
    checks.sort(key=lambda pair: -pair[1].failed)
    rows = [
        (
            _check(check),
            text(exercise.numbered_title),
            share_bar(check.failed / max(check.judged, 1), f"{check.failed} of {check.judged}"),
        )
        for exercise, check in checks[:MOST_CHECKS]
    ]
    more = _more(len(checks) - MOST_CHECKS, "check", "Each exercise above lists all of its own.")
    label = "Checks most often failed"
    return section("checks", label, table(label, ("Check", "Exercise", "Failed"), rows), more) if rows else ""


def misconceptions(gradebook: Gradebook, compared: Sequence[Misconception]) -> str:
    """List how many failures look like a wrong solution of the course, and whose."""
    columns = {summary.exercise: (column, summary) for column, summary in enumerate(gradebook.exercises)}
    places = {marks.student.id: place for place, marks in enumerate(gradebook.students)}
    rows = []
    for misconception in compared:
        column, exercise = columns[misconception.exercise]
        names = [f'<a href="#s{places[id]}e{column}">{name(id)}</a>' for id in misconception.students[:MOST_NAMES]]
        names += [f"{left} more"] if (left := len(misconception.students) - MOST_NAMES) > 0 else []
        share = share_bar(
            len(misconception.students) / max(exercise.handed_in, 1),
            f"{len(misconception.students)} of {exercise.handed_in}",
        )
        rows.append((text(misconception.words), text(exercise.numbered_title), share, ", ".join(names)))
    note = "<p>Failures that look like a wrong solution of the course. The code may differ: look at it.</p>"
    parts = (note, table("Misconceptions", ("Like", "Exercise", "Students", "Who"), rows)) if rows else ()
    return section("misconceptions", "Misconceptions", *parts)


def questions(gradebook: Gradebook) -> str:
    """List the open marks, warnings, and unmatched files."""
    titles = {summary.exercise: summary.numbered_title for summary in gradebook.exercises}
    rows = [
        (
            f'<a href="#s{place}e{column}">{name(marks.student.id)}</a>',
            text(titles[mark.exercise]),
            f"<b>{text(mark.status.value)}</b> {text(mark.reason)}",
        )
        for place, marks in enumerate(gradebook.students)
        for column, mark in enumerate(marks.marks)
        if not mark.status.is_mark
    ]
    parts = []
    if rows:
        parts.append(
            f"<p>{count(len(rows), 'mark')} still to be decided. The reasons are for you, not for students.</p>"
        )
        headers = ("Student", "Exercise", "Why")
        parts.append(table("Marks still to be decided", headers, rows[:MOST_ROWS]))
        parts.append(_more(len(rows) - MOST_ROWS, "mark", "The table of marks shows all."))
    notices = [f"{text(warning.title)} {text(warning.advice)}" for warning in gradebook.notices]
    unmatched = [f"<b>{name(file.source)}</b> {text(file.why)}" for file in gradebook.class_.unmatched]
    parts += _lists("Warnings", notices) + _lists("Files without a student or an exercise", unmatched)
    return section("questions", "Open questions", *parts)


def _lists(title: str, lines: Sequence[str]) -> list[str]:
    if not lines:
        return []
    items = "".join(f"<li>{line}</li>" for line in lines[:MOST_ROWS])
    return [f"<h3>{text(title)}</h3>", f"<ul>{items}</ul>", _more(len(lines) - MOST_ROWS, "line", "")]


def _more(left: int, what: str, where: str) -> str:
    return f"<p>{text(f'{count(left, what)} more. {where}'.strip())}</p>" if left > 0 else ""


def _percent(share: float | None) -> str:
    return f"{share:.0%}".replace("%", "\u00a0%") if share is not None else "–"


MOST_BYTES = 8 << 20
"""Bytes of all students' reports; further reports only name the command that writes them."""
LONGEST = 400
"""Characters of an expected or actual value."""
_SHADES = 4


def marks_table(gradebook: Gradebook) -> str:
    if not gradebook.students:
        return ""
    head = "".join(
        f'<th scope="col" title="{text(summary.numbered_title)}">{text(summary.label or summary.numbered_title)}</th>'
        for summary in gradebook.exercises
    )
    budget = gradebook.rules.slip_days
    head = f'<th scope="col">Slip days of {budget}</th>{head}' if budget else head
    rows = "\n".join(_row(place, marks, has_slip_days=budget > 0) for place, marks in enumerate(gradebook.students))
    table = (
        '<div class="wide tall" role="region" aria-label="Marks" tabindex="0"><table class="marks numbers">'
        f'{caption("Marks")}<thead><tr><th scope="col">Student</th><th scope="col">Points</th>'
        f'<th scope="col">Of</th>{head}</tr></thead>\n'
        f"<tbody>\n{rows}\n</tbody></table></div>"
    )
    facts = f'<p class="facts">{text(_legend(gradebook))}</p>'
    return section("marks", "Marks", _CONTROLS, table, facts, *_by_hand(gradebook))


def _by_hand(gradebook: Gradebook) -> Iterator[str]:
    """List the marks by hand with the computed ones, authors, dates and reasons."""
    rows = []
    for student, exercise, mark in gradebook.by_hand:
        assert mark.by_hand is not None
        names = (name(student.student.called), text(exercise.numbered_title))
        entry = mark.by_hand
        rows.append((*names, number(mark.points), *map(text, (mark.computed_word, entry.by, entry.day, entry.why))))
    if rows:
        yield "<h3>Marks by hand</h3>"
        yield table("Marks by hand", _BY_HAND_HEADERS, rows)


_BY_HAND_HEADERS = ("Student", "Exercise", "Mark", "Computed", "By", "On", "Reason")


_CONTROLS = (
    '<p class="controls" hidden><label>Student <input type="search" id="find" autocomplete="off"></label> '
    '<label>Show <select id="which"><option value="">all</option><option value="open">without a final total</option>'
    '<option value="final">with a final total</option></select></label> '
    '<output id="found" aria-live="polite"></output></p>'
)


def _row(place: int, marks: StudentMarks, *, has_slip_days: bool) -> str:
    so_far = f'open <span class="called">{number(marks.points)} so far</span>'
    points = number(marks.points) if marks.final else so_far
    cells = "".join(_cell(f"#s{place}e{column}", mark) for column, mark in enumerate(marks.marks))
    slip_days = f"<td>{marks.slip_days}</td>" if has_slip_days else ""
    state = "final" if marks.final else "open"
    return (
        f'<tr data-state="{state}"><th scope="row"><a href="#s{place}">{name(marks.student.id)}</a>'
        f"{_called(marks)}</th>"
        f"<td>{points}</td><td>{number(marks.known_of)}</td>{slip_days}{cells}</tr>"
    )


def _called(marks: StudentMarks) -> str:
    return f' <span class="called">{name(marks.student.name)}</span>' if marks.student.name else ""


def _cell(target: str, mark: Mark) -> str:
    if mark.status is MarkStatus.NOT_HANDED_IN:
        return f'<td class="none">{"(–)" if mark.is_dropped else "–"}</td>'
    word = number(mark.mark) if mark.mark is not None else mark.status.word
    word += BY_HAND if mark.by_hand is not None else ""
    shade = f"q{min(int(mark.share * _SHADES + 1e-9), _SHADES)}" if mark.mark is not None else "open"
    return f'<td class="{shade}"><a href="{target}">{f"({word})" if mark.is_dropped else word}</a></td>'


def _legend(gradebook: Gradebook) -> str:
    marks = [mark for student in gradebook.students for mark in student.marks]
    statuses = {mark.status for mark in marks}
    words = ["– not submitted"] if MarkStatus.NOT_HANDED_IN in statuses else []
    words += [f"{status.word}: no mark yet" for status in MarkStatus if status.word and status in statuses]
    words += [f"{BY_HAND} by hand"] if gradebook.by_hand else []
    words += ["(2) does not count"] if any(mark.is_dropped for mark in marks) else []
    words += [UNKNOWN] if any(exercise.known_of is None for exercise in gradebook.exercises) else []
    return f"{gradebook.rules.counting_words} {'. '.join(words)}{'.' if words else ''}"


def reports(gradebook: Gradebook, lines: SubmittedLines) -> str:
    """Return a closed report for each student."""
    parts, space = [], MOST_BYTES
    for place, marks in enumerate(gradebook.students):
        report = _report(place, marks, gradebook, lines) if space > 0 else _too_long(place, marks)
        space -= len(report)
        parts.append(report)
    note = "<p>These reports are as students may see them: without hidden checks, and without your open questions.</p>"
    return section("reports", "Reports", note, *parts) if parts else ""


def _report(place: int, marks: StudentMarks, gradebook: Gradebook, lines: SubmittedLines) -> str:
    pairs = zip(gradebook.exercises, marks.marks, strict=True)
    body = "\n".join(
        _exercise(f"s{place}e{column}", exercise, mark, student_view(mark, exercise, gradebook.rules), lines)
        for column, (exercise, mark) in enumerate(pairs)
    )
    slip_days = slip_days_for_student(gradebook, marks)
    return _details(place, marks, f"<p>{text(slip_days)}</p>{body}" if slip_days else body)


def _too_long(place: int, marks: StudentMarks) -> str:
    targets = "".join(f'<span id="s{place}e{column}"></span>' for column in range(len(marks.marks)))
    words = "The page would be too long: <code>gpututor classroom feedback</code> has it."
    return _details(place, marks, f"<p>{words}{targets}</p>")


def _details(place: int, marks: StudentMarks, body: str) -> str:
    state = "final" if marks.final else "open"
    return (
        f'<details class="student" data-state="{state}"><summary><b>{name(marks.student.id)}</b>{_called(marks)} '
        f'<span class="total">{text(total_for_student(marks))}</span></summary>'
        f'<div id="s{place}">\n{body}\n</div></details>'
    )


def _exercise(id: str, exercise: ExerciseSummary, mark: Mark, view: StudentView, lines: SubmittedLines) -> str:
    sha256 = mark.counted.submission.sha256 if mark.counted is not None else ""
    notes = f"<p>{text(' '.join(view.notes))}</p>" if view.notes else ""
    findings = "".join(_check_of_student(check, sha256, lines) for check in view.checks if check.findings)
    return (
        f'<article id="{id}"><h3>{text(exercise.numbered_title)}</h3>'
        f"<p><b>{text(view.outcome)}</b> · {text(view.points)}</p>{notes}{findings}"
        f"{''.join(_other_checks(view.checks))}</article>"
    )


def _check_of_student(check: ShownCheck, sha256: str, lines: SubmittedLines) -> str:
    worth = f" · {number(check.points)} of {number(check.of)}" if check.of else ""
    parts = [f'<div class="finding"><h4><span class="bad">{text(check.word)}</span> {text(check.sentence)}{worth}</h4>']
    for finding in check.findings:
        rows = [("With", "; ".join(finding.scenarios)), ("Expected", finding.expected), ("Got", finding.got)]
        body = "".join(f"<dt>{label}</dt><dd>{text(truncate(words, LONGEST))}</dd>" for label, words in rows if words)
        if finding.line is not None:
            place = lines.place(sha256, finding.line)
            body += f"<dt>Line {place}</dt><dd><code>{text(lines.line(sha256, finding.line))}</code></dd>"
        parts.append(f"<dl>{body}</dl>")
    return "".join([*parts, "</div>"])


def _other_checks(checks: Sequence[ShownCheck]) -> Iterator[str]:
    by_word: dict[str, list[ShownCheck]] = {}
    for check in checks:
        if not check.findings:
            by_word.setdefault(check.word, []).append(check)
    for word, same_word in by_word.items():
        names = ", ".join(check.check for check in same_word)
        look = "good" if same_word[0].is_passed else "open"
        yield f'<p class="short"><span class="{look}">{text(word)}</span>: {text(names)}</p>'
        if figures := [figure for check in same_word for figure in check.measured]:
            yield f'<p class="short">{text("; ".join(figures))}</p>'
