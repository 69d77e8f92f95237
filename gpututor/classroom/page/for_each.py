"""The parts of the page about each student: the table of marks, and reports that tell what students may know."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpututor.classroom.for_students import ForStudent, ShownCheck, for_student, total_for_student
from gpututor.classroom.gradebook.canvas import title_of
from gpututor.classroom.gradebook.cells import number, number_of
from gpututor.classroom.gradebook.model import ExerciseSummary, Gradebook, Mark, Standing, StudentMarks
from gpututor.classroom.gradebook.terminal import UNKNOWN
from gpututor.classroom.page.html import caption, name, section, text
from gpututor.classroom.submitted import SubmittedLines
from gpututor.plain_text import shortened

MOST_BYTES = 8 << 20
"""Of all reports together; further ones only say where to find them."""
LONGEST = 400
"""Characters of what was expected or found."""
_SHADES = 4


def marks_table(gradebook: Gradebook) -> str:
    if not gradebook.students:
        return ""
    head = "".join(
        f'<th scope="col" title="{text(title_of(each))}">{text(each.label or title_of(each))}</th>'
        for each in gradebook.exercises
    )
    rows = "\n".join(_row(place, marks) for place, marks in enumerate(gradebook.students))
    table = (
        '<div class="wide tall" role="region" aria-label="Marks" tabindex="0"><table class="marks numbers">'
        f'{caption("Marks")}<thead><tr><th scope="col">Student</th><th scope="col">Points</th>'
        f'<th scope="col">Of</th>{head}</tr></thead>\n'
        f"<tbody>\n{rows}\n</tbody></table></div>"
    )
    return section("marks", "Marks", _CONTROLS, table, f'<p class="facts">{text(_legend(gradebook))}</p>')


_CONTROLS = (
    '<p class="controls" hidden><label>Student <input type="search" id="find" autocomplete="off"></label> '
    '<label>Show <select id="which"><option value="">all</option><option value="open">without a final total</option>'
    '<option value="final">with a final total</option></select></label> '
    '<output id="found" aria-live="polite"></output></p>'
)


def _row(place: int, marks: StudentMarks) -> str:
    student = marks.student
    called = f' <span class="called">{name(student.name)}</span>' if student.name else ""
    so_far = f'open <span class="called">{number(marks.points)} so far</span>'
    points = number(marks.points) if marks.final else so_far
    cells = "".join(_cell(f"#s{place}e{column}", mark) for column, mark in enumerate(marks.marks))
    state = "final" if marks.final else "open"
    return (
        f'<tr data-state="{state}"><th scope="row"><a href="#s{place}">{name(student.id)}</a>{called}</th>'
        f"<td>{points}</td><td>{number_of(marks.known_of)}</td>{cells}</tr>"
    )


def _cell(target: str, mark: Mark) -> str:
    if mark.standing is Standing.NOT_HANDED_IN:
        return f'<td class="none">{"(–)" if mark.is_dropped else "–"}</td>'
    word = number(mark.mark) if mark.mark is not None else mark.standing.word
    shade = f"q{min(int(mark.share * _SHADES + 1e-9), _SHADES)}" if mark.mark is not None else "open"
    return f'<td class="{shade}"><a href="{target}">{f"({word})" if mark.is_dropped else word}</a></td>'


def _legend(gradebook: Gradebook) -> str:
    marks = [mark for student in gradebook.students for mark in student.marks]
    told = ["– not handed in"] if any(mark.standing is Standing.NOT_HANDED_IN for mark in marks) else []
    told += [
        f"{each.word}: no mark yet" for each in Standing if each.word and any(mark.standing is each for mark in marks)
    ]
    told += ["(2) does not count"] if any(mark.is_dropped for mark in marks) else []
    told += [UNKNOWN] if not all(each.knows_of for each in gradebook.exercises) else []
    return f"The {gradebook.rules.attempts} attempt counts. {'. '.join(told)}{'.' if told else ''}"


def reports(gradebook: Gradebook, lines: SubmittedLines) -> str:
    """A report for each student, closed at first."""
    parts, room = [], MOST_BYTES
    for place, marks in enumerate(gradebook.students):
        report = _report(place, marks, gradebook, lines) if room > 0 else _too_long(place, marks)
        room -= len(report)
        parts.append(report)
    note = "<p>As students may see them: nothing of hidden checks, nothing of what you have to look at.</p>"
    return section("reports", "Reports", note, *parts) if parts else ""


def _report(place: int, marks: StudentMarks, gradebook: Gradebook, lines: SubmittedLines) -> str:
    pairs = zip(gradebook.exercises, marks.marks, strict=True)
    body = "\n".join(
        _exercise(f"s{place}e{column}", exercise, mark, for_student(mark, exercise, gradebook.rules), lines)
        for column, (exercise, mark) in enumerate(pairs)
    )
    return _details(place, marks, body)


def _too_long(place: int, marks: StudentMarks) -> str:
    targets = "".join(f'<span id="s{place}e{column}"></span>' for column in range(len(marks.marks)))
    words = "The page would be too long: <code>gpututor classroom feedback</code> has it."
    return _details(place, marks, f"<p>{words}{targets}</p>")


def _details(place: int, marks: StudentMarks, body: str) -> str:
    student = marks.student
    called = f' <span class="called">{name(student.name)}</span>' if student.name else ""
    state = "final" if marks.final else "open"
    return (
        f'<details class="student" data-state="{state}"><summary><b>{name(student.id)}</b>{called} '
        f'<span class="total">{text(total_for_student(marks))}</span></summary>'
        f'<div id="s{place}">\n{body}\n</div></details>'
    )


def _exercise(id: str, exercise: ExerciseSummary, mark: Mark, told: ForStudent, lines: SubmittedLines) -> str:
    sha256 = mark.counted.handed_in.sha256 if mark.counted is not None else ""
    notes = f"<p>{text(' '.join(told.notes))}</p>" if told.notes else ""
    found = "".join(_check(check, sha256, lines) for check in told.checks if check.findings)
    return (
        f'<article id="{id}"><h3>{text(title_of(exercise))}</h3>'
        f"<p><b>{text(told.outcome)}</b> · {text(told.points)}</p>{notes}{found}"
        f"{''.join(_in_short(told.checks))}</article>"
    )


def _check(check: ShownCheck, sha256: str, lines: SubmittedLines) -> str:
    worth = f" · {number(check.points)} of {number(check.of)}" if check.of else ""
    parts = [f'<div class="finding"><h4><span class="bad">{text(check.word)}</span> {text(check.sentence)}{worth}</h4>']
    for each in check.findings:
        rows = [("With", "; ".join(each.scenarios)), ("Expected", each.expected), ("Got", each.got)]
        told = "".join(f"<dt>{label}</dt><dd>{text(shortened(words, LONGEST))}</dd>" for label, words in rows if words)
        if each.line is not None:
            told += f"<dt>Line {each.line}</dt><dd><code>{text(lines.line(sha256, each.line))}</code></dd>"
        parts.append(f"<dl>{told}</dl>")
    return "".join([*parts, "</div>"])


def _in_short(checks: Sequence[ShownCheck]) -> Iterator[str]:
    """By their names what has no more to say, a line for each word."""
    by_word: dict[str, list[ShownCheck]] = {}
    for check in checks:
        if not check.findings:
            by_word.setdefault(check.word, []).append(check)
    for word, found in by_word.items():
        names = ", ".join(check.check for check in found)
        look = "good" if found[0].is_passed else "open"
        yield f'<p class="short"><span class="{look}">{text(word)}</span>: {text(names)}</p>'
        if figures := [figure for check in found for figure in check.measured]:
            yield f'<p class="short">{text("; ".join(figures))}</p>'
