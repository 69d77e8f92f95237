"""Rosters: the instructor's list of the class with sections and extensions, and the matching of people with students.

The columns are `id`, `name` (or `first name` and `last name`), `email`, `section`, `extension` (hours), `pseudonym` and
`submitted` (a time). The names that platforms give these columns are accepted too.
"""

from __future__ import annotations

import contextlib
import csv
import io
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TypeVar

from gpututor.classroom.intake.names import former_id
from gpututor.classroom.rules import YEARS, Extension, Rules
from gpututor.classroom.submissions import PLATFORMS, Class, Student, Submission
from gpututor.classroom.tables import PlatformTable, read_table
from gpututor.errors import UsageError
from gpututor.text import is_line, truncate

Value = TypeVar("Value")
_WORD = re.compile(r"\w+")
_MOST_HOURS = 366 * 24
_LONGEST = 200
"""Characters of a cell."""
_COLUMNS = {
    "id": ("id", "student", "studentid", "sid", "login", "loginid", "username", "sisloginid", "number", "identifier"),
    "name": ("name", "fullname", "studentname"),
    "first name": ("firstname", "givenname"),
    "last name": ("lastname", "surname", "familyname"),
    "email": ("email", "emailaddress", "mail"),
    "section": ("section", "sections", "group", "tutorial"),
    "extension": ("extension", "extensionhours", "extensioninhours", "hours", "extrahours"),
    "pseudonym": ("pseudonym", "alias", "nickname", "codename"),
    "submitted": ("submitted", "submittedat", "submissiontime", "lastmodifiedsubmission"),
}
"""Names of columns, without case, spaces and signs."""
_CANVAS = {"student": "name", "id": "id", "section": "section", "sisuserid": None, "sisloginid": None}
"""Columns of the gradebook that Canvas exports, without case, spaces and signs."""
_TEST_STUDENT = "Student, Test"
"""Name of the student that Canvas adds for the instructor's own view of the course."""
_MOODLE = {"username": None}
"""Columns of Moodle's worksheet, in the same form; its `Identifier` is the id."""
_NUMBERED = ("canvas", "moodle")
"""Layouts in which students' ids are the platform's numbers."""
_PARTICIPANT = re.compile(r"\s*Participant\s*(\d+)\s*")
"""An `Identifier` of Moodle's worksheet: `Participant 1234567`."""
_WORKSHEET_TIMES = ("%A, %d %B %Y, %I:%M %p", "%A, %B %d, %Y, %I:%M %p")
"""Times in Moodle's worksheet, in British and in American English."""


@dataclass(frozen=True)
class RosterEntry:
    """A row of a roster."""

    platform_id: str
    """Number that the roster's platform gave; empty in other rosters."""
    ids: tuple[str, ...] = ()
    """Logins, numbers or addresses."""
    name: str = ""


@dataclass(frozen=True)
class Matches:
    """The people of a roster who are students of a class."""

    students: Mapping[int, int]
    """Positions of students by positions of people."""
    refused: tuple[tuple[int, int], ...]
    """Positions of each unmatched person, and of the student with the same id but another name."""


def match_students(
    people: Sequence[RosterEntry], students: Sequence[Student], *, layout: str, platform: str
) -> Matches:
    """Match the people of a roster with the students of a class of this layout.

    They match by the platform's number, by address, by id, and by a name, each unique on both sides. No one matches
    twice. `platform`: the layout whose numbers the people have; empty for none. Numbers of two platforms are never
    compared. Names count only if a platform gives them, because students choose those in zips.
    """
    has_names = layout in PLATFORMS

    def id_of(student: Student) -> str:
        is_number = layout in _NUMBERED and student.id == student.platform_id
        return "" if platform and is_number else folded(student.id)

    def name_of(student: Student) -> str:
        return _name_key((has_names and student.name) or student.id)

    def names_of(person: RosterEntry) -> set[str]:
        return {_name_key(person.name), *(_joined_names(person.name) if layout == "canvas" else ())}

    keys: Sequence[tuple[Callable[[RosterEntry], set[str]], Callable[[Student], str]]] = (
        (lambda person: {person.platform_id}, lambda student: student.platform_id if platform == layout else ""),
        (_ids_of, lambda student: folded(student.email)),
        (_ids_of, id_of),
        (names_of, name_of),
    )
    matches: dict[int, int] = {}
    refused: dict[int, int] = {}
    for person_keys, student_key in keys:
        taken = set(matches.values())
        by_key = _unique([(student_key(student), place) for place, student in enumerate(students)])
        of_people = [(key, position) for position, person in enumerate(people) for key in person_keys(person)]
        for key, position in _unique(of_people).items():
            if key not in by_key or position in matches or by_key[key] in taken:
                continue
            at = by_key[key]
            if student_key is id_of and has_names and _differ(people[position].name, students[at].name):
                refused[position] = at
            else:
                matches[position] = at
                taken.add(at)
    return Matches(matches, tuple((position, at) for position, at in refused.items() if position not in matches))


def refusal(path: Path, person: str, student: str) -> tuple[str, str]:
    """Return a notice and advice on a person in `path` who has the id of a student, but another name."""
    title = f"{path}: {person} has the id of {student}, but another name, so they do not match."
    return title, "If they are the same person, write one name in both. Otherwise correct the id."


def _ids_of(person: RosterEntry) -> set[str]:
    return set(map(folded, person.ids))


def _differ(name: str, other: str) -> bool:
    """Return True if two known names have no word in common. Canvas leaves out spaces: `roekim`."""
    first, second = map(_words_of, (name, other))
    shared = [word for word in first if word in "".join(second)] + [word for word in second if word in "".join(first)]
    return bool(first and second and not shared)


def _words_of(name: str) -> list[str]:
    """Return the words of a name without accents and initials."""
    letters = (letter for letter in unicodedata.normalize("NFKD", name.casefold()) if not unicodedata.combining(letter))
    return [word for word in _WORD.findall("".join(letters)) if len(word) > 1 or not word.isascii()]


def _unique(pairs: Sequence[tuple[str, Value]]) -> dict[str, Value]:
    counts = Counter(key for key, _ in pairs)
    return {key: value for key, value in pairs if key and counts[key] == 1}


def _name_key(name: str) -> str:
    """Return the same key for `Ada Lovelace` and `Lovelace, Ada`."""
    return " ".join(sorted(_WORD.findall(folded(name))))


def _joined_names(name: str) -> set[str]:
    """Return the forms of a name that Canvas may give, which has the surname first and no spaces: `lovelaceada`."""
    words = _WORD.findall(folded(name))
    return {"".join(words[at:] + words[:at]) for at in range(len(words))}


def folded(word: str) -> str:
    """Return an id or a name in lower case. Names of files on macOS have accents as characters of their own."""
    return unicodedata.normalize("NFC", word).casefold()


@dataclass(frozen=True)
class Enrolled:
    """A student in the instructor's roster."""

    id: str
    name: str = ""
    email: str = ""
    section: str = ""
    extension_hours: float = 0.0
    pseudonym: str = ""
    submitted: datetime | None = None
    """Time of the last submission; without a time zone, in the zone of the file's due date."""


def roster_id(id: str) -> str:
    """Return the id of a student without files in the history, where a platform's number may later be the same."""
    return f"{id} (roster)"


@dataclass(frozen=True)
class Roster:
    """The instructor's roster of the class."""

    path: Path
    students: tuple[Enrolled, ...]
    ignored: tuple[str, ...] = ()
    """Names of columns that are not used."""
    platform: str = ""
    """Layout of the platform that exported it, whose numbers are the ids; empty for the instructor's own."""


def read_roster(path: Path) -> Roster:
    """Read a roster. Raises `UsageError` that names the file, the line and the column."""
    table = read_table(path)
    columns = _columns(table)
    is_worksheet = (at := columns.get("id")) is not None and any(_PARTICIPANT.fullmatch(row[at]) for row in table.rows)
    is_canvas = _is_of_canvas(table)
    students: list[Enrolled] = []
    lines: dict[str, int] = {}
    for line, row in zip(table.lines, table.rows, strict=True):
        cells = {name: row[at].replace("\xa0", " ").strip() for name, at in columns.items()}
        for name, cell in cells.items():
            if len(cell) > _LONGEST or not is_line(cell):
                advice = f"Write one line of text, at most {_LONGEST} characters."
                raise _mistake(table, line, columns[name], f"{truncate(repr(cell), 40)} is not a valid {name}", advice)
        id = cells.get("id") or cells.get("email", "")
        if is_worksheet and (participant := _PARTICIPANT.fullmatch(id)):
            id = participant[1]
        cells["name"] = cells.get("name") or f"{cells.get('first name', '')} {cells.get('last name', '')}".strip()
        if not id and (is_canvas or cells["name"].startswith("Points Possible")):
            continue  # a line of Canvas's gradebook about assignments
        if is_canvas and cells["name"] == _TEST_STUDENT:
            continue
        if not id:
            at = columns.get("id", columns.get("email", 0))
            raise _mistake(table, line, at, "it is empty", "Write the student's id, or remove the line.")
        if (first := lines.setdefault(folded(id), line)) != line:
            at = columns["id"] if cells.get("id") else columns["email"]
            raise _mistake(table, line, at, f"{id!r} is in line {first}, too", "Remove one of the lines.")
        hours = _hours(table, line, columns, cells.get("extension", ""))
        name, email, section, pseudonym = (cells.get(key, "") for key in ("name", "email", "section", "pseudonym"))
        submitted = _time(table, line, columns, cells.get("submitted", ""))
        students.append(Enrolled(id, name, email, section, hours, pseudonym, submitted))
    if not students:
        raise UsageError(f"{path}: there are no students in it.", "Write a line for each student below the headings.")
    _check_pseudonyms(table, columns, dict(zip(lines.values(), students, strict=True)))
    used = set(columns.values())
    ignored = tuple(name for at, name in enumerate(table.header) if at not in used and name)
    platform = "moodle" if is_worksheet else "canvas" if is_canvas else ""
    return Roster(path, tuple(students), ignored, platform)


def roster_text(students: Iterable[Enrolled]) -> str:
    """Return a roster with ids, names and addresses only, as `read_roster` reads it."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")  # not for spreadsheets: each cell must stay as it is
    writer.writerows([("id", "name", "email"), *((student.id, student.name, student.email) for student in students)])
    return stream.getvalue()


def _header_keys(table: PlatformTable) -> list[str]:
    return [re.sub(r"[\W_]+", "", header.casefold()) for header in table.header]


def _is_of_canvas(table: PlatformTable) -> bool:
    keys = set(_header_keys(table))
    return {"id", "sisloginid"} <= keys and ("student" in keys or {"firstname", "lastname"} <= keys)


def _columns(table: PlatformTable) -> dict[str, int]:
    """Return the positions of the known columns. Raises `UsageError` without a column of ids, and for two of a kind."""
    positions: dict[str, int] = {}
    keys = _header_keys(table)
    of_platform = _CANVAS if _is_of_canvas(table) else _MOODLE if {"identifier", "fullname"} <= set(keys) else {}
    for at, key in enumerate(keys):
        name = next((name for name, names in _COLUMNS.items() if key in names), None)
        name = of_platform.get(key, name)
        if name in positions:
            title = f"it is a column for the {name}, as {table.header[positions[name]]!r} is"
            raise _mistake(table, 1, at, title, "Rename or remove one of them.")
        if name is not None:
            positions[name] = at
    if "id" not in positions and "email" not in positions:
        names = ", ".join(map(repr, filter(None, table.header)))
        title = f"{table.path}, line 1: there is no column `id`, but {names}."
        raise UsageError(title, f"Name the columns {', '.join(_COLUMNS)}; all but the first are optional.")
    return positions


def _check_pseudonyms(table: PlatformTable, columns: Mapping[str, int], students: Mapping[int, Enrolled]) -> None:
    """Raise `UsageError` for a pseudonym of two students, and for one that is an id, a name or an address.

    `students` are by their lines.
    """
    real = {
        word.casefold() for student in students.values() for word in (student.id, student.name, student.email) if word
    }
    lines: dict[str, int] = {}
    for line, student in students.items():
        key, at = student.pseudonym.casefold(), columns.get("pseudonym", 0)
        if key in real:
            title = f"{student.pseudonym!r} is the id, name or address of a student"
            raise _mistake(table, line, at, title, "Choose another pseudonym, or leave the cell empty.")
        if key and (first := lines.setdefault(key, line)) != line:
            raise _mistake(table, line, at, f"{student.pseudonym!r} is in line {first}, too", "Change one of them.")


def _hours(table: PlatformTable, line: int, columns: Mapping[str, int], cell: str) -> float:
    if not cell:
        return 0.0
    try:
        hours = float(cell.replace(",", "."))
    except ValueError:
        hours = -1.0
    if not 0 <= hours <= _MOST_HOURS:
        advice = f"Write hours, from 0 to {_MOST_HOURS}, such as 48. For a date, use [[extension]] in the rules."
        raise _mistake(table, line, columns["extension"], f"{cell!r} is not a number of hours", advice)
    return hours


def _time(table: PlatformTable, line: int, columns: Mapping[str, int], cell: str) -> datetime | None:
    if cell in ("", "-"):
        return None
    advice = "Export Moodle's worksheet in English, or write times such as 2026-03-01T20:00."
    for form in ("", *_WORKSHEET_TIMES):
        with contextlib.suppress(ValueError):
            at = datetime.strptime(cell, form) if form else datetime.fromisoformat(cell)
            if at.year in YEARS and not _is_day(cell):
                return at
    raise _mistake(table, line, columns["submitted"], f"{cell!r} is not a time of a day", advice)


def _is_day(cell: str) -> bool:
    """Return True for a date without a time of the day, which would count as midnight."""
    try:
        date.fromisoformat(cell)
    except ValueError:
        return False
    return True


def _mistake(table: PlatformTable, line: int, column: int, problem: str, advice: str) -> UsageError:
    return UsageError(f"{table.path}, line {line}, column {table.header[column]!r}: {problem}.", advice)


@dataclass(frozen=True)
class Enrolment:
    """A class with all students of a roster."""

    class_: Class
    rules: Rules
    """The rules, with the extensions of the roster."""
    sections: Mapping[str, str]
    """Sections by the students' ids; empty for students without one."""
    others: tuple[str, ...]
    """Ids of students with files who are not in the roster."""
    without_files: tuple[str, ...]
    """Ids of the roster's people who match no student with files."""
    pseudonyms: Mapping[str, str]
    """The roster's pseudonyms by the students' ids; empty for students without one."""
    roster_ids: Mapping[str, str]
    """The ids in the roster by the students' ids, for all students of the roster."""
    class_ids: Mapping[str, str]
    """The students' ids by their ids in the roster, if no student of the class has the latter, and by `roster_id`."""
    refused: tuple[tuple[str, str], ...]
    """Id of each unmatched person of the roster, and of the student with the same id but another name."""


def former_ids(students: Sequence[Student]) -> dict[str, str]:
    """Return students' ids by ids that they may have had before.

    At Gradescope, the address is the id until the instructor adds a number of the institution. A folder's name is the
    id until another student has the same name in other case.
    """
    ids = {student.id for student in students}
    pairs = ((word, student.id) for student in students for word in (student.email.casefold(), former_id(student.id)))
    return {word: id for word, id in _unique([*pairs]).items() if word not in ids}


def with_extensions(rules: Rules, students: Sequence[Student]) -> Rules:
    """Return the rules with students' ids in the extensions, which may name their addresses, in capitals or not."""
    ids = {student.id for student in students}
    by_word = _unique(
        [(word, student.id) for student in students for word in {*map(folded, (student.id, student.email))}]
    )
    extensions = (
        given if given.student in ids else replace(given, student=by_word.get(folded(given.student), given.student))
        for given in rules.extensions
    )
    return replace(rules, extensions=tuple(extensions))


def enrol(class_: Class, rules: Rules, roster: Roster) -> Enrolment:
    """Add the roster's students to the class, their extensions to the rules, and times that the layout lacks."""
    students = list(class_.students)
    people = [
        RosterEntry(row.id, (row.email,), row.name)
        if roster.platform
        else RosterEntry("", (row.id, row.email), row.name)
        for row in roster.students
    ]
    matched = match_students(people, students, layout=class_.layout, platform=roster.platform)
    matches = matched.students
    others = tuple(student.id for at, student in enumerate(students) if at not in matches.values())
    sections, pseudonyms, roster_ids = dict[str, str](), dict[str, str](), dict[str, str]()
    extensions = list[Extension]()
    times: dict[str, datetime] = {}
    taken = {student.id for student in students}
    row_ids: list[str] = []
    for position, row in enumerate(roster.students):
        if position in matches:
            at = matches[position]
            student = students[at]
            students[at] = replace(student, name=row.name or student.name, email=row.email or student.email)
        else:
            platform_id = row.id if roster.platform == class_.layout else ""
            id = roster_id(row.id) if row.id in taken else row.id
            students.append(Student(id, row.name, row.email, platform_id))
            at = len(students) - 1
        id = students[at].id
        row_ids.append(id)
        sections[id], pseudonyms[id], roster_ids[id] = row.section, row.pseudonym, row.id
        if row.submitted is not None:
            times[id] = row.submitted
        if row.extension_hours:
            extensions.append(Extension(students[at].id, hours=row.extension_hours))
    known = {student.id for student in students}
    rows = list(zip((row.id for row in roster.students), row_ids, strict=True))
    class_ids = {roster_id(row): id for row, id in rows} | {row: id for row, id in rows if row not in known}
    named = (replace(given, student=class_ids.get(given.student, given.student)) for given in rules.extensions)
    rules = replace(rules, extensions=(*named, *extensions))
    last = {
        (file.student, file.exercise): file.attempt
        for file in sorted(class_.submissions, key=lambda file: file.attempt)
    }
    submissions = (
        _with_time(file, times.get(file.student), rules) if file.attempt == last[file.student, file.exercise] else file
        for file in class_.submissions
    )
    enrolled = replace(class_, students=tuple(students), submissions=tuple(submissions))
    refused = tuple((row_ids[position], students[at].id) for position, at in matched.refused)
    without_files = tuple(id for position, id in enumerate(row_ids) if position not in matches)
    return Enrolment(enrolled, rules, sections, others, without_files, pseudonyms, roster_ids, class_ids, refused)


def _with_time(file: Submission, at: datetime | None, rules: Rules) -> Submission:
    """Return a file with the roster's time, unless its own is known. A time without a zone has that of its due date."""
    if at is None or file.submitted_at:
        return file
    due = rules.due_for(file.exercise, file.student)
    zone = at.tzinfo or (due.tzinfo if due is not None else rules.zone)
    return replace(file, submitted_at=at.replace(tzinfo=zone).astimezone(UTC).isoformat()) if zone is not None else file
