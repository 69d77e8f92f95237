"""The file that Canvas takes under Grades, Import: a column for each exercise.

Canvas identifies a student by `ID`, and an assignment by its title and number, `One big copy (4711)`. The file that
Canvas exports has both. Without it, students have the numbers of Canvas's download, and Canvas asks for the assignment
of each column.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from gpututor.classroom.gradebook.exports.export import (
    Export,
    known_to,
    left_out,
    matching_marks,
    roster_writer,
    some,
)
from gpututor.classroom.gradebook.model import ExerciseSummary, Gradebook, GradebookWarning
from gpututor.classroom.roster import RosterEntry
from gpututor.classroom.tables import Cell, PlatformCell, PlatformTable, csv_text, number, read_table
from gpututor.errors import UsageError
from gpututor.grading.report_text import count

COLUMNS = ("Student", "ID", "SIS User ID", "SIS Login ID", "Section")
POINTS_POSSIBLE = "    Points Possible"
"""First cell of Canvas's second row."""
EXCUSED = "EX"
"""Canvas's mark for a student who need not submit an assignment."""
_NAMES = (("Student",), ("LastName", "FirstName"))
"""First columns of a roster, by the course's settings."""
_ASSIGNMENT_ID = re.compile(r"\s*\(\d+\)$")


def canvas(gradebook: Gradebook, roster: Path | None = None) -> tuple[str, list[GradebookWarning]]:
    """Return the file's text, and warnings. Open marks stay as in the roster. Raises `UsageError` for other files."""
    by_hand = _by_hand(gradebook)
    if roster is not None:
        text, warnings = _from_roster(gradebook, read_table(roster))
        return text, [*warnings, *by_hand]
    rows: list[list[Cell]] = [[*COLUMNS, *(exercise.numbered_title for exercise in gradebook.exercises)]]
    possible = (exercise.known_of for exercise in gradebook.exercises)
    rows.append([POINTS_POSSIBLE, *[None] * (len(COLUMNS) - 1), *possible])
    known = known_to("canvas", gradebook)
    for marks in known:
        student = marks.student
        section = [student.name or student.id, student.platform_id, None, None, None]
        rows.append([*section, *(mark.mark for mark in marks.marks)])
    advice = "Export the roster from Canvas, and name it with --canvas-roster."
    left = left_out("Canvas", gradebook, {marks.student.id for marks in known}, advice)
    return csv_text(rows), [*left, *by_hand]


def _by_hand(gradebook: Gradebook) -> list[GradebookWarning]:
    """Name the marks by hand, because Canvas's file has no place for a remark."""
    if not (marks := gradebook.by_hand):
        return []
    words = [
        f"{student.student.id} {exercise.label or exercise.exercise}: {number(mark.points)} ({mark.computed_word})"
        for student, exercise, mark in marks
    ]
    title = f"{count(len(marks), 'mark')} by hand in the Canvas file, computed in parentheses: {some(words)}"
    return [GradebookWarning(title, "Canvas's file has no remarks. The feedback gives students the reasons.")]


def _from_roster(gradebook: Gradebook, table: PlatformTable) -> tuple[str, list[GradebookWarning]]:
    names = next((names for names in _NAMES if table.header[: len(names) + 1] == (*names, "ID")), None)
    section = table.column("Section")
    if names is None or section is None:
        advice = "Take the file that Canvas makes under Grades, Export."
        raise UsageError(f"{table.path}: this is not a gradebook exported from Canvas.", advice)
    id_column = len(names)
    logins = [at for at in map(table.column, ("SIS User ID", "SIS Login ID")) if at is not None]
    rows_of_people, possible = [], tuple[str, ...]()
    for row in table.rows:
        if row[id_column].strip():
            rows_of_people.append(row)
        elif "Points Possible" in row[0]:
            possible = row
    columns, warnings = _columns_of(gradebook.exercises, table, section)
    warnings += _points_warnings(gradebook, columns, possible)
    header: list[Cell] = [*table.header[: section + 1]]
    points: list[Cell] = [POINTS_POSSIBLE, *[None] * section]
    for exercise in gradebook.exercises:
        column = columns[exercise.exercise]
        header.append(table.header[column] if column is not None else exercise.numbered_title)
        points.append(PlatformCell(possible[column]) if column is not None and possible else exercise.known_of)
    people = [
        RosterEntry(row[id_column].strip(), tuple(row[at].strip() for at in logins), " ".join(row[:id_column]))
        for row in rows_of_people
    ]
    matches, refused = matching_marks(people, gradebook, "canvas", table.path)
    rows: list[list[Cell]] = [header, points]
    excused: list[str] = []
    for position, marks in sorted(matches.items()):
        row = rows_of_people[position]
        cells: list[Cell] = []
        for mark in marks.marks:
            column = columns[mark.exercise]
            now = row[column] if column is not None else ""
            is_excused = now.strip().upper() == EXCUSED
            excused += [f"{marks.student.id} {mark.exercise}"] if is_excused else []
            # An empty cell would delete Canvas's mark.
            cells.append(mark.mark if mark.mark is not None and not is_excused else PlatformCell(now))
        rows.append([*map(PlatformCell, row[: section + 1]), *cells])
    matched = {marks.student.id for marks in matches.values()}
    warnings += refused
    warnings += left_out("Canvas", gradebook, matched, f"They are not in {table.path}.")
    if excused:
        title = f"Excused in Canvas, so without a mark in its file: {some(excused)}"
        warnings.append(GradebookWarning(title, "To give a mark after all, remove `EX` in Canvas."))
    if without := len(people) - len(matches):
        title = f"{count(without, 'student')} in {table.path} without a submission: not in the Canvas file."
        warnings.append(GradebookWarning(title, "Canvas leaves their marks as they are."))
    return csv_text(rows, table.delimiter if table.delimiter in ",;" else ","), warnings


def _columns_of(
    exercises: Sequence[ExerciseSummary], table: PlatformTable, section: int
) -> tuple[dict[str, int | None], list[GradebookWarning]]:
    """Find the assignments by the exercises' titles, with or without their numbers, or by their keys.

    An assignment that fits several exercises gets no marks, and neither does an exercise that fits several assignments.
    """
    titles = [_ASSIGNMENT_ID.sub("", header).casefold() for header in table.header]
    columns: dict[str, int | None] = {}
    unclear: list[str] = []
    for exercise in exercises:
        names = (exercise.numbered_title, exercise.title, exercise.exercise, exercise.exercise.rpartition("/")[2])
        by_name = ([at for at in range(section + 1, len(titles)) if titles[at] == name.casefold()] for name in names)
        places = next(filter(None, by_name), [])
        columns[exercise.exercise] = places[0] if len(places) == 1 else None
        unclear += [exercise.exercise] if len(places) > 1 else []
    uses = Counter(columns.values())
    for key, column in columns.items():
        if column is not None and uses[column] > 1:
            columns[key] = None
            unclear.append(key)
    if not unclear:
        return columns, []
    advice = "Give each assignment in Canvas the exercise's number and title, then export the roster."
    title = f"{table.path}: it is unclear which assignments these exercises are: {some(unclear)}"
    return columns, [GradebookWarning(title, advice)]


def _points_warnings(
    gradebook: Gradebook, columns: dict[str, int | None], possible: tuple[str, ...]
) -> list[GradebookWarning]:
    warnings = []
    for exercise in gradebook.exercises:
        title, column = exercise.numbered_title, columns[exercise.exercise]
        if column is None:
            words = f"Canvas has no assignment {title!r} yet, and will ask about the column."
            warnings.append(GradebookWarning(words, "Create an assignment with this title, then export the roster."))
            continue
        of = exercise.known_of
        if of is None or not possible:
            continue
        if possible[column].replace(",", ".").strip() not in ("", number(of), f"{of:.2f}"):
            words = f"{title!r} has {possible[column]} points in Canvas, but {number(of)} points here."
            warnings.append(GradebookWarning(words, "Change the points in Canvas, or in the rules."))
    return warnings


CANVAS = Export(
    option="canvas",
    help="a file that Canvas imports under Grades",
    place="canvas.csv",
    write=roster_writer(canvas),
    roster_help="the gradebook that Canvas exports, for its rows and columns",
    needs_names=True,
    layout="canvas",
)
