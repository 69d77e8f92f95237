"""The grading worksheet that Moodle takes at an assignment, Upload grading worksheet: the total of each student.

Moodle knows a row by `Identifier`, and takes no file without `Grade` and `Last modified (grade)`.
"""

from __future__ import annotations

import html
from collections.abc import Iterator
from pathlib import Path

from gpututor.classroom.gradebook.exports.export import Export, ExportRequest, write_text
from gpututor.classroom.gradebook.exports.roster import Person, found_in
from gpututor.classroom.gradebook.model import ExerciseSummary, Gradebook, GradebookWarning, Mark, StudentMarks
from gpututor.classroom.tables import Cell, Kept, Table, csv_text, number, number_of, read_table
from gpututor.errors import UsageError
from gpututor.grading.report_text import count

COLUMNS = (
    *("Identifier", "Full name", "Email address", "Grade", "Maximum Grade", "Last modified (grade)"),
    "Feedback comments",
)


def moodle(gradebook: Gradebook, worksheet: Path | None = None) -> tuple[str, list[GradebookWarning]]:
    """The file's text, and what was left out of it. Who has no final total keeps the grade of the worksheet, or none.

    Raises `UsageError` for a worksheet that Moodle did not write, or that is of another number of points.
    """
    if worksheet is not None:
        return _from_worksheet(gradebook, read_table(worksheet))
    rows: list[list[Cell]] = [[*COLUMNS]]
    left_out = []
    for marks in gradebook.students:
        student = marks.student
        if not student.platform_id:
            left_out.append(student.id)
            continue
        row: list[Cell] = [f"Participant {student.platform_id}", student.name, student.email, grade_of(marks)]
        rows.append([*row, marks.known_of, Kept("-"), feedback(gradebook, marks)])
    advice = "Download the grading worksheet from Moodle, and name it with --moodle-roster."
    return csv_text(rows), [*_left_out(left_out, advice), *_open(gradebook)]


def grade_of(marks: StudentMarks) -> float | None:
    """The total, where it is final."""
    return marks.points if marks.final else None


def feedback(gradebook: Gradebook, marks: StudentMarks) -> str:
    """One line with what each exercise came to; nothing of single checks. Moodle shows it as HTML."""
    return html.escape("; ".join(_parts(gradebook, marks)), quote=False)


def _parts(gradebook: Gradebook, marks: StudentMarks) -> Iterator[str]:
    for exercise, mark in zip(gradebook.exercises, marks.marks, strict=True):
        yield f"{exercise.numbered_title}: {_in_words(exercise, mark)}"


def _in_words(exercise: ExerciseSummary, mark: Mark) -> str:
    if mark.counted is None:
        words = "not handed in" + (f" ({mark.misplaced})" if mark.misplaced else "")
    elif mark.mark is None:
        words = "no mark yet"
    else:
        late = mark.counted.lateness.words
        words = f"{number(mark.mark)} of {number_of(exercise.known_of)} points" + (
            f". {late.rstrip('.')}" if late else ""
        )
    return f"{words} (does not count)" if mark.is_dropped else words


def _from_worksheet(gradebook: Gradebook, table: Table) -> tuple[str, list[GradebookWarning]]:
    if "Identifier" not in table.header or "Grade" not in table.header:
        advice = "Take the file of Download grading worksheet, with Moodle's language set to English."
        raise UsageError(f"{table.path}: this is no grading worksheet of Moodle.", advice)
    identifier, grade = table.column("Identifier"), table.column("Grade")
    optional = {name: table.header.index(name) for name in COLUMNS if name in table.header}
    _check_maximum(gradebook, table, optional.get("Maximum Grade"))
    name, email = optional.get("Full name"), optional.get("Email address")
    people = [
        Person(
            "".join(filter(str.isdecimal, row[identifier])),
            (row[email].strip(),) if email is not None else (),
            row[name] if name is not None else "",
        )
        for row in table.rows
    ]
    found = found_in(people, gradebook)
    rows: list[list[Cell]] = [[*table.header]]
    for position, row in enumerate(table.rows):
        cells: list[Cell] = [Kept(text) for text in row]
        if (marks := found.get(position)) is not None:
            if marks.final:
                cells[grade] = marks.points
            if (comments := optional.get("Feedback comments")) is not None:
                cells[comments] = feedback(gradebook, marks)
        rows.append(cells)
    taken = {marks.student.id for marks in found.values()}
    left_out = [marks.student.id for marks in gradebook.students if marks.student.id not in taken]
    return csv_text(rows, table.delimiter), [
        *_left_out(left_out, f"They are not in {table.path}."),
        *_nothing(table, len(table.rows) - len(found)),
        *_open(gradebook),
    ]


def _check_maximum(gradebook: Gradebook, table: Table, column: int | None) -> None:
    """A total of 37 must not become 37 of 100."""
    if column is None or not gradebook.students or not gradebook.students[0].knows_of:
        return
    of = gradebook.students[0].of
    for text in {row[column].strip() for row in table.rows} - {""}:
        try:
            is_same = abs(float(text.replace(",", ".")) - of) < 0.005
        except ValueError:
            continue
        if not is_same:
            title = f"{table.path}: grades are of {text} there, and totals here of {number(of)}."
            raise UsageError(title, f"Write scale = {text} in the rules, or change the maximum grade in Moodle.")


def _left_out(students: list[str], advice: str) -> Iterator[GradebookWarning]:
    if students:
        names = ", ".join(students[:10]) + (" …" if len(students) > 10 else "")
        yield GradebookWarning(f"Not in the Moodle file: {count(len(students), 'student')} ({names}).", advice)


def _nothing(table: Table, number_of: int) -> Iterator[GradebookWarning]:
    if number_of:
        title = f"Of {table.path}, {count(number_of, 'participant')} handed nothing in."
        yield GradebookWarning(title, "Their rows are as they were.")


def _open(gradebook: Gradebook) -> Iterator[GradebookWarning]:
    if undecided := sum(not marks.final for marks in gradebook.students):
        title = f"No grade in the Moodle file for {count(undecided, 'student')}: some of their marks are open."
        yield GradebookWarning(title, "`gpututor classroom review` lists them.")


def _write(request: ExportRequest) -> list[GradebookWarning]:
    text, notices = moodle(request.gradebook, request.roster)
    write_text(request.path, text)
    return notices


MOODLE = Export(
    option="moodle",
    help="a grading worksheet that Moodle takes",
    place="moodle.csv",
    write=_write,
    roster_help="the worksheet that Moodle gives, to be filled in",
    layout="moodle",
)
