"""Names: of files, students and exercises."""

from __future__ import annotations

import hashlib
import os
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from gpututor.course.model import Course, Exercise
from gpututor.text import escape_control_chars, truncate

LONGEST_NAME_BYTES = 255
LONGEST_SOURCE = 300
_LONGEST_ID = 80
_NOISE = {
    "__macosx", ".ds_store", "thumbs.db", "desktop.ini", "__pycache__", "drafts", ".backups", ".gpututor.json",
    "gpututor-pack.json", ".git", ".gitignore", ".idea", ".vscode", ".venv", "venv", ".ipynb_checkpoints",
    ".pytest_cache", ".mypy_cache", ".ruff_cache",
}  # fmt: skip
_NOISE_ENDS = (".pyc", ".swp", ".part", "~")
_COPY_MARK = re.compile(
    r"(?: ?\(\d{1,3}\)|-\d{1,3}| - copy(?: ?\(\d{1,3}\))?| copy(?: \d{1,3})?)$",  # browsers, Canvas, Windows, macOS
    re.IGNORECASE,
)


def one_line(text: str) -> str:
    """`text` with everything that could steer a terminal or end a line written out."""
    return escape_control_chars(text).replace("\n", "\\n").replace("\t", "\\t")


def is_plain(name: str) -> bool:
    return (name.isascii() and name.isprintable()) or one_line(name) == name


def plain(name: str) -> str:
    """`name` without the characters that `one_line` writes out."""
    return name if is_plain(name) else "".join(filter(is_plain, name))


def shown_source(source: str) -> str:
    """Where something was found: one line, its middle left out where it is long."""
    line = one_line(source)
    half = LONGEST_SOURCE // 2
    return line if len(line) <= LONGEST_SOURCE else f"{line[: half - 1]}…{line[-half:]}"


def is_noise(name: str, *, folder: bool) -> bool:
    """Whether a file or folder of this name is what tools leave behind, and nobody hands in."""
    folded = name.casefold()
    return folded in _NOISE or folded.startswith("._") or (not folder and folded.endswith(_NOISE_ENDS))


def normal(name: str) -> str:
    """How names are compared: small letters; spaces, dots, hyphens and underscores are the same."""
    return re.sub(r"[\s._-]+", "_", unicodedata.normalize("NFC", plain(name)).casefold()).strip("_")


def copy_number(stem: str) -> int:
    """The number in `one_big_copy (2)`; 0 where there is no mark of a copy, and 1 for a mark without a number."""
    found = _COPY_MARK.search(stem)
    if found is None:
        return 0
    digits = re.search(r"\d+", found[0])
    return int(digits[0]) if digits else 1


def without_copy_mark(stem: str) -> str:
    return _COPY_MARK.sub("", stem)


def without_ending(name: str, ending: str) -> str:
    return name[: -len(ending)] if name.casefold().endswith(ending) else name


def oddity(parts: Iterable[str]) -> str:
    """Why a path cannot be taken as it is, a sentence; empty where it can."""
    for part in parts:
        if part.isascii() and part.isprintable() and len(part) <= LONGEST_NAME_BYTES:
            continue
        if len(os.fsencode(part) if not _has_lone_surrogate(part) else part) > LONGEST_NAME_BYTES:
            return f"Its name is longer than {LONGEST_NAME_BYTES} bytes."
        if any("\ud800" <= character <= "\udfff" for character in part):
            return "Its name is not UTF-8."
        if not is_plain(part):
            return "Its name holds control characters, or marks that turn the direction of writing."
    return ""


def _has_lone_surrogate(part: str) -> bool:
    """Whether `os.fsencode` cannot encode it: halves of pairs that stand for no byte."""
    return any("\ud800" <= character <= "\udfff" and not "\udc80" <= character <= "\udcff" for character in part)


def unique_ids(wanted: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The ids of students by their keys, of `(key, the id that would be best)`: one line of text, and no path.

    No two are the same to a file system that knows no case; those that would be have some digits of their key's digest.
    """
    best = {key: _as_id(name) for key, name in wanted}
    alone = {name for name, count in Counter(map(normal_id, best.values())).items() if count == 1}
    own = {key: name for key, name in best.items() if normal_id(name) in alone and len(name) < _LONGEST_ID}
    while True:
        numbered = {key: f"{name}-{_digits(key)}" for key, name in best.items() if key not in own}
        taken = {normal_id(name) for name in numbered.values()}
        alike = {key for key, name in own.items() if normal_id(name) in taken}  # called as if digits were added
        if not alike:
            return {key: own.get(key) or numbered[key] for key in best}
        own = {key: name for key, name in own.items() if key not in alike}


def normal_id(name: str) -> str:
    return unicodedata.normalize("NFKC", name).casefold()


def _as_id(name: str) -> str:
    line = re.sub(r"[/\\]", "-", one_line(name.strip()).strip()).strip(". ")
    return truncate(line, _LONGEST_ID) if line else "nameless"


def _digits(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:8]


_SAYS_NOTHING = {
    "solution", "submission", "main", "answer", "exercise", "code", "program", "script", "my_solution", "starter",
}  # fmt: skip
"""File names that leave it to the folder to say which exercise it is."""
_ALIKE = 0.82
"""`difflib`'s ratio from which on a name is probably a misspelled exercise."""


class ExerciseNames:
    """All names by which the exercises of a course are known."""

    def __init__(self, course: Course) -> None:
        self.course = course
        self._by_name: dict[str, Exercise] = {}
        self._by_number: dict[tuple[str, int], Exercise] = {}
        self._by_key = {exercise.key: exercise for exercise in course.exercises}
        self._by_slug = {normal(exercise.slug): exercise for exercise in course.exercises}
        self._lessons: set[str] = set()
        for lesson in course.lessons:
            names = {normal(lesson.slug), normal(lesson.folder.name)}
            self._lessons |= names
            for exercise in lesson.exercises:
                for name in _names_of(exercise):
                    self._by_name.setdefault(name, exercise)
                for name in (*names, str(lesson.number), f"{lesson.number:02}"):
                    self._by_number[name, exercise.number] = exercise

    def with_key(self, key: str) -> Exercise | None:
        return self._by_key.get(key)

    def is_lesson(self, name: str) -> bool:
        return normal(name) in self._lessons

    def named(self, name: str) -> Exercise | None:
        """The exercise that a folder, or a file without its ending, is called after."""
        for candidate in dict.fromkeys((name, without_copy_mark(name))):
            folded = normal(candidate)
            bare = re.sub(r"^\d+_(?=\D)", "", folded)  # the number of another version of the course
            if found := self._by_name.get(folded) or self._by_name.get(bare):
                return found
        return None

    def at(self, path: Sequence[str]) -> Exercise | None:
        """The exercise of a file, by its path below the student's folder: folders, zips, and the file's name."""
        stem = without_ending(path[-1], ".py")
        above = [without_ending(name, ".zip") for name in path[:-1]]
        if found := self.named(stem):
            return found
        if above and (found := self._numbered(above[-1], stem)):
            return found
        if says_nothing(stem):
            return next((found for name in reversed(above) if (found := self.named(name))), None)
        return None

    def nearly(self, path: Sequence[str]) -> Exercise | None:
        """Suggest the exercise that a file is probably meant for, where `at` finds none. Never graded as such."""
        stem = without_ending(path[-1], ".py")
        asked = [without_ending(name, ".zip") for name in reversed(path[:-1])] if says_nothing(stem) else [stem]
        return next((found for name in asked if (found := self._nearly_named(name))), None)

    def _nearly_named(self, name: str) -> Exercise | None:
        folded = normal(name)
        inside = [slug for slug in self._by_slug if f"_{slug}_" in f"_{folded}_"]
        alike = get_close_matches(folded, self._by_slug, n=1, cutoff=_ALIKE)
        return self._by_slug[max(inside, key=len)] if inside else self._by_slug[alike[0]] if alike else None

    def _numbered(self, lesson: str, stem: str) -> Exercise | None:
        """`05_keep_the_data_moving/01.py`, `5/1.py`."""
        number = normal(without_copy_mark(stem))
        if not re.fullmatch(r"[0-9]{1,3}", number):
            return None
        return self._by_number.get((normal(lesson), int(number)))


def says_nothing(stem: str) -> bool:
    return normal(without_copy_mark(stem)) in _SAYS_NOTHING


def order_of_copies(path: Sequence[str]) -> int:
    """Later copies of the same name have larger numbers."""
    return copy_number(without_ending(path[-1], ".py"))


def _names_of(exercise: Exercise) -> set[str]:
    lesson, number = exercise.lesson_number, exercise.number
    labels = (f"{lesson}_{number}", f"{lesson:02}_{number:02}", f"{lesson}_{number:02}", f"{lesson:02}_{number}")
    slug, folder = normal(exercise.slug), normal(exercise.folder.name)
    lessons = (normal(exercise.lesson_slug), normal(exercise.folder.parent.name))
    return {
        slug,
        folder,
        *labels,
        *(f"{label}_{slug}" for label in labels),
        *(f"{lesson_name}_{name}" for lesson_name in lessons for name in (slug, folder)),
    }
