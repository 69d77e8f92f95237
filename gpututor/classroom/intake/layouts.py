"""Layouts of exports: Gradescope, Moodle, Canvas, folders and files, and how each is recognized.

That is the student's name, a mark when it was late, the user's number, the upload's number, and the file's name, to
which Canvas adds `-2` and so on. Without names, where marking is anonymous: `anon_x1Yz_67890_name.py`.

Students are known by the number that Gradescope has of them (`sid`), or else their address.

The number is the participant's, the same as in the grading worksheet. Groups have theirs. Text that was typed into
Moodle is in `…_assignsubmission_onlinetext_/onlinetext.html`.

Platforms are recognised by the names that they give, the other layouts by the exercises' names. One folder around
everything is allowed. The instructor names every other layout with `--layout`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Protocol

from gpututor.classroom.intake.archive import Kind, Tree, is_zip_name
from gpututor.classroom.intake.gradescope_metadata import Submission
from gpututor.classroom.intake.names import ExerciseNames, without_ending
from gpututor.course.model import Exercise
from gpututor.errors import UsageError


@dataclass(frozen=True)
class Person:
    """A student, as names and platforms know them."""

    key: str
    """The same for the same person, and for nobody else."""
    best_id: str
    """What `Student.id` should be, if it is not taken."""
    name: str = ""
    email: str = ""
    platform_id: str = ""


@dataclass(frozen=True)
class Place:
    """Whose a file is, and what is left of its path."""

    people: tuple[Person, ...] = ()
    """Several for a group."""
    path: tuple[str, ...] = ()
    """Below the student: the rest of the folders and zips, and the file's name. Empty for the student's own zip."""
    exercise: Exercise | None = None
    """Where the layout knows it."""
    submitted_at: str = ""
    """ISO 8601, UTC; empty where nothing tells it."""
    number: int = 0
    """Of the upload: later ones have larger numbers."""
    earlier: int = 0
    """How many attempts came before, and are not here."""
    late: bool = False
    why: str = ""
    """Why it is nobody's, or nothing to grade, a sentence; then the rest counts for nothing but `people`."""


class Layout(Protocol):
    """Knows the names of one kind of export."""

    name: str

    def place(self, parts: Sequence[str]) -> Place:
        """Whose the file with this path is."""


_WHO = r"(?:(?P<name>.*?[^_])_)??(?:(?P<late>LATE)_)?(?P<id>(?<![^_])\d{1,18}|anon_[A-Za-z0-9]+)"
CANVAS_NAME = re.compile(_WHO + r"_(?P<upload>\d{1,18})_(?P<file>.+)", re.DOTALL)
TYPED = re.compile(_WHO + r"_(?:text|link)(?:-\d+)?\.html", re.DOTALL)
_NOT_A_FILE = "It is text or a link that was typed into Canvas, and no file: it cannot be graded."


def match(name: str) -> re.Match[str] | None:
    """A file's name taken apart, where it is one that Canvas gives."""
    found = CANVAS_NAME.fullmatch(name) or TYPED.fullmatch(name)
    if found is None or (found["name"] is None and not found["late"] and not found["id"].startswith("anon_")):
        return None  # `05_01_one_big_copy.py` is nobody's
    return found


class Canvas:
    name = "canvas"

    def place(self, parts: Sequence[str]) -> Place:
        found = match(parts[0])
        if found is None:
            return Place(path=tuple(parts), why="Its name is none that Canvas gives.")
        person = Person(key=found["id"], best_id=found["id"], name=found["name"] or "", platform_id=found["id"])
        late = found["late"] is not None
        if "file" not in found.re.groupindex:
            return Place((person,), tuple(parts[1:]), late=late, why=_NOT_A_FILE)
        return Place((person,), (found["file"], *parts[1:]), number=int(found["upload"]), late=late)


_BETWEEN = "__"


class Files:
    name = "files"

    def __init__(self, names: ExerciseNames, exercise: Exercise | None) -> None:
        self._names = names
        self._exercise = exercise

    def place(self, parts: Sequence[str]) -> Place:
        stem = without_ending(parts[-1], ".py")
        student, mark, exercise = stem.rpartition(_BETWEEN)
        if mark and student and (found := self._names.named(exercise)):
            return Place((_person(student),), (parts[-1],), found)
        for number, name in enumerate(parts[:-1]):
            if not (found := self._names.named(without_ending(name, ".zip"))):
                continue
            rest = parts[number + 1 :]
            if len(rest) > 1:  # EXERCISE/STUDENT/solution.py
                return Place((_person(without_ending(rest[0], ".zip")),), tuple(rest[1:]), found)
            if parts[-1].casefold().endswith((".py", ".zip")):
                return Place((_person(stem),), (parts[-1],), found)
            return Place(path=tuple(parts), why="It is called after no student, and is no Python file.")
        if self._exercise is not None and len(parts) == 1:
            return Place((_person(stem),), (parts[-1],), self._exercise)
        return Place(path=tuple(parts), why="It is called neither EXERCISE/STUDENT.py nor STUDENT__EXERCISE.py.")


def _person(name: str) -> Person:
    """`kim (1)` may be another Kim, whose file a browser called so: nobody's work is taken for another's."""
    return Person(key=name, best_id=name)


class Folders:
    name = "folders"

    def place(self, parts: Sequence[str]) -> Place:
        first, *rest = parts
        if not rest and not first.casefold().endswith(".zip"):
            return Place(path=(first,), why="It lies beside the students' folders, in none of them.")
        name = without_ending(first, ".zip") if first.casefold().endswith(".zip") else first
        return Place((Person(key=name, best_id=name),), tuple(rest))


METADATA = "submission_metadata.yml"


class Gradescope:
    name = "gradescope"

    def __init__(self, submissions: Mapping[str, Submission]) -> None:
        self._submissions = submissions
        self._addresses = {
            one.email.casefold(): one.sid
            for submission in submissions.values()
            for one in submission.submitters
            if one.email and one.sid
        }

    def place(self, parts: Sequence[str]) -> Place:
        first, *rest = parts
        if first == METADATA:
            return Place(path=(first,), why="It says whose the submissions are, and was read.")
        submission = self._submissions.get(without_ending(first, ".zip"))
        if submission is None:
            return Place(path=tuple(parts), why=f"{METADATA} does not name it.")
        people = tuple(
            dict.fromkeys(
                self._person(one.name, one.sid, one.email, submission.group)
                for one in submission.submitters
                if one.sid or one.email or one.name
            )
        )
        if not people:
            return Place(path=tuple(parts), why=f"{METADATA} names no student for it.")
        return Place(people, tuple(rest), submitted_at=submission.created_at, earlier=submission.earlier)

    def _person(self, name: str, sid: str, email: str, group: str) -> Person:
        sid = sid or self._addresses.get(email.casefold(), "")  # somebody whose number is not in every submission
        best = sid or email.casefold() or name
        key = best if sid or email else f"{name} {group}"
        return Person(key=key, best_id=best, name=name, email=email, platform_id=sid)


MOODLE_NAME = re.compile(
    r"(?P<name>.*?)(?:_(?P<id>\d{1,18}))?_assignsubmission_(?P<kind>[a-z]+?)(?:_(?P<file>.*))?", re.DOTALL
)
_ONLINE_TEXT = "It is text that was typed into Moodle, and no file: it cannot be graded."


class Moodle:
    name = "moodle"

    def place(self, parts: Sequence[str]) -> Place:
        found = MOODLE_NAME.fullmatch(parts[0])
        if found is None:
            return Place(path=tuple(parts), why="Its name is none that Moodle gives.")
        number, name = found["id"] or "", found["name"].strip()
        person = Person(key=number or name, best_id=number or name, name=name, platform_id=number)
        if found["kind"] != "file":
            return Place((person,), tuple(parts[1:]), why=_ONLINE_TEXT)
        return Place((person,), tuple(part for part in (found["file"], *parts[1:]) if part))


AUTO = "auto"
LAYOUTS = ("folders", "files", "gradescope", "moodle", "canvas")
_MOST_ENTRIES = 50_000
"""Entries that detection reads at most."""
_CHOOSE = f"Say which it is with --layout: {', '.join(LAYOUTS)}. docs/classroom/layouts.md shows them."

Parts = tuple[str, ...]


@dataclass(frozen=True)
class DetectedLayout:
    layout: str
    tree: Tree
    """Entries below the folder around everything."""


def detect_layout(tree: Tree, names: ExerciseNames, layout: str, *, one_exercise: bool) -> DetectedLayout:
    """Detect the layout, unless it is given. Raises `UsageError` where that is unclear, or nothing is there."""
    if layout not in (AUTO, *LAYOUTS):
        raise UsageError(f"There is no layout called {layout!r}.", f"They are {AUTO}, {', '.join(LAYOUTS)}.")
    paths = _paths(tree)
    may_hold_programs = not tree.path.is_dir() and layout != "folders"
    if wrapper := _wrapper(paths, names, may_hold_programs):
        tree, paths = replace(tree, wrapper=wrapper), [path[1:] for path in paths]
    if not any(path[-1].casefold().endswith((".py", ".zip")) for path in paths):
        raise UsageError(f"{tree.path} holds no Python files and no zips.", "Name the folder or the zip of the class.")
    return DetectedLayout(layout if layout != AUTO else _layout_of(paths, names, tree, one_exercise), tree)


def _paths(tree: Tree) -> list[Parts]:
    return [
        entry.parts if entry.kind is not Kind.FOLDER else (*entry.parts, "")
        for entry in islice(tree.entries(open_zips=False), _MOST_ENTRIES)
        if entry.kind not in (Kind.NOISE, Kind.PLACE)
    ]


def _wrapper(paths: list[Parts], names: ExerciseNames, may_hold_programs: bool) -> Parts:
    """Return the folder around everything, unless it is a student's or an exercise's; else nothing.

    `may_hold_programs`: the folder may be around programs that are called after students, as zips have it.
    """
    tops = {path[0] for path in paths}
    if len(tops) != 1 or any(len(path) < 2 for path in paths):
        return ()
    folder = tops.pop()
    inside = [path[1:] for path in paths]
    if _is_of_platform(path[0] for path in inside):
        return (folder,)
    if MOODLE_NAME.fullmatch(folder) or _is_of_course(folder, names) or _is_workspace(inside, names):
        return ()
    programs = [path[0] for path in inside if len(path) == 1 and _is_anybodys(path[0], names)]
    is_one_file = len(inside) == len(inside[0]) == 1
    if not may_hold_programs and (programs or is_one_file):
        return ()
    return (folder,)


def _is_anybodys(name: str, names: ExerciseNames) -> bool:
    """Check that it is a program whose name does not say whose it is."""
    return name.casefold().endswith(".py") and match(name) is None and not _names_both(name, names)


def _is_of_course(name: str, names: ExerciseNames) -> bool:
    return names.is_lesson(name) or names.named(name) is not None


def _is_workspace(paths: Iterable[Parts], names: ExerciseNames) -> bool:
    """Check that these are one student's files: exercises by name, on top or in folders of lessons."""
    return any(
        path[-1].casefold().endswith(".py")
        and (len(path) == 1 or (len(path) == 2 and names.is_lesson(path[0])))
        and names.at(path) is not None
        for path in paths
    )


def _layout_of(paths: list[Parts], names: ExerciseNames, tree: Tree, one_exercise: bool) -> str:
    by_top: dict[str, list[Parts]] = defaultdict(list)
    for path in paths:
        by_top[path[0]].append(path[1:])
    if METADATA in by_top:
        return "gradescope"
    platforms = {
        "moodle": sum(MOODLE_NAME.fullmatch(name) is not None for name in by_top),
        "canvas": sum(match(name) is not None and not _names_both(name, names) for name in by_top),
    }
    layout, count = max(platforms.items(), key=lambda item: item[1])
    if count * 2 >= len(by_top):
        return layout
    if count:
        raise UsageError(
            f"{tree.path}: {count} of {len(by_top)} names are such as {layout.capitalize()} gives.", _CHOOSE
        )
    if _is_workspace(paths, names):
        raise UsageError(
            f"{tree.path} looks like the files of one student.",
            "Put them into a folder with the student's name, and name the folder above that one.",
        )
    files = [name for name, below in by_top.items() if _has_files_of_students(name, below, names, one_exercise)]
    students = {
        name: below for name, below in by_top.items() if name not in files and (is_zip_name(name) or any(below))
    }
    if files and students:
        raise UsageError(
            f"{tree.path}: {files[0]!r} is such as in the layout `files`, and {next(iter(students))!r} as in "
            "`folders`.",
            _CHOOSE,
        )
    if not files and not students:
        raise UsageError(
            f"{tree.path} is in no layout that is known: {paths[0][0]!r} names no exercise here and no student.",
            f"If it was handed in for another course, name that one with --course DIR. {_CHOOSE}",
        )
    if students:
        if len(paths) == 1 and is_zip_name(paths[0][-1]):
            students = {paths[0][-1]: _in_only_zip(tree, paths[0])}
        _check_students(students, names, tree)
    return "files" if files else "folders"


def _is_of_platform(names: Iterable[str]) -> bool:
    """Check that a platform gave these names."""
    tops = set(names)
    given = sum(MOODLE_NAME.fullmatch(name) is not None or match(name) is not None for name in tops)
    return METADATA in tops or (given > 0 and 2 * given >= len(tops))


def _names_both(name: str, names: ExerciseNames) -> bool:
    """Check for `STUDENT__EXERCISE.py`."""
    student, mark, exercise = without_ending(name, ".py").rpartition("__")
    return bool(mark and student) and names.named(exercise) is not None


def _has_files_of_students(name: str, below: list[Parts], names: ExerciseNames, one_exercise: bool) -> bool:
    """Check that the files below this name are called after students."""
    if not any(below):
        return name.casefold().endswith(".py") and (one_exercise or _names_both(name, names))
    return _is_of_course(name, names)


def _check_students(students: Mapping[str, list[Parts]], names: ExerciseNames, tree: Tree) -> None:
    """Raise `UsageError` where most folders, or the only zip, may hold several students or a whole class."""
    groups = [name for name, below in students.items() if _may_be_group(below, names)]
    if len(groups) * 2 > len(students):
        raise UsageError(
            f"{tree.path}: {groups[0]!r} may hold several students, or a whole class.",
            f"If it does, name {groups[0]!r} itself. If it is one student's, say --layout folders.",
        )


def _in_only_zip(tree: Tree, only: Parts) -> list[Parts]:
    """List the files in the only zip of a class, from the folder on that is around them."""
    entries = islice(tree.entries(), _MOST_ENTRIES)
    inside = [entry.parts[len(only) :] for entry in entries if entry.kind is Kind.FILE and len(entry.parts) > len(only)]
    is_wrapped = len({path[0] for path in inside}) == 1 and all(len(path) > 1 for path in inside)
    return [path[1:] for path in inside] if is_wrapped else inside


def _may_be_group(below: list[Parts], names: ExerciseNames) -> bool:
    """Check for names that a platform gives, and for several folders without any program or name of the course."""
    tops = {path[0] for path in below if path}
    if _is_of_platform(tops):
        return True
    folders = {path[0] for path in below if len(path) > 1}
    return len(folders) > 1 and not any(_is_of_course(top, names) or top.casefold().endswith(".py") for top in tops)
