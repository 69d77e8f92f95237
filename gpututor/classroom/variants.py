"""Variants of exercises: each student has values of their own, in the task, the starter and the grading.

`exercise.toml` names the values. A student's value follows from the course's seed, the exercise and the student's id in
the roster. So nothing has to be stored between handing out the course and grading. Without a roster, all students have
the first values, in their copies and in the grading.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from gpututor.classroom.folder import ClassFolder, folder_name
from gpututor.classroom.packing import left_to_instructor, manifest_of, write_student_course
from gpututor.classroom.roster import Roster, enrol, read_roster
from gpututor.classroom.rules import Rules
from gpututor.classroom.submissions import Class, Submission
from gpututor.classroom.tables import csv_text
from gpututor.course.loader import EXERCISE_KEYS, load_exercise
from gpututor.course.model import Course, Exercise, Lesson
from gpututor.errors import CourseError, UsageError
from gpututor.files import write_atomically

TABLE = "variants.csv"
"""Table of the students' values, for the instructor."""
Values = tuple[tuple[str, str], ...]
"""Names and values of the variants of an exercise."""
_MOST_NAMED = 10
_KEYS = [key.name for key in EXERCISE_KEYS if key.name != "variant"]


def values_of(exercise: Exercise, student: str, seed: str) -> Values:
    """Return names and values of a student's variants. `student`: the id in the roster."""
    values = []
    for variant in exercise.variants:
        words = "\n".join((seed, exercise.key, variant.name, student.casefold()))
        digest = hashlib.sha256(words.encode(errors="surrogatepass")).digest()
        values.append((variant.name, variant.values[int.from_bytes(digest[:8], "big") % len(variant.values)]))
    return tuple(values)


def other_values(exercise: Exercise) -> Iterator[Values]:
    """Yield choices that together cover all values of each variant, except the first."""
    for at in range(1, max((len(variant.values) for variant in exercise.variants), default=0)):
        yield tuple((variant.name, variant.values[at % len(variant.values)]) for variant in exercise.variants)


def words_of(values: Values) -> str:
    """Return `size=512, factor=3`."""
    return ", ".join(f"{name}={value}" for name, value in values)


def course_of_student(course: Course, student: str) -> Course:
    """Return the course with the student's values in its exercises."""

    def of_student(lesson: Lesson) -> Lesson:
        exercises = (
            replace(exercise, chosen=values_of(exercise, student, course.seed)) for exercise in lesson.exercises
        )
        return replace(lesson, exercises=tuple(exercises))

    return replace(course, lessons=tuple(map(of_student, course.lessons)))


def write_student_courses(
    course: Course, roster: Roster, out: Path, *, notebooks: bool = False, rules: Rules | None = None
) -> list[Path]:
    """Write a zip of the course for each student of the roster to a new folder `out`.

    Also write a table of all values there. Return the paths. Raises `UsageError` and `CourseError`.
    """
    if out.suffix.lower() == ".zip" or (out.exists() and (not out.is_dir() or any(out.iterdir()))):
        advice = "Name a new folder with --out: it gets a zip for each student."
        raise UsageError(f"{out} is not a new folder.", advice)
    left = left_to_instructor(course, rules)
    paths, rows = [], [("student", "name", "exercise", "variant", "value")]
    for student in roster.students:
        of_student = course_of_student(course, student.id)
        path = out / f"{folder_name(student.id)}.zip"
        write_student_course(of_student, path, notebooks=notebooks, left=left)
        paths.append(path)
        for exercise in of_student.exercises:
            rows += [(student.id, student.name, exercise.key, *pair) for pair in exercise.chosen]
    write_atomically(out / TABLE, csv_text(rows))
    return [*paths, out / TABLE]


class Variants:
    """The exercises of a class, as its students have them."""

    def __init__(self, class_: Class, course: Course, folder: ClassFolder) -> None:
        """Read the roster of the class, whose ids may not be those of the platform. Raises `UsageError`."""
        self._class, self._course, self._folder = class_, course, folder
        self._exercises = {exercise.key: exercise for exercise in course.exercises}
        self._made: dict[tuple[str, Values], Exercise] = {}
        self._ids: Mapping[str, str] = {}
        if any(exercise.variants for exercise in course.exercises) and folder.roster_file.exists():
            self._ids = enrol(class_, Rules(), read_roster(folder.roster_file)).roster_ids

    def notice(self) -> str:
        """Return sentences about files that are graded with the first values; empty if there are none."""
        files = [
            file
            for file in self._class.submissions
            if not file.refusal and file.student not in self._ids and self._exercises[file.exercise].variants
        ]
        if not files:
            return ""
        keys = {file.exercise for file in files}
        names = ", ".join(exercise.label for exercise in self._course.exercises if exercise.key in keys)
        if not self._folder.roster_file.exists():
            return (
                f"! Without a roster, all students are graded with the first values of {names}. If their copies are "
                "from `pack-course --roster`, name the same --roster here."
            )
        students = list(dict.fromkeys(file.student for file in files))
        listed = ", ".join(students[:_MOST_NAMED]) + (" …" if len(students) > _MOST_NAMED else "")
        return (
            f"! Not in the roster: {listed}. Their files are graded with the first values of {names}. If their copies "
            "have others, correct the roster, then name it with --roster and --resume."
        )

    def exercise_for(self, submission: Submission) -> Exercise:
        """Return the exercise as the student has it, in a folder of its own if it has the student's values."""
        exercise = self._exercises[submission.exercise]
        if not exercise.variants or submission.student not in self._ids:
            return exercise
        values = values_of(exercise, self._ids[submission.student], self._course.seed)
        if (exercise.key, values) not in self._made:
            self._made[exercise.key, values] = write_variant(exercise, values, self._folder.variants)
        return self._made[exercise.key, values]


def write_variant(exercise: Exercise, values: Values, folder: Path) -> Exercise:
    """Write the exercise with these values below `folder`, as an exercise without variants; return it.

    Raises `CourseError` and `UsageError`.
    """
    path = folder / folder_name(words_of(values)) / exercise.folder.parent.name / exercise.folder.name
    files = _files(replace(exercise, chosen=values))
    try:
        for name, content in files.items():
            target = path / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.exists() or target.read_bytes() != content:
                write_atomically(target, content)
        for old in path.rglob("*"):
            if old.is_file() and old.relative_to(path).as_posix() not in files and "__pycache__" not in old.parts:
                old.unlink()
    except OSError as error:
        raise UsageError(f"{path}: cannot be written ({error.strerror})", "Free some space, then --resume.") from error
    return load_exercise(path)


def _files(exercise: Exercise) -> Mapping[str, bytes]:
    """Return the exercise's files by path, with its values in all texts. Raises `CourseError`."""
    files = {}
    for path in sorted(exercise.folder.rglob("*")):
        inside = path.relative_to(exercise.folder)
        if not path.is_file() or any(part.startswith(".") or part == "__pycache__" for part in inside.parts):
            continue
        try:
            content = path.read_bytes()
        except OSError as error:
            raise CourseError(f"{path}: cannot be read ({error})", "Restore the file, then try again.") from error
        if inside.as_posix() == "exercise.toml":
            content = manifest_of(path, _KEYS).encode()
        elif path.suffix in (".py", ".md"):
            content = exercise.filled(content.decode(errors="surrogateescape")).encode(errors="surrogateescape")
        files[inside.as_posix()] = content
    return files
