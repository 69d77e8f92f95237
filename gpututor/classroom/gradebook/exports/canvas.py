"""The file that Canvas takes under Grades, Import: a column for each exercise.

Canvas knows a student by `ID`, and an assignment by its title with its number behind, `One big copy (4711)`. With the
file that Canvas exports, both are its own; without it, students are known by the numbers of Canvas's download, and
Canvas asks for which assignment a column is.
"""

from __future__ import annotations

import re
from pathlib import Path

from gpututor.classroom.gradebook.exports.export import Export, ExportRequest, write_text
from gpututor.classroom.gradebook.exports.roster import Person, found_in
from gpututor.classroom.gradebook.model import ExerciseSummary, Gradebook, GradebookWarning, Mark
from gpututor.classroom.tables import Cell, Kept, Table, csv_text, number, read_table
from gpututor.errors import UsageError
from gpututor.grading.report_text import count

COLUMNS = ("Student", "ID", "SIS User ID", "SIS Login ID", "Section")
POINTS_POSSIBLE = "    Points Possible"
"""As Canvas writes it."""
_NAMES = (("Student",), ("LastName", "FirstName"))
"""How a roster begins, as the course is set."""
_ASSIGNMENT_ID = re.compile(r"\s*\(\d+\)$")


def canvas(gradebook: Gradebook, roster: Path | None = None) -> tuple[str, list[GradebookWarning]]:
    """The file's text, and what was left out of it. A mark that is open stays as the roster has it, or empty.

    Raises `UsageError` for a roster that Canvas did not export.
    """
    if roster is not None:
        return _from_roster(gradebook, read_table(roster))
    known = [marks for marks in gradebook.students if marks.student.platform_id]
    rows: list[list[Cell]] = [[*COLUMNS, *(each.numbered_title for each in gradebook.exercises)]]
    rows.append([POINTS_POSSIBLE, *[None] * (len(COLUMNS) - 1), *(each.known_of for each in gradebook.exercises)])
    for marks in known:
        student = marks.student
        section = [student.name or student.id, student.platform_id, None, None, None]
        rows.append([*section, *(mark.mark for mark in marks.marks)])
    left_out = [marks.student.id for marks in gradebook.students if not marks.student.platform_id]
    return csv_text(rows), _left_out(left_out, "Export the roster from Canvas, and name it with --canvas-roster.")


def _from_roster(gradebook: Gradebook, table: Table) -> tuple[str, list[GradebookWarning]]:
    names = next((names for names in _NAMES if table.header[: len(names) + 1] == (*names, "ID")), None)
    if names is None or "Section" not in table.header:
        advice = "Take the file that Canvas makes under Grades, Export."
        raise UsageError(f"{table.path}: this is no export of a Canvas gradebook.", advice)
    about_people = table.column("Section") + 1
    number_column = table.column("ID")
    logins = [table.header.index(each) for each in ("SIS User ID", "SIS Login ID") if each in table.header]
    people, possible = [], tuple[str, ...]()
    for row in table.rows:
        if row[number_column].strip():
            people.append(row)
        elif "Points Possible" in row[0]:
            possible = row
    columns = {each.exercise: _column_of(each, table) for each in gradebook.exercises}
    notices = _about_points(gradebook, columns, possible)
    header: list[Cell] = [*table.header[:about_people]]
    points: list[Cell] = [POINTS_POSSIBLE, *[None] * (about_people - 1)]
    for each in gradebook.exercises:
        column = columns[each.exercise]
        header.append(table.header[column] if column is not None else each.numbered_title)
        points.append(Kept(possible[column]) if column is not None and possible else each.known_of)
    persons = [
        Person(row[number_column].strip(), tuple(row[at].strip() for at in logins), " ".join(row[:number_column]))
        for row in people
    ]
    found = found_in(persons, gradebook)
    rows: list[list[Cell]] = [header, points]
    for position in sorted(found):
        row = people[position]
        cells = [_cell(mark, row, columns[mark.exercise]) for mark in found[position].marks]
        rows.append([*map(Kept, row[:about_people]), *cells])
    taken = {marks.student.id for marks in found.values()}
    left_out = [marks.student.id for marks in gradebook.students if marks.student.id not in taken]
    notices += _left_out(left_out, f"They are not in {table.path}.")
    if without := len(people) - len(found):
        title = f"Of {table.path}, {count(without, 'student')} handed nothing in: not in the Canvas file."
        notices.append(GradebookWarning(title, "Canvas leaves their marks as they are."))
    return csv_text(rows, table.delimiter if table.delimiter in ",;" else ","), notices


def _cell(mark: Mark, row: tuple[str, ...], column: int | None) -> Cell:
    if mark.mark is not None:
        return mark.mark
    return Kept(row[column]) if column is not None else None  # an empty cell would take away what is there


def _column_of(exercise: ExerciseSummary, table: Table) -> int | None:
    """The assignment that has the exercise's title, with or without its number, or its key."""
    wanted = {exercise.numbered_title.casefold(), exercise.title.casefold(), exercise.exercise.casefold()}
    wanted.add(exercise.exercise.rpartition("/")[2].casefold())
    for position, header in enumerate(table.header):
        if position > table.column("Section") and _ASSIGNMENT_ID.sub("", header).casefold() in wanted:
            return position
    return None


def _about_points(
    gradebook: Gradebook, columns: dict[str, int | None], possible: tuple[str, ...]
) -> list[GradebookWarning]:
    notices = []
    for each in gradebook.exercises:
        column = columns[each.exercise]
        if column is None:
            title = f"Canvas has no assignment {each.numbered_title!r} yet: it asks what to do with the column."
            notices.append(GradebookWarning(title, "Give an assignment this title before the roster is exported."))
        elif (
            each.knows_of
            and possible
            and possible[column].replace(",", ".").strip() not in ("", number(each.of), f"{each.of:.2f}")
        ):
            theirs = f"Canvas has {possible[column]} points for {each.numbered_title!r}"
            notices.append(
                GradebookWarning(
                    f"{theirs}; marks here are of {number(each.of)}.", "Change the points in Canvas, or in the rules."
                )
            )
    return notices


def _left_out(students: list[str], advice: str) -> list[GradebookWarning]:
    if not students:
        return []
    names = ", ".join(students[:10]) + (" …" if len(students) > 10 else "")
    return [GradebookWarning(f"Not in the Canvas file: {count(len(students), 'student')} ({names}).", advice)]


def _write(request: ExportRequest) -> list[GradebookWarning]:
    text, notices = canvas(request.gradebook, request.roster)
    write_text(request.path, text)
    return notices


CANVAS = Export(
    option="canvas",
    help="a file that Canvas imports under Grades",
    place="canvas.csv",
    write=_write,
    roster_help="what Canvas exports there: it tells who is who, and which column is what",
    layout="canvas",
)
