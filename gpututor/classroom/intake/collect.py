"""From files to submissions: attempts, their content, and the exercise that each belongs to."""

from __future__ import annotations

import codecs
import hashlib
import os
import tempfile
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from gpututor.classroom.folder import ClassFolder
from gpututor.classroom.intake.archive import Entry, Kind, Packed, Refused, is_zip_name
from gpututor.classroom.intake.layouts import METADATA, Layout, Person, Place
from gpututor.classroom.intake.names import (
    ExerciseNames,
    normal,
    oddity,
    one_line,
    order_of_copies,
    plain,
    says_nothing,
    shown_source,
    unique_ids,
    without_copy_mark,
    without_ending,
)
from gpututor.classroom.submissions import PLATFORMS, Student, Submission, Unmatched
from gpututor.course.model import MAX_SUBMISSION_BYTES, Exercise
from gpututor.text import truncate

_OTHER_ENCODINGS = (  # the longer marks first: one begins as another does
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)


@dataclass(frozen=True)
class Content:
    """What is in a file."""

    sha256: str
    """Empty where it was not read, or not to its end."""
    refusal: str = ""
    size: int = 0


def kept(entry: Entry, folder: ClassFolder) -> Content:
    """Read a file, and keep it below its digest if it can be graded. Raises `OSError` where it cannot be kept."""
    try:
        with entry.open() as stream:
            content = stream.read(MAX_SUBMISSION_BYTES + 1)
    except Refused as error:
        return Content("", str(error))
    except OSError as error:
        return Content("", f"It cannot be read: {(error.strerror or 'unknown error').lower()}.")
    if len(content) > MAX_SUBMISSION_BYTES:
        size_mib = MAX_SUBMISSION_BYTES >> 20
        return Content("", f"The file is over {size_mib} MiB: a solution is a short Python file.", len(content))
    refusal = refusal_of(content)
    content = content.removeprefix(codecs.BOM_UTF8)  # it says nothing, and the grader is given text
    digest = hashlib.sha256(content).hexdigest()
    if not refusal:
        _keep(content, folder.submission(digest))
    return Content(digest, refusal, len(content))


def refusal_of(content: bytes) -> str:
    """Why these bytes are no program, a sentence; empty where they may be one."""
    for mark, name in _OTHER_ENCODINGS:
        if content.startswith(mark):
            return f"The file is {name}, and must be UTF-8."
    if not content.removeprefix(codecs.BOM_UTF8).strip():
        return "The file is empty."
    if (at := content.find(b"\0")) >= 0:
        return f"The file holds NUL bytes (the first is byte {at + 1}): it is no Python file."
    try:
        content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        return f"The file is not UTF-8: byte {error.start + 1}, in line {line}, is 0x{content[error.start]:02x}."
    return ""


def _keep(content: bytes, path: Path) -> None:
    """Whole or not at all. Not flushed to the disk: what a power cut spoils is mended when the class is read again."""
    with suppress(OSError):
        if path.stat().st_size == len(content) and path.read_bytes() == content:
            return
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=".", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
        os.replace(name, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise


MOST_ATTEMPTS = 10
"""Of one student at one exercise, handed in at one time. Each is graded with other inputs: nobody is to hand in a
thousand, and have luck with one."""


@dataclass(frozen=True)
class Found:
    """A file for an exercise."""

    people: tuple[str, ...]
    """Their keys."""
    exercise: str
    source: str
    content: Content
    place: Place
    order: tuple[str, int, int, float, str]
    """In the order of time, as far as anything tells it."""
    stem: str
    """Of its name, without the mark of a copy."""
    is_named: bool
    """Whether its name says which exercise it is; else everything was said to be for one."""


Left = list[tuple[Found, str]]
"""Files that do not count, each with a sentence why."""


def attempts(several: Sequence[Found]) -> tuple[list[Found], Left]:
    """Those that count, in the order of time, and the others."""
    by_time: dict[str, list[Found]] = defaultdict(list)
    for found in several:
        by_time[found.place.submitted_at].append(found)
    meant: list[Found] = []
    left: Left = []
    for together in by_time.values():
        named, others = _meant(together)
        meant += named
        left += others
    counted: dict[tuple[str, str], Found] = {}
    for found in sorted(meant, key=lambda found: found.order):
        first = counted.setdefault((found.content.sha256 or found.source, found.place.submitted_at), found)
        if first is not found:
            left.append((found, f"It is the same as {first.source}, which counts."))
    number_of = Counter(found.place.submitted_at for found in counted.values())
    some: list[Found] = []
    for found in counted.values():
        number_of[found.place.submitted_at] -= 1
        if number_of[found.place.submitted_at] < MOST_ATTEMPTS:
            some.append(found)
        else:
            left.append((found, f"Of files for one exercise the last {MOST_ATTEMPTS} count, and this one is older."))
    return some, left


def _meant(together: list[Found]) -> tuple[list[Found], Left]:
    """Choose the files that are meant for the exercise by their names, of those with the same time."""
    exercise = together[0].exercise
    if meant := [found for found in together if found.is_named]:
        why = f"Another file is called after {exercise}, and this one is not."
        return meant, [(found, why) for found in together if not found.is_named]
    if not (read := [found for found in together if found.content.sha256]):
        return together, []
    usual = [found for found in read if says_nothing(found.stem)]
    meant = next((some for some in (read, usual) if len({found.stem for found in some}) == 1), [])
    why = f"There are several files, and {'this one is not' if meant else 'none is'} called after {exercise}."
    return meant, [(found, found.content.refusal or why) for found in together if found not in meant]


MOST_FILES = 1_000
"""Of one student."""
MOST_BYTES = 64 << 20
"""That are read of one student's files."""
_LONGEST_NAME = 200
_ARCHIVES = (".tar", ".gz", ".tgz", ".7z", ".rar", ".bz2", ".xz")


@dataclass
class _Share:
    """What was read of one student's."""

    files: int = 0
    size: int = 0


class SubmissionCollector:
    """Takes one entry after the other, and keeps nothing of their bytes."""

    def __init__(self, layout: Layout, names: ExerciseNames, folder: ClassFolder, exercise: Exercise | None) -> None:
        self._layout = layout
        self._names = names
        self._folder = folder
        self._exercise = exercise
        self._people: dict[str, Person] = {}
        self._shares: dict[str, _Share] = defaultdict(_Share)
        self._found: list[Found] = []
        self.unmatched: list[Unmatched] = []
        """With their students by their keys, and from `finished` on by their ids."""
        self.ignored = 0

    def take(self, entry: Entry) -> None:
        """Raises `OSError` where a file cannot be kept."""
        # A folder is told from a file by the empty name after it.
        is_folder = entry.kind in (Kind.FOLDER, Kind.PLACE)
        place = self._layout.place((*entry.parts, "") if is_folder else entry.parts)
        for person in place.people:
            self._meet(person, entry.packed)
        if entry.kind is Kind.PLACE:
            return None
        if entry.kind is Kind.NOISE or entry.parts == (METADATA,):
            self.ignored += 1
            return None
        if place.why:
            return self._leave(entry, place, entry.refusal or place.why)
        if entry.kind is not Kind.FILE:
            return self._take_unopened(entry, place)
        name = entry.parts[-1].casefold()
        if not name.endswith(".py"):
            other = "Of archives only zips are opened." if name.endswith(_ARCHIVES) else "It is no Python file."
            return self._leave(entry, place, entry.refusal or other)
        return self._take_file(entry, place)

    def _meet(self, person: Person, packed: Packed | None) -> None:
        known = self._people.get(person.key, person)
        name = known.name or person.name
        if not name and packed is not None and self._layout.name not in PLATFORMS:
            name = packed.student
        self._people[person.key] = replace(known, name=name, email=known.email or person.email)

    def _leave(self, entry: Entry, place: Place, why: str, *, packed_for: str = "") -> None:
        students = tuple(person.key for person in place.people)
        source = shown_source(entry.source)
        self.unmatched.append(Unmatched(source, one_line(why), students, packed_for=packed_for))

    def _take_unopened(self, entry: Entry, place: Place) -> None:
        exercise = place.exercise
        if exercise is None and place.path:
            exercise = self._names.named(plain(without_ending(place.path[-1], ".zip")))
        is_named = exercise is not None
        exercise = exercise or self._exercise
        if entry.kind is Kind.FOLDER or exercise is None:
            return self._leave(entry, place, entry.refusal)
        return self._add(entry, place, exercise, Content("", entry.refusal), is_named)

    def _take_file(self, entry: Entry, place: Place) -> None:
        path = tuple(map(plain, place.path))
        if (packed := entry.packed) is not None and self._is_of_another(packed):
            name = truncate(one_line(packed.course), 60)
            return self._leave(entry, place, f"It was packed for the course {name!r}.", packed_for=name)
        exercise = place.exercise or self._names.at(path) or self._as_packed(entry)
        is_named = exercise is not None
        if self._exercise is not None:
            if exercise is not None and exercise.key != self._exercise.key:
                return self._leave(entry, place, f"It is for {exercise.key}, and only {self._exercise.key} is graded.")
            exercise = self._exercise
        if exercise is None:
            return self._leave(entry, place, entry.refusal or self._no_exercise(path))
        refusal = entry.refusal or oddity(place.path) or self._too_much(place)
        content = Content("", refusal) if refusal else kept(entry, self._folder)
        for person in place.people:
            self._shares[person.key].files += 1
            self._shares[person.key].size += content.size
        return self._add(entry, place, exercise, content, is_named)

    def _no_exercise(self, path: tuple[str, ...]) -> str:
        why = "No exercise is called that."
        if (meant := self._names.nearly(path)) is None:
            return why
        return f"{why} Did you mean {meant.label} {meant.slug}? Rename it to {meant.slug}.py."

    def _is_of_another(self, packed: Packed) -> bool:
        course = self._names.course
        return bool(packed.course and course.id) and packed.course != course.id

    def _as_packed(self, entry: Entry) -> Exercise | None:
        if entry.packed is None:
            return None
        zips = [number for number, name in enumerate(entry.parts) if is_zip_name(name)]
        inside = "/".join(entry.parts[zips[-1] + 1 :] if zips else entry.parts)
        return self._names.with_key(dict(entry.packed.exercises).get(inside, ""))

    def _too_much(self, place: Place) -> str:
        for person in place.people:
            share = self._shares[person.key]
            if share.files >= MOST_FILES:
                return f"It is not read: {MOST_FILES} files of this student were."
            if share.size >= MOST_BYTES:
                return f"It is not read: {MOST_BYTES >> 20} MiB of this student's were."
        return ""

    def _add(self, entry: Entry, place: Place, exercise: Exercise, content: Content, is_named: bool) -> None:
        path = place.path or entry.parts
        order = (place.submitted_at, place.number, order_of_copies(path), entry.changed_at, entry.source)
        stem = normal(without_copy_mark(without_ending(path[-1], ".py")))
        keys = tuple(person.key for person in place.people)
        self._found.append(Found(keys, exercise.key, shown_source(entry.source), content, place, order, stem, is_named))

    def finished(self) -> tuple[tuple[Student, ...], tuple[Submission, ...]]:
        """The students by their ids, and what they handed in: by student, exercise and attempt."""
        ids = unique_ids((person.key, person.best_id) for person in self._people.values())
        students = [
            Student(
                id=ids[key],
                name=_short(person.name),
                email=_short(person.email),
                platform_id=_short(person.platform_id),
            )
            for key, person in self._people.items()
        ]
        by_whom: dict[tuple[str, str], list[Found]] = defaultdict(list)
        for found in self._found:
            for key in found.people:
                by_whom[key, found.exercise].append(found)
        self.unmatched = [replace(each, students=tuple(ids[key] for key in each.students)) for each in self.unmatched]
        handed_in: list[Submission] = []
        told: set[str] = set()
        for (key, _), several in by_whom.items():
            handed_in += self._attempts(ids[key], several, told)
        order = {exercise.key: number for number, exercise in enumerate(self._names.course.exercises)}
        handed_in.sort(key=lambda one: (one.student.casefold(), one.student, order[one.exercise], one.attempt))
        return tuple(sorted(students, key=lambda student: (student.id.casefold(), student.id))), tuple(handed_in)

    def _attempts(self, student: str, several: list[Found], told: set[str]) -> list[Submission]:
        """Those that count, numbered; the others are told to be unmatched, once for a group."""
        counted, left = attempts(several)
        for found, why in left:
            if found.source not in told:
                told.add(found.source)
                self.unmatched.append(
                    Unmatched(found.source, one_line(why), (student,), found.exercise if counted else "")
                )
        return [
            Submission(
                student=student,
                exercise=found.exercise,
                source=found.source,
                sha256=found.content.sha256,
                submitted_at=found.place.submitted_at,
                attempt=found.place.earlier + number if number == len(counted) else number,
                late=found.place.late,
                refusal=one_line(found.content.refusal),
            )
            for number, found in enumerate(counted, 1)
        ]


def _short(text: str) -> str:
    return truncate(one_line(text.strip()), _LONGEST_NAME)
