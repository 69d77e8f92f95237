"""Names of files, students and exercises."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from gpututor.course.model import Course, Exercise
from gpututor.text import escape_control_chars, truncate

PROGRAM_ENDINGS = (".py", ".ipynb")
LONGEST_NAME_BYTES = 255
LONGEST_SOURCE = 300
_LONGEST_ID = 80
_SIMILARITY = 0.82
"""Least `difflib` ratio at which a name is probably a misspelled exercise."""
_NOISE = {
    "__macosx", ".ds_store", "thumbs.db", "desktop.ini", "__pycache__", "drafts", ".backups", ".gpututor.json",
    "gpututor-pack.json", ".git", ".gitignore", ".idea", ".vscode", ".venv", "venv", ".ipynb_checkpoints",
    ".pytest_cache", ".mypy_cache", ".ruff_cache", ".github", ".gitattributes", "readme.md", "license",
}  # fmt: skip
_NOISE_ENDS = (".pyc", ".swp", ".part", "~")
_GENERIC = {
    "solution", "submission", "main", "answer", "exercise", "code", "program", "script", "my_solution", "starter",
}  # fmt: skip
"""Names of files in a folder that is named after the exercise."""
_COPY_MARK = re.compile(
    r"(?: ?\(\d{1,3}\)|-\d{1,3}| - copy(?: ?\(\d{1,3}\))?| copy(?: \d{1,3})?)$",  # browsers, Canvas, Windows, macOS
    re.IGNORECASE,
)


def one_line(text: str) -> str:
    """Escape everything that could control a terminal or end a line."""
    return escape_control_chars(text).replace("\n", "\\n").replace("\t", "\\t")


def is_plain(name: str) -> bool:
    return (name.isascii() and name.isprintable()) or one_line(name) == name


def plain(name: str) -> str:
    """Remove the characters that `one_line` escapes."""
    return name if is_plain(name) else "".join(filter(is_plain, name))


def shown_source(source: str) -> str:
    """Return a source as one line, its middle left out if it is long."""
    line = one_line(source)
    half = LONGEST_SOURCE // 2
    return line if len(line) <= LONGEST_SOURCE else f"{line[: half - 1]}…{line[-half:]}"


def is_noise(name: str, *, folder: bool) -> bool:
    """Return True for files and folders that tools leave behind."""
    folded = name.casefold()
    return folded in _NOISE or folded.startswith("._") or (not folder and folded.endswith(_NOISE_ENDS))


def normal(name: str) -> str:
    """Normalize a name for comparison: lower case; spaces, dots, hyphens and underscores are equal."""
    return re.sub(r"[\s._-]+", "_", unicodedata.normalize("NFC", plain(name)).casefold()).strip("_")


def copy_number(stem: str) -> int:
    """Return the number in `one_big_copy (2)`; 0 without a copy mark, 1 for a mark without a number."""
    match = _COPY_MARK.search(stem)
    if match is None:
        return 0
    digits = re.search(r"\d+", match[0])
    return int(digits[0]) if digits else 1


def without_copy_mark(stem: str) -> str:
    return _COPY_MARK.sub("", stem)


def without_ending(name: str, ending: str) -> str:
    return name[: -len(ending)] if name.casefold().endswith(ending) else name


def is_program(name: str) -> bool:
    """Return True for the ending of a Python file or a notebook."""
    return name.casefold().endswith(PROGRAM_ENDINGS)


def without_program_ending(name: str) -> str:
    for ending in PROGRAM_ENDINGS:
        name = without_ending(name, ending)
    return name


def is_generic(stem: str) -> bool:
    """Return True for a name such as `solution`, which could belong to any exercise."""
    return normal(without_copy_mark(stem)) in _GENERIC


def oddity(parts: Iterable[str]) -> str:
    """Return a sentence with the reason why a path is rejected; empty if it is fine."""
    for part in parts:
        if len(part.encode("utf-8", "surrogatepass")) > LONGEST_NAME_BYTES:
            return f"Its name is longer than {LONGEST_NAME_BYTES} bytes."
        if any("\ud800" <= character <= "\udfff" for character in part):
            return "Its name is not UTF-8."
        if not is_plain(part):
            return "Its name contains control characters, or marks that turn the direction of writing."
    return ""


def unique_ids(preferred: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return an id for each key of `(key, preferred id)`: one line of text that is not a path.

    Ids differ even on a file system that ignores case; digits of the key's digest make colliding ids differ.
    """
    best = {key: _as_id(name) for key, name in preferred}
    unique = {name for name, count in Counter(map(normal_id, best.values())).items() if count == 1}
    own = {key: name for key, name in best.items() if normal_id(name) in unique and len(name) < _LONGEST_ID}
    while True:
        numbered = {key: f"{name}-{_digest(key)}" for key, name in best.items() if key not in own}
        taken = {normal_id(name) for name in numbered.values()}
        clashing = {key for key, name in own.items() if normal_id(name) in taken}
        if not clashing:
            return {key: own.get(key) or numbered[key] for key in best}
        own = {key: name for key, name in own.items() if key not in clashing}


def normal_id(name: str) -> str:
    return unicodedata.normalize("NFKC", name).casefold()


def former_id(id: str) -> str:
    """Return the id that a student with a digest in it had before another student got the same; else an empty text."""
    name, _, digest = id.rpartition("-")
    return name if name and digest == _digest(name) else ""


def _as_id(name: str) -> str:
    line = re.sub(r"[/\\]", "-", one_line(name.strip()).strip()).strip(". ")
    return truncate(line, _LONGEST_ID) if line else "nameless"


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:8]


class ExerciseNames:
    """All names of the exercises of a course."""

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
        """Find an exercise by the name of a folder, or of a file without its ending."""
        for candidate in dict.fromkeys((name, without_copy_mark(name))):
            folded = normal(candidate)
            bare = re.sub(r"^\d+_(?=\D)", "", folded)  # the number of another version of the course
            if exercise := self._by_name.get(folded) or self._by_name.get(bare):
                return exercise
        return None

    def at(self, path: Sequence[str]) -> Exercise | None:
        """Find a file's exercise by its path below the student's folder: folders, zips, and the file's name."""
        stem = without_program_ending(path[-1])
        above = [without_ending(name, ".zip") for name in path[:-1]]
        if exercise := self.named(stem):
            return exercise
        if above and (exercise := self._numbered(above[-1], stem)):
            return exercise
        if is_generic(stem):
            return next((exercise for name in reversed(above) if (exercise := self.named(name))), None)
        return None

    def nearly(self, path: Sequence[str]) -> Exercise | None:
        """Suggest the exercise of a file, if `at` finds none. The file is never graded as such."""
        stem = without_program_ending(path[-1])
        names = [without_ending(name, ".zip") for name in reversed(path[:-1])] if is_generic(stem) else [stem]
        return next((exercise for name in names if (exercise := self._nearly_named(name))), None)

    def _nearly_named(self, name: str) -> Exercise | None:
        folded = normal(name)
        inside = [slug for slug in self._by_slug if f"_{slug}_" in f"_{folded}_"]
        similar = get_close_matches(folded, self._by_slug, n=1, cutoff=_SIMILARITY)
        return self._by_slug[max(inside, key=len)] if inside else self._by_slug[similar[0]] if similar else None

    def _numbered(self, lesson: str, stem: str) -> Exercise | None:
        """Find the exercise of `05_keep_the_data_moving/01.py` or `5/1.py`."""
        number = normal(without_copy_mark(stem))
        if not re.fullmatch(r"[0-9]{1,3}", number):
            return None
        return self._by_number.get((normal(lesson), int(number)))


def _names_of(exercise: Exercise) -> set[str]:
    lesson, number = exercise.lesson_number, exercise.number
    labels = {f"{lesson}_{number}", f"{lesson:02}_{number:02}", f"{lesson}_{number:02}", f"{lesson:02}_{number}"}
    slug, folder = normal(exercise.slug), normal(exercise.folder.name)
    lessons = (normal(exercise.lesson_slug), normal(exercise.folder.parent.name))
    with_lesson = {f"{lesson_name}_{name}" for lesson_name in lessons for name in (slug, folder)}
    return {slug, folder} | labels | {f"{label}_{slug}" for label in labels} | with_lesson
