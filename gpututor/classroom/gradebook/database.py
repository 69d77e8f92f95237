"""The gradebook in SQLite, for questions of one's own. It is made anew each time, and can be thrown away.

docs/classroom/rules.md explains the tables. The same class, journal and rules make the same file, byte for byte.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

from gpututor.classroom.gradebook.model import Attempt, ExerciseSummary, Gradebook, Mark, StudentMarks
from gpututor.classroom.handed_in import Unmatched

VERSION = 1
SCHEMA = """
create table about (name text primary key, value) without rowid;
create table student (id text primary key, name text, email text, platform_id text, points real, so_far real,
    of real, open integer) without rowid;
create table exercise (exercise text primary key, place integer, label text, title text, of real, extra real,
    weight real, due text, dropped integer, handed_in integer, without_mark integer, mean_share real,
    median_share real) without rowid;
create table mark (student text references student, exercise text references exercise, standing text, mark real,
    points real, of real, outcome text, attempt integer, attempts integer, dropped integer, reason text,
    primary key (student, exercise)) without rowid;
create table attempt (student text references student, exercise text references exercise, attempt integer,
    source text, sha256 text, submitted_at text, counts integer, standing text, outcome text, journal_key text,
    earned real, points real, late_s real, late_periods integer, late_per_cent real, too_late integer, seed integer,
    elapsed_s real, reason text, primary key (student, exercise, attempt)) without rowid;
create table check_mark (student text, exercise text, attempt integer, "check" text, place integer, sentence text,
    status text, points real, of real, extra integer, hidden integer,
    primary key (student, exercise, attempt, "check")) without rowid;
create table verdict (student text, exercise text, attempt integer, place integer, scenario text, "check" text,
    status text, sentence text, expected text, got text, line integer, measured text,
    primary key (student, exercise, attempt, place)) without rowid;
create table timing (exercise text references exercise, place integer, student text references student, "check" text,
    scenario text, ratio real, status text, measured integer, words text,
    primary key (exercise, place)) without rowid;
create table unmatched (source text, student text references student, exercise text, why text);
create table notice (title text, advice text);
"""
Row = Sequence[str | float | int | None]


def write_database(gradebook: Gradebook, path: Path) -> None:
    """Replace the file at `path`: it is built beside it and moved over it. Raises `OSError`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{path.name}.", suffix=".part", dir=path.parent) as folder:
        part = Path(folder) / path.name
        _build(gradebook, part)
        with part.open("rb") as stream:
            os.fsync(stream.fileno())
        part.replace(path)


def _build(gradebook: Gradebook, path: Path) -> None:
    try:
        with closing(sqlite3.connect(path)) as database:
            database.execute("pragma journal_mode = off")
            database.execute("pragma synchronous = off")
            database.execute(f"pragma user_version = {VERSION}")
            database.execute("begin")
            for statement in filter(str.strip, SCHEMA.split(";")):
                database.execute(statement)
            for table, rows in _tables(gradebook):
                for row in rows:
                    values = [_storable(value) for value in row]
                    database.execute(f"insert into {table} values ({', '.join('?' * len(values))})", values)
            database.commit()
    except sqlite3.Error as error:  # such as a disk that is full, or a class that has a student twice
        raise OSError(f"{path}: {error}") from error


def _storable(value: str | float | int | None) -> str | float | int | None:
    """Halves of surrogate pairs cannot be stored as text, nor numbers of more than 64 bits as numbers."""
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return str(value)
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value


def _tables(gradebook: Gradebook) -> Iterator[tuple[str, Iterable[Row]]]:
    class_, rules = gradebook.class_, gradebook.rules
    about: list[Row] = [
        ("attempts", rules.attempts),
        ("course", class_.course),
        ("layout", class_.layout),
        ("rules", rules.text),
        ("version", VERSION),
    ]
    yield "about", about
    yield "student", map(_student_row, gradebook.students)
    yield "exercise", [_exercise_row(place, each) for place, each in enumerate(gradebook.exercises)]
    marks = [mark for student in gradebook.students for mark in student.marks]
    yield "mark", map(_mark_row, marks)
    attempts = [(mark, attempt) for mark in marks for attempt in mark.attempts]
    yield "attempt", [_attempt_row(mark, attempt) for mark, attempt in attempts]
    yield "check_mark", [row for _, attempt in attempts for row in _check_rows(attempt)]
    yield "verdict", [row for _, attempt in attempts for row in _verdict_rows(attempt)]
    yield "timing", [row for each in gradebook.exercises for row in _timing_rows(each)]
    yield "unmatched", [row for each in class_.unmatched for row in _unmatched_rows(each)]
    yield "notice", [(each.title, each.advice) for each in gradebook.notices]


def _unmatched_rows(file: Unmatched) -> list[Row]:
    """One for each student who is known to have handed it in, or one of nobody."""
    return [(file.source, student, file.exercise or None, file.why) for student in file.students or (None,)]


def _student_row(marks: StudentMarks) -> Row:
    one = marks.student
    points = marks.points if marks.final else None
    return (one.id, one.name, one.email, one.platform_id, points, marks.points, marks.known_of, marks.open)


def _exercise_row(place: int, each: ExerciseSummary) -> Row:
    due = each.due.isoformat() if each.due is not None else None
    worth = (each.known_of, each.extra, each.weight, due, each.is_dropped)
    of_class = (each.handed_in, each.without_mark, each.mean_share, each.median_share)
    return (each.exercise, place, each.label, each.title, *worth, *of_class)


def _key(attempt: Attempt) -> tuple[str, str, int]:
    return attempt.handed_in.student, attempt.handed_in.exercise, attempt.handed_in.attempt


def _mark_row(mark: Mark) -> Row:
    outcome = mark.outcome.value if mark.outcome is not None else None
    attempt = mark.counted.handed_in.attempt if mark.counted is not None else None
    key = (mark.student, mark.exercise, mark.standing.value)
    return (
        *key,
        mark.mark,
        mark.points,
        mark.known_of,
        outcome,
        attempt,
        len(mark.attempts),
        mark.is_dropped,
        mark.reason,
    )


def _attempt_row(mark: Mark, attempt: Attempt) -> Row:
    one, late, report = attempt.handed_in, attempt.lateness, attempt.report
    return (
        *(*_key(attempt), one.source, one.sha256, one.submitted_at, attempt is mark.counted),
        *(attempt.standing.value, attempt.outcome.value if attempt.outcome is not None else None),
        *(attempt.key.name if attempt.key is not None else None, attempt.earned, attempt.points),
        *(late.late_s, late.periods, late.per_cent, late.too_late),
        *((report.environment.seed, report.elapsed_s) if report is not None else (None, None)),
        attempt.reason,
    )


def _check_rows(attempt: Attempt) -> Iterator[Row]:
    for place, each in enumerate(attempt.checks):
        worth = (each.points, each.of, each.is_extra, each.is_hidden)
        yield (*_key(attempt), each.check, place, each.sentence, each.status.value, *worth)


def _timing_rows(exercise: ExerciseSummary) -> Iterator[Row]:
    for place, each in enumerate(exercise.timings):
        told = (each.ratio, each.status.value, each.is_measured, each.words)
        yield (exercise.exercise, place, each.student, each.check, each.scenario, *told)


def _verdict_rows(attempt: Attempt) -> Iterator[Row]:
    for place, each in enumerate(attempt.report.verdicts if attempt.report is not None else ()):
        texts = (each.sentence, each.expected, each.got, each.line, each.measured)
        yield (*_key(attempt), place, each.scenario, each.check, each.status.value, *texts)
