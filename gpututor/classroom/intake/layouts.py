"""Layouts of exports: Gradescope, Moodle, Canvas, folders and files, and how each is detected.

Platforms are recognized by the names that they give, the other layouts by the exercises' names. One folder that
contains everything is allowed. The instructor names every other layout with `--layout`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from gpututor.classroom.intake.archive import ArchiveTree, EntryKind, is_zip_name
from gpututor.classroom.intake.gradescope_metadata import GradescopeSubmission, Submitter
from gpututor.classroom.intake.names import ExerciseNames, is_program, without_ending, without_program_ending
from gpututor.course.model import Exercise
from gpututor.errors import UsageError

AUTO = "auto"
LAYOUTS = ("folders", "files", "gradescope", "moodle", "canvas")
METADATA = "submission_metadata.yml"
_MOST_ENTRIES = 50_000
"""Entries that detection reads."""
_CHOOSE = f"Choose one with --layout: {', '.join(LAYOUTS)}. docs/classroom/layouts.md shows them."
_WHO = r"(?:(?P<name>.*?[^_])_)??(?:(?P<late>LATE)_)?(?P<id>(?<![^_])\d{1,18}|anon_[A-Za-z0-9]+)"
_CANVAS_FILE = re.compile(_WHO + r"_(?P<upload>\d{1,18})_(?P<file>.+)", re.DOTALL)
_CANVAS_TEXT = re.compile(_WHO + r"_(?:text|link)(?:-\d+)?\.html", re.DOTALL)
_MOODLE_NAME = re.compile(
    r"(?P<name>.*?)(?:_(?P<id>\d{1,18}))?_assignsubmission_(?P<kind>[a-z]+?)(?:_(?P<file>.*))?", re.DOTALL
)

Parts = tuple[str, ...]


@dataclass(frozen=True)
class Person:
    """A student, as names and platforms know them."""

    key: str
    best_id: str
    """Preferred `Student.id`, if it is not taken."""
    name: str = ""
    email: str = ""
    platform_id: str = ""


@dataclass(frozen=True)
class FilePlace:
    """The owner of a file, and the rest of its path."""

    people: tuple[Person, ...] = ()
    """The student; several for a group."""
    path: Parts = ()
    """Folders, zips and the file's name below the student; empty for the student's own zip."""
    exercise: Exercise | None = None
    """None if the layout has no exercises."""
    submitted_at: str = ""
    """ISO 8601, UTC; empty if unknown."""
    number: int = 0
    """Upload number; later uploads have larger numbers."""
    earlier: int = 0
    """Number of earlier attempts that are not in the export."""
    late: bool = False
    upload: str = ""
    """Platform's name for uploads of feedback to the student; see `Student.upload`."""
    why: str = ""
    """Sentence with the reason why the file has no owner or cannot be graded; empty for a file to grade."""


Layout = Callable[[Sequence[str]], FilePlace]
"""Finds the owner of a file by its path."""


def canvas(parts: Sequence[str]) -> FilePlace:
    """Place names such as `roekim_LATE_12345_67890_name.py`, or `anon_x1Yz_67890_name.py` if marking is anonymous.

    The parts are the student's name, a mark for late files, the user's number, the upload's number, and the file's
    name. Canvas appends `-2` and so on to the name of a later upload.
    """
    match = match_canvas(parts[0])
    if match is None:
        return FilePlace(path=tuple(parts), why="Canvas does not give such names.")
    number = match["id"] if match["id"].isdecimal() else ""  # Canvas cannot import marks of `anon_x1Yz`
    person = Person(match["id"], match["id"], match["name"] or "", platform_id=number)
    late = match["late"] is not None
    if "file" not in match.re.groupindex:
        why = "It is text or a link typed into Canvas, not a file: it cannot be graded."
        return FilePlace((person,), tuple(parts[1:]), late=late, why=why)
    # Feedback is text, so it cannot have the name of a PDF.
    upload = parts[0] if is_program(parts[0]) or is_zip_name(parts[0]) else ""
    return FilePlace((person,), (match["file"], *parts[1:]), number=int(match["upload"]), late=late, upload=upload)


def match_canvas(name: str) -> re.Match[str] | None:
    """Match the parts of a file's name; None if Canvas did not give it."""
    match = _CANVAS_FILE.fullmatch(name) or _CANVAS_TEXT.fullmatch(name)
    if match is None or (match["name"] is None and not match["late"] and not match["id"].startswith("anon_")):
        return None  # `05_01_one_big_copy.py` has no owner
    return match


def files(parts: Sequence[str], names: ExerciseNames, default: Exercise | None) -> FilePlace:
    """Place files such as `EXERCISE/STUDENT.py`, `EXERCISE/STUDENT/solution.py` and `STUDENT__EXERCISE.py`."""
    stem = without_program_ending(parts[-1])
    student, mark, name = stem.rpartition("__")
    if mark and student and (exercise := names.named(name)):
        return FilePlace((_person(student),), (parts[-1],), exercise)
    for number, name in enumerate(parts[:-1], 1):
        if not (exercise := names.named(without_ending(name, ".zip"))):
            continue
        rest = parts[number:]
        if len(rest) > 1:
            return FilePlace((_person(without_ending(rest[0], ".zip")),), tuple(rest[1:]), exercise)
        if is_program(parts[-1]) or is_zip_name(parts[-1]):
            return FilePlace((_person(stem),), (parts[-1],), exercise)
        return FilePlace(
            path=tuple(parts), why="Its name is not a student's, and it is neither a Python file nor a notebook."
        )
    if default is not None and len(parts) == 1:
        return FilePlace((_person(stem),), (parts[-1],), default)
    return FilePlace(path=tuple(parts), why="Its name is neither EXERCISE/STUDENT.py nor STUDENT__EXERCISE.py.")


def _person(name: str) -> Person:
    """Identify a student by the exact name: `kim (1)` may be another Kim, whose file a browser renamed."""
    return Person(name, name)


def folders(parts: Sequence[str]) -> FilePlace:
    """Place files in a folder or a zip for each student."""
    first, *rest = parts
    if not rest and not is_zip_name(first):
        return FilePlace(path=(first,), why="It is in no student's folder.")
    return FilePlace((_person(without_ending(first, ".zip")),), tuple(rest))


class Gradescope:
    """Folders such as `submission_123`. A metadata file gives each student's name, and `sid` or address."""

    def __init__(self, submissions: Mapping[str, GradescopeSubmission]) -> None:
        self._submissions = submissions
        self._sids = {
            submitter.email.casefold(): submitter.sid
            for submission in submissions.values()
            for submitter in submission.submitters
            if submitter.email and submitter.sid
        }

    def __call__(self, parts: Sequence[str]) -> FilePlace:
        first, *rest = parts
        if first == METADATA:
            return FilePlace(path=(first,), why="It lists the owners of the submissions, and gpututor has read it.")
        submission = self._submissions.get(without_ending(first, ".zip"))
        if submission is None:
            return FilePlace(path=tuple(parts), why=f"{METADATA} does not name it.")
        submitters = [
            submitter for submitter in submission.submitters if submitter.sid or submitter.email or submitter.name
        ]
        people = tuple(dict.fromkeys(self._person(submitter, submission.group) for submitter in submitters))
        if not people:
            return FilePlace(path=tuple(parts), why=f"{METADATA} names no student for it.")
        return FilePlace(people, tuple(rest), submitted_at=submission.created_at, earlier=submission.earlier)

    def _person(self, submitter: Submitter, group: str) -> Person:
        name, email = submitter.name, submitter.email
        sid = submitter.sid or self._sids.get(email.casefold(), "")  # it may be missing in some submissions
        best = sid or email.casefold() or name
        return Person(best if sid or email else f"{name} {group}", best, name, email, sid)


def moodle(parts: Sequence[str]) -> FilePlace:
    """Place names such as `Kim Roe_12_assignsubmission_file_/name.py`.

    The number is the participant's or group's, as in the grading worksheet. Text that was typed into Moodle is in
    `…_assignsubmission_onlinetext_/onlinetext.html`.
    """
    match = _MOODLE_NAME.fullmatch(parts[0])
    if match is None:
        return FilePlace(path=tuple(parts), why="Moodle does not give such names.")
    number, name = match["id"] or "", match["name"].strip()
    person = Person(number or name, number or name, name, platform_id=number)
    end = "" if match["file"] is None else "_"
    # Without a number, Moodle accepts no feedback.
    upload = f"{parts[0][: match.start('kind')]}file{end}" if number else ""
    if match["kind"] != "file":
        why = "It is text typed into Moodle, not a file: it cannot be graded."
        return FilePlace((person,), tuple(parts[1:]), upload=upload, why=why)
    return FilePlace((person,), tuple(part for part in (match["file"], *parts[1:]) if part), upload=upload)


def detect_layout(
    tree: ArchiveTree, names: ExerciseNames, layout: str, *, one_exercise: bool
) -> tuple[str, ArchiveTree]:
    """Detect the layout, unless given, and the folder that contains everything. Raises `UsageError` if unclear."""
    if layout not in (AUTO, *LAYOUTS):
        raise UsageError(f"There is no layout called {layout!r}.", f"The layouts are {AUTO}, {', '.join(LAYOUTS)}.")
    paths = [
        entry.parts if entry.kind is not EntryKind.FOLDER else (*entry.parts, "")
        for entry in islice(tree.entries(open_zips=False), _MOST_ENTRIES)
        if entry.kind not in (EntryKind.NOISE, EntryKind.PLACE)
    ]
    may_hold_programs = not tree.path.is_dir() and layout != "folders"
    if wrapper := _wrapper(paths, names, may_hold_programs):
        tree, paths = replace(tree, wrapper=wrapper), [path[1:] for path in paths]
    if not any(is_program(path[-1]) or is_zip_name(path[-1]) for path in paths):
        raise UsageError(
            f"{tree.path} contains no Python files, notebooks or zips.", "Name the folder or the zip of the class."
        )
    return layout if layout != AUTO else _detect(paths, names, tree, one_exercise), tree


def _wrapper(paths: list[Parts], names: ExerciseNames, may_hold_programs: bool) -> Parts:
    """Return the folder that contains everything; empty if there is none, or it is a student's or an exercise's.

    `may_hold_programs`: True if the folder may contain programs named after students, as in zips.
    """
    tops = {path[0] for path in paths}
    if len(tops) != 1 or any(len(path) < 2 for path in paths):
        return ()
    folder = tops.pop()
    inside = [path[1:] for path in paths]
    if _is_of_platform(path[0] for path in inside):
        return (folder,)
    if _MOODLE_NAME.fullmatch(folder) or _is_of_course(folder, names) or _is_workspace(inside, names):
        return ()
    has_unowned_program = any(
        len(path) == 1 and is_program(path[0]) and match_canvas(path[0]) is None and not _names_both(path[0], names)
        for path in inside
    )
    is_one_file = len(inside) == len(inside[0]) == 1
    return () if not may_hold_programs and (has_unowned_program or is_one_file) else (folder,)


def _is_of_course(name: str, names: ExerciseNames) -> bool:
    return names.is_lesson(name) or names.named(name) is not None


def _is_workspace(paths: Iterable[Parts], names: ExerciseNames) -> bool:
    """Return True for the files of one student: exercises by name, at the top or in folders of lessons."""
    return any(
        is_program(path[-1])
        and (len(path) == 1 or (len(path) == 2 and names.is_lesson(path[0])))
        and names.at(path) is not None
        for path in paths
    )


def _detect(paths: list[Parts], names: ExerciseNames, tree: ArchiveTree, one_exercise: bool) -> str:
    by_top: dict[str, list[Parts]] = defaultdict(list)
    for path in paths:
        by_top[path[0]].append(path[1:])
    if METADATA in by_top:
        return "gradescope"
    platforms = {
        "moodle": sum(_MOODLE_NAME.fullmatch(name) is not None for name in by_top),
        "canvas": sum(match_canvas(name) is not None and not _names_both(name, names) for name in by_top),
    }
    layout, count = max(platforms.items(), key=lambda item: item[1])
    if count * 2 >= len(by_top):
        return layout
    if count:
        title = f"{tree.path}: {count} of {len(by_top)} names look like {layout.capitalize()}'s."
        raise UsageError(title, _CHOOSE)
    if _is_workspace(paths, names):
        raise UsageError(
            f"{tree.path} looks like the files of one student.",
            "Move them to a folder with the student's name, then name the folder that contains it.",
        )
    named = [name for name, below in by_top.items() if _has_files_of_students(name, below, names, one_exercise)]
    students = {
        name: below for name, below in by_top.items() if name not in named and (is_zip_name(name) or any(below))
    }
    if named and students:
        which = f"{named[0]!r} looks like the layout `files`, and {next(iter(students))!r} like `folders`"
        raise UsageError(f"{tree.path}: {which}.", _CHOOSE)
    if not named and not students:
        raise UsageError(
            f"{tree.path} has no known layout: {paths[0][0]!r} names no exercise of this course and no student.",
            f"If the submissions are for another course, name it with --course DIR. {_CHOOSE}",
        )
    if len(paths) == 1 and is_zip_name(paths[0][-1]) and students:
        students = {paths[0][-1]: _in_only_zip(tree, paths[0])}
    groups = [name for name, below in students.items() if _may_be_group(below, names)]
    if len(groups) * 2 > len(students):
        raise UsageError(
            f"{tree.path}: {groups[0]!r} may contain several students, or a whole class.",
            f"If it does, name {groups[0]!r} instead. If it belongs to one student, use --layout folders.",
        )
    return "files" if named else "folders"


def _is_of_platform(names: Iterable[str]) -> bool:
    tops = set(names)
    given = sum(_MOODLE_NAME.fullmatch(name) is not None or match_canvas(name) is not None for name in tops)
    return METADATA in tops or (given > 0 and 2 * given >= len(tops))


def _names_both(name: str, names: ExerciseNames) -> bool:
    """Return True for a name such as `STUDENT__EXERCISE.py`."""
    student, mark, exercise = without_program_ending(name).rpartition("__")
    return bool(mark and student) and names.named(exercise) is not None


def _has_files_of_students(name: str, below: list[Parts], names: ExerciseNames, one_exercise: bool) -> bool:
    """Return True if the files below this name are named after students."""
    if not any(below):
        return is_program(name) and (one_exercise or _names_both(name, names))
    return _is_of_course(name, names)


def _in_only_zip(tree: ArchiveTree, only: Parts) -> list[Parts]:
    """List the files in the only zip of a class, below the folder that contains them all."""
    entries = islice(tree.entries(), _MOST_ENTRIES)
    inside = [
        entry.parts[len(only) :] for entry in entries if entry.kind is EntryKind.FILE and len(entry.parts) > len(only)
    ]
    is_wrapped = len({path[0] for path in inside}) == 1 and all(len(path) > 1 for path in inside)
    return [path[1:] for path in inside] if is_wrapped else inside


def _may_be_group(below: list[Parts], names: ExerciseNames) -> bool:
    """Return True if a student's folder looks like a whole group.

    It has names that a platform gives, or several folders but neither a program nor a name of the course.
    """
    tops = {path[0] for path in below if path}
    if _is_of_platform(tops):
        return True
    folders = {path[0] for path in below if len(path) > 1}
    return len(folders) > 1 and not any(_is_of_course(top, names) or is_program(top) for top in tops)
