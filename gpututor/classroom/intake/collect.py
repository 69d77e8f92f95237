"""Submissions made from files: attempts, their content, and the exercise that each belongs to."""

from __future__ import annotations

import codecs
import hashlib
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from gpututor.classroom.folder import ClassFolder
from gpututor.classroom.intake.archive import (
    ArchiveEntry,
    EntryKind,
    PackManifest,
    Refused,
    is_zip_name,
    why_unreadable,
)
from gpututor.classroom.intake.layouts import METADATA, FilePlace, Layout, Person
from gpututor.classroom.intake.names import (
    ExerciseNames,
    copy_number,
    is_generic,
    is_program,
    normal,
    oddity,
    one_line,
    plain,
    shown_source,
    unique_ids,
    without_copy_mark,
    without_ending,
    without_program_ending,
)
from gpututor.classroom.submissions import PLATFORMS, Student, Submission, Unmatched
from gpututor.course.model import MAX_SUBMISSION_BYTES, Exercise
from gpututor.course.notebooks import ENDING, MAX_NOTEBOOK_BYTES, NotebookError, program_of
from gpututor.files import temporary_file_for
from gpututor.text import truncate

MOST_ATTEMPTS = 10
"""Attempts of a student at an exercise with the same time. Each is graded with other inputs: a thousand attempts would
give the student many chances."""
MOST_FILES = 1_000
"""Files of one student."""
MOST_BYTES = 64 << 20
"""Bytes that are read of one student's files."""
_LONGEST_NAME = 200
_MOST_LEFT_OUT = 20
"""Lines of a notebook that are kept as left out."""
_ARCHIVES = (".tar", ".gz", ".tgz", ".7z", ".rar", ".bz2", ".xz")
_COURSE_FILES = ("starter", "solution")
"""Names of the course's own programs, in the folder of their exercise."""
_OTHER_ENCODINGS = (  # longer marks first: UTF-32's starts with UTF-16's
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)


def refusal_of(content: bytes) -> str:
    """Return a sentence if these bytes cannot be a program; otherwise an empty text."""
    for mark, name in _OTHER_ENCODINGS:
        if content.startswith(mark):
            return f"The file is {name}, but must be UTF-8."
    if not content.removeprefix(codecs.BOM_UTF8).strip():
        return "The file is empty."
    if (at := content.find(b"\0")) >= 0:
        return f"The file contains NUL bytes (the first is byte {at + 1}), so it is not a Python file."
    try:
        content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        return f"The file is not UTF-8: byte {error.start + 1}, in line {line}, is 0x{content[error.start]:02x}."
    return ""


@dataclass(frozen=True)
class _Content:
    sha256: str
    """Empty if it was not read, or not to its end."""
    refusal: str = ""
    size: int = 0
    left_out: tuple[str, ...] = ()
    """A `Submission.left_out`."""


def _read_content(entry: ArchiveEntry, folder: ClassFolder, exercise: Exercise) -> _Content:
    """Read a file, or the program in a notebook. Store it below its digest if it can be graded.

    Raises `OSError` if it cannot be stored.
    """
    is_notebook = entry.parts[-1].casefold().endswith(ENDING)
    limit = MAX_NOTEBOOK_BYTES if is_notebook else MAX_SUBMISSION_BYTES
    try:
        with entry.open() as stream:
            content = stream.read(limit + 1)
    except Refused as error:
        return _Content("", str(error))
    except OSError as error:
        return _Content("", why_unreadable(error))
    size = len(content)
    left_out: tuple[str, ...] = ()
    if is_notebook:
        try:
            program = program_of(content, exercise.entry)
        except NotebookError as error:
            return _Content(hashlib.sha256(content).hexdigest(), str(error), size)
        content, left_out = program.text.encode(), program.left_out[:_MOST_LEFT_OUT]
    elif size > MAX_SUBMISSION_BYTES:
        size_mib = MAX_SUBMISSION_BYTES >> 20
        return _Content("", f"The file is over {size_mib} MiB: a solution is a short Python file.", size)
    refusal = refusal_of(content)
    content = content.removeprefix(codecs.BOM_UTF8)  # the grader receives text
    digest = hashlib.sha256(content).hexdigest()
    if not refusal:
        _store(content, folder.submission(digest))
    return _Content(digest, refusal, size, tuple(truncate(one_line(line), _LONGEST_NAME) for line in left_out))


def _store(content: bytes, path: Path) -> None:
    """Write the file, without flushing it: after a power cut, reading the class again repairs it."""
    with suppress(OSError):  # there is no file yet, or a broken one: write it
        if path.stat().st_size == len(content) and path.read_bytes() == content:
            return
    with temporary_file_for(path, content, sync=False) as part:
        part.replace(path)


@dataclass(frozen=True)
class _File:
    people: tuple[str, ...]
    """Keys of the students."""
    exercise: str
    source: str
    content: _Content
    place: FilePlace
    order: tuple[str, int, int, float, str]
    """Sort key for the order of time, if it is known."""
    stem: str
    """Normalized name without the mark of a copy."""
    is_named: bool
    """True if its name gives the exercise; otherwise the instructor chose one for all files."""
    is_beside: bool
    """True in a folder `tests`, and for the course's own starter or solution: then other files count before it."""


_Unused = list[tuple[_File, str]]
"""Files that do not count, each with a sentence that gives the reason."""


def _key(file: _File) -> tuple[str, str]:
    """Return the text and the time of a file. Of files that follow each other and share both, the first counts."""
    return file.content.sha256 or file.source, file.place.submitted_at


def _attempts(files: Sequence[_File]) -> tuple[list[tuple[int, _File]], _Unused]:
    """Split one student's files for one exercise into attempts with their numbers, and unused files.

    Attempts are in the order of time. Of too many with one time, the first ones and the last one count, so that no
    further file changes the first attempts, to which the rules may limit the student.
    """
    real = {file.is_named for file in files if not file.is_beside}
    why = "It is a test, or the course's own file, and the student has another file for the exercise."
    unused: _Unused = []
    by_time: dict[str, list[_File]] = defaultdict(list)
    for file in files:
        if file.is_beside and (True in real or file.is_named in real):  # a helper is no solution
            unused.append((file, why))
        else:
            by_time[file.place.submitted_at].append(file)
    solutions: list[_File] = []
    for same_time in by_time.values():
        chosen, others = _solutions(same_time)
        solutions += chosen
        unused += others
    distinct: list[_File] = []
    for file in sorted(solutions, key=lambda file: file.order):
        if distinct and _key(file) == _key(distinct[-1]):
            unused.append((file, f"It is the same as {distinct[-1].source}, which counts."))
        else:
            distinct.append(file)
    left = Counter(file.place.submitted_at for file in distinct)
    seen = Counter[str]()
    attempts: list[tuple[int, _File]] = []
    for number, file in enumerate(distinct, 1):
        at = file.place.submitted_at
        seen[at] += 1
        left[at] -= 1
        if seen[at] < MOST_ATTEMPTS or not left[at]:
            attempts.append((number, file))
        else:
            files_that_count = f"Only the first {MOST_ATTEMPTS - 1} files for an exercise and the last one count"
            unused.append((file, f"{files_that_count}, and this file is between them."))
    return attempts, unused


def _solutions(same_time: list[_File]) -> tuple[list[_File], _Unused]:
    """Choose the solutions among files with the same time, by their names."""
    exercise = same_time[0].exercise
    if named := [file for file in same_time if file.is_named]:
        why = f"Another file is named after {exercise}, but this file is not."
        return named, [(file, why) for file in same_time if not file.is_named]
    if not (read := [file for file in same_time if file.content.sha256]):
        return same_time, []
    generic = [file for file in read if is_generic(file.stem)]
    chosen = next((files for files in (read, generic) if len({file.stem for file in files}) == 1), [])
    why = f"There are several files, and {'this one is not' if chosen else 'none is'} named after {exercise}."
    return chosen, [(file, file.content.refusal or why) for file in same_time if file not in chosen]


def _is_beside(path: Sequence[str], stem: str, exercise: Exercise) -> bool:
    """Return True for a file that a student's own program comes before."""
    folders = [normal(name) for name in path[:-1]]
    is_of_course = stem in _COURSE_FILES and folders[-1:] == [normal(exercise.folder.name)]
    return is_of_course or "tests" in folders


def _short(text: str) -> str:
    return truncate(one_line(text.strip()), _LONGEST_NAME)


class SubmissionCollector:
    """Collects a class's submissions from the entries of its export."""

    def __init__(
        self, name: str, layout: Layout, names: ExerciseNames, folder: ClassFolder, exercise: Exercise | None
    ) -> None:
        self._has_names = name in PLATFORMS
        self._layout = layout
        self._names = names
        self._folder = folder
        self._exercise = exercise
        self._people: dict[str, Person] = {}
        self._uploads: dict[str, tuple[int, str]] = {}
        """Number and name of the last upload that feedback can go to, by student."""
        self._counts: Counter[str] = Counter()
        """Files that were read, by student."""
        self._sizes: Counter[str] = Counter()
        """Bytes that were read, by student."""
        self._files: list[_File] = []
        self._unmatched: list[Unmatched] = []
        """Unmatched files, with the keys of their students instead of the ids."""
        self.ignored = 0

    def add(self, entry: ArchiveEntry) -> None:
        """Read an entry. Raises `OSError` if it cannot be stored."""
        # An empty name at the end marks a folder.
        is_folder = entry.kind in (EntryKind.FOLDER, EntryKind.PLACE)
        place = self._layout((*entry.parts, "") if is_folder else entry.parts)
        for person in place.people:
            self._add_person(person, entry.packed)
            if place.upload:
                upload = (place.number, place.upload)
                self._uploads[person.key] = max(self._uploads.get(person.key, upload), upload)
        if entry.kind is EntryKind.PLACE:
            return None
        if entry.parts == (METADATA,):
            return None  # it has been read already
        if entry.kind is EntryKind.NOISE:
            self.ignored += 1
            return None
        if place.why:
            return self._skip(entry, place, entry.refusal or place.why)
        if entry.kind is not EntryKind.FILE:
            return self._add_unopened(entry, place)
        name = entry.parts[-1].casefold()
        if not is_program(name):
            other = (
                "Zips are the only archives that are opened."
                if name.endswith(_ARCHIVES)
                else "It is neither a Python file nor a notebook."
            )
            return self._skip(entry, place, entry.refusal or other)
        return self._add_file(entry, place)

    def _add_person(self, person: Person, packed: PackManifest | None) -> None:
        known = self._people.get(person.key, person)
        name = known.name or person.name
        if not name and packed is not None and not self._has_names:
            name = packed.student
        self._people[person.key] = replace(known, name=name, email=known.email or person.email)

    def _skip(self, entry: ArchiveEntry, place: FilePlace, why: str, *, packed_for: str = "") -> None:
        students = tuple(person.key for person in place.people)
        self._unmatched.append(Unmatched(shown_source(entry.source), one_line(why), students, packed_for=packed_for))

    def _add_unopened(self, entry: ArchiveEntry, place: FilePlace) -> None:
        exercise = place.exercise
        if exercise is None and place.path:
            exercise = self._names.named(plain(without_ending(place.path[-1], ".zip")))
        is_named = exercise is not None
        exercise = exercise or self._exercise
        if entry.kind is EntryKind.FOLDER or exercise is None:
            return self._skip(entry, place, entry.refusal)
        return self._add(entry, place, exercise, _Content("", entry.refusal), is_named)

    def _add_file(self, entry: ArchiveEntry, place: FilePlace) -> None:
        path = tuple(map(plain, place.path))
        course = self._names.course
        if (packed := entry.packed) is not None and packed.course and course.id and packed.course != course.id:
            name = truncate(one_line(packed.course), 60)
            return self._skip(entry, place, f"It was packed for the course {name!r}.", packed_for=name)
        exercise = place.exercise or self._names.at(path) or self._as_packed(entry)
        is_named = exercise is not None
        if self._exercise is not None:
            if exercise is not None and exercise.key != self._exercise.key:
                return self._skip(entry, place, f"It is for {exercise.key}, and only {self._exercise.key} is graded.")
            exercise = self._exercise
        if exercise is None:
            return self._skip(entry, place, entry.refusal or self._no_exercise(path))
        refusal = entry.refusal or oddity(place.path) or self._over_limit(place)
        content = _Content("", refusal) if refusal else _read_content(entry, self._folder, exercise)
        for person in place.people:
            self._counts[person.key] += 1
            self._sizes[person.key] += content.size
        return self._add(entry, place, exercise, content, is_named)

    def _no_exercise(self, path: tuple[str, ...]) -> str:
        why = "No exercise has this name."
        if (similar := self._names.nearly(path)) is None:
            return why
        return f"{why} Did you mean {similar.label} {similar.slug}? Rename it to {similar.slug}.py."

    def _as_packed(self, entry: ArchiveEntry) -> Exercise | None:
        if entry.packed is None:
            return None
        zips = [number for number, name in enumerate(entry.parts) if is_zip_name(name)]
        inside = "/".join(entry.parts[zips[-1] + 1 :] if zips else entry.parts)
        return self._names.with_key(entry.packed.exercises.get(inside, ""))

    def _over_limit(self, place: FilePlace) -> str:
        for person in place.people:
            if self._counts[person.key] >= MOST_FILES:
                return f"It is not read: the limit for a student is {MOST_FILES} files."
            if self._sizes[person.key] >= MOST_BYTES:
                return f"It is not read: the limit for a student is {MOST_BYTES >> 20} MiB."
        return ""

    def _add(
        self, entry: ArchiveEntry, place: FilePlace, exercise: Exercise, content: _Content, is_named: bool
    ) -> None:
        name = without_program_ending((place.path or entry.parts)[-1])
        order = (place.submitted_at, place.number, copy_number(name), entry.changed_at, entry.source)
        keys = tuple(person.key for person in place.people)
        source, stem = shown_source(entry.source), normal(without_copy_mark(name))
        is_beside = _is_beside(place.path, stem, exercise)
        self._files.append(_File(keys, exercise.key, source, content, place, order, stem, is_named, is_beside))

    def _upload_of(self, key: str) -> str:
        """Return the platform's name of the upload, with its numbers, without characters that a zip cannot store."""
        _, name = self._uploads.get(key, (0, ""))
        return name.encode("utf-8", "ignore").decode().replace("\0", "")

    def finish(self) -> tuple[tuple[Student, ...], tuple[Submission, ...], tuple[Unmatched, ...]]:
        """Return the students, their submissions sorted by student, exercise and attempt, and all other files."""
        ids = unique_ids((person.key, person.best_id) for person in self._people.values())
        students = [
            Student(
                ids[key],
                name=_short(person.name),
                email=_short(person.email),
                platform_id=_short(person.platform_id),
                upload=self._upload_of(key),
            )
            for key, person in self._people.items()
        ]
        by_student: dict[tuple[str, str], list[_File]] = defaultdict(list)
        for file in self._files:
            for key in file.people:
                by_student[key, file.exercise].append(file)
        unmatched = [replace(file, students=tuple(ids[key] for key in file.students)) for file in self._unmatched]
        submissions: list[Submission] = []
        unused_sources: set[str] = set()  # a group's file is listed once
        for (key, _), files in by_student.items():
            attempts, unused = _attempts(files)
            submissions += [
                Submission(
                    student=ids[key],
                    exercise=file.exercise,
                    source=file.source,
                    sha256=file.content.sha256,
                    submitted_at=file.place.submitted_at,
                    attempt=file.place.earlier + number,
                    late=file.place.late,
                    refusal=one_line(file.content.refusal),
                    left_out=file.content.left_out,
                )
                for number, file in attempts
            ]
            for file, why in unused:
                if file.source not in unused_sources:
                    unused_sources.add(file.source)
                    exercise = file.exercise if attempts else ""
                    unmatched.append(Unmatched(file.source, one_line(why), (ids[key],), exercise))
        order = {exercise.key: number for number, exercise in enumerate(self._names.course.exercises)}

        def place(submission: Submission) -> tuple[str, str, int, int]:
            student = submission.student
            return student.casefold(), student, order[submission.exercise], submission.attempt

        submissions.sort(key=place)
        students.sort(key=lambda student: (student.id.casefold(), student.id))
        return tuple(students), tuple(submissions), tuple(unmatched)
