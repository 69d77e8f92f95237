"""The grading worksheet that Moodle takes at an assignment, Upload grading worksheet: the total of each student.

Moodle identifies a row by `Identifier`, and requires the columns `Grade` and `Last modified (grade)`.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path

from gpututor.classroom.gradebook.exports.export import Export, known_to, left_out, matching_marks, roster_writer
from gpututor.classroom.gradebook.model import ExerciseSummary, Gradebook, GradebookWarning, Mark, StudentMarks
from gpututor.classroom.roster import RosterEntry
from gpututor.classroom.tables import Cell, PlatformCell, PlatformTable, csv_text, number, read_table
from gpututor.errors import UsageError
from gpututor.grading.report_text import count

COLUMNS = (
    *("Identifier", "Full name", "Email address", "Grade", "Maximum Grade", "Last modified (grade)"),
    "Feedback comments",
)


def moodle(gradebook: Gradebook, worksheet: Path | None = None) -> tuple[str, list[GradebookWarning]]:
    """Return the file's text, and warnings.

    Raises `UsageError` for a foreign worksheet, another maximum grade, and totals of different maxima.
    """
    _check_one_maximum(gradebook)
    if worksheet is not None:
        return _from_worksheet(gradebook, read_table(worksheet))
    rows: list[list[Cell]] = [[*COLUMNS]]
    known = known_to("moodle", gradebook)
    for marks in known:
        student, grade = marks.student, marks.points if marks.final else None
        row: list[Cell] = [f"Participant {student.platform_id}", student.name, student.email, grade]
        rows.append([*row, marks.known_of, PlatformCell("-"), feedback_comment(gradebook, marks)])
    advice = "Download the grading worksheet from Moodle, and name it with --moodle-roster."
    warnings = left_out("Moodle", gradebook, {marks.student.id for marks in known}, advice)
    return csv_text(rows), [*warnings, *_open_warning(gradebook)]


def feedback_comment(gradebook: Gradebook, marks: StudentMarks) -> str:
    """Return a line of HTML with the mark of each exercise; nothing of single checks."""
    pairs = zip(gradebook.exercises, marks.marks, strict=True)
    words = (f"{exercise.numbered_title}: {_mark_words(exercise, mark)}" for exercise, mark in pairs)
    return html.escape("; ".join(words), quote=False)


def _mark_words(exercise: ExerciseSummary, mark: Mark) -> str:
    if mark.by_hand is not None:
        words = f"{number(mark.mark)} of {number(exercise.known_of)} points, by hand: {mark.by_hand.why.rstrip('.')}"
    elif mark.counted is None:
        words = "not submitted" + (f" ({mark.misplaced})" if mark.misplaced else "")
    elif mark.mark is None:
        words = "no mark yet"
    else:
        late = mark.counted.lateness.words.rstrip(".")
        words = f"{number(mark.mark)} of {number(exercise.known_of)} points{f'. {late}' if late else ''}"
    return f"{words} (does not count)" if mark.is_dropped else words


def _from_worksheet(gradebook: Gradebook, table: PlatformTable) -> tuple[str, list[GradebookWarning]]:
    identifier, grade = table.column("Identifier"), table.column("Grade")
    if identifier is None or grade is None:
        advice = "Take the file of Download grading worksheet, with Moodle's language set to English."
        raise UsageError(f"{table.path}: this is not a grading worksheet from Moodle.", advice)
    _check_maximum(gradebook, table)
    name, email, comments = map(table.column, ("Full name", "Email address", "Feedback comments"))
    people = [
        RosterEntry(
            "".join(filter(str.isdecimal, row[identifier])),
            (row[email].strip(),) if email is not None else (),
            row[name] if name is not None else "",
        )
        for row in table.rows
    ]
    matches, warnings = matching_marks(people, gradebook, "moodle", table.path)
    rows: list[list[Cell]] = [[*table.header]]
    for position, row in enumerate(table.rows):
        cells: list[Cell] = [PlatformCell(text) for text in row]
        if (marks := matches.get(position)) is not None:
            if marks.final:
                cells[grade] = marks.points
            if comments is not None:
                cells[comments] = _with_comment(row[comments], feedback_comment(gradebook, marks))
        rows.append(cells)
    matched = {marks.student.id for marks in matches.values()}
    warnings += left_out("Moodle", gradebook, matched, f"They are not in {table.path}.")
    if without := len(table.rows) - len(matches):
        title = f"{count(without, 'participant')} in {table.path} without a submission."
        warnings.append(GradebookWarning(title, "Their rows stay unchanged."))
    return csv_text(rows, table.delimiter), [*warnings, *_open_warning(gradebook)]


def _with_comment(text: str, comment: str) -> str:
    """Return a cell's text with the comment in place of an earlier run's, or else after the text."""
    start = comment.partition(":")[0]
    earlier = re.compile(rf"{re.escape(start)}: [^<\n]*")
    if start and earlier.search(text):
        return earlier.sub(lambda _: comment, text, count=1)
    return "<br>".join(filter(None, (text.strip(), comment)))


def _check_one_maximum(gradebook: Gradebook) -> None:
    """Raise `UsageError` for totals of different maxima, because Moodle has one maximum grade for all students."""
    maxima = {marks.known_of for marks in gradebook.students if marks.known_of is not None}
    if len(maxima) > 1:
        title = f"Moodle has one maximum grade, but totals here are of {number(min(maxima))} to {number(max(maxima))}."
        advice = "drop_lowest leaves out exercises with different points. Write scale = 100 in the rules."
        raise UsageError(title, advice)


def _check_maximum(gradebook: Gradebook, table: PlatformTable) -> None:
    """Raise `UsageError` for another maximum grade: a total of 37 must not become 37 of 100."""
    column = table.column("Maximum Grade")
    of = gradebook.students[0].known_of if gradebook.students else None
    if column is None or of is None:
        return
    for text in {row[column].strip() for row in table.rows} - {""}:
        try:
            is_same = abs(float(text.replace(",", ".")) - of) < 0.005
        except ValueError:
            continue  # Moodle's grade is not a number here, such as one of a scale of words
        if not is_same:
            title = f"{table.path}: its maximum grade is {text}, but totals here have {number(of)} points."
            raise UsageError(title, f"Write scale = {text} in the rules, or change the maximum grade in Moodle.")


def _open_warning(gradebook: Gradebook) -> Iterator[GradebookWarning]:
    if undecided := sum(not marks.final for marks in gradebook.students):
        title = f"No grade in the Moodle file for {count(undecided, 'student')}: some of their marks are open."
        yield GradebookWarning(title, "`gpututor classroom review` lists them.")


MOODLE = Export(
    option="moodle",
    help="a grading worksheet that Moodle takes",
    place="moodle.csv",
    write=roster_writer(moodle),
    roster_help="the worksheet that Moodle gives, to be filled in",
    needs_names=True,
    layout="moodle",
)
