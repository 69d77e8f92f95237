"""Lessons and exercises of a course as plain data; `loader` reads them from files."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from gpututor.errors import CourseError, UsageError
from gpututor.files import ordinary
from gpututor.hardware.scenario import Scenario
from gpututor.paths import builtin_course
from gpututor.text import escape_control_chars

OWN_ID = "gpututor"
"""The `id` of the course that comes with gpututor."""
PUBLIC_CHECKS = "public_checks.py"
"""File of an exercise whose checks students' copies get, as their `checks.py`."""
DEFAULT_PROCESSES = 2
MAX_SUBMISSION_BYTES = 1 << 20
"""Largest size of a solution file."""


@dataclass(frozen=True)
class Limits:
    """Limits of one run."""

    wall_s: float = 10.0
    """Seconds of wall-clock time for one scenario, with sleeps."""
    output_kib: int = 64
    """KiB of stored output."""
    result_mib: int = 64
    """MiB of tensors in the result of one call."""


@dataclass(frozen=True)
class MutantWaiver:
    """A harmless change of the solution, which no check needs to detect; see `gpututor verify`."""

    change: str
    """The mutant's name in `gpututor verify`."""
    reason: str


@dataclass(frozen=True)
class Variant:
    """A placeholder in the texts of an exercise. Each student gets one of its values."""

    name: str
    """`{name}` in the files is replaced."""
    values: tuple[str, ...]

    @property
    def place(self) -> str:
        """The placeholder as the files have it: `{size}`."""
        return f"{{{self.name}}}"


@dataclass(frozen=True)
class Exercise:
    """A folder with a task, a starter, inputs, checks, a solution, hints, right variants and wrong solutions."""

    lesson_number: int
    number: int
    slug: str
    lesson_slug: str
    folder: Path
    title: str
    summary: str
    minutes: int
    kind: str
    """`function`; `processes`: a function called in several processes at once; `script`."""
    entry: str
    """The name of the learner's function; empty for a script."""
    cases: int
    """Number of calls of the function, or runs of the script, each with other inputs."""
    devices: tuple[str, ...]
    """Kinds of device that the exercise supports, of `hardware.scenario.KINDS`."""
    scenarios: tuple[Scenario, ...]
    limits: Limits = field(default_factory=Limits)
    processes: int = 1
    """Number of processes that call the function at once, each with its rank."""
    excused_mutants: tuple[MutantWaiver, ...] = ()
    packages: tuple[str, ...] = ()
    """Optional packages that the exercise needs; without one it is not gradable here."""
    allowed_names: tuple[str, ...] = ()
    """Suspicious names that a submission may use; see `gpututor.judge.source_review`."""
    difficulty: str = "medium"
    """`easy`, `medium` or `hard`."""
    prerequisites: tuple[str, ...] = ()
    """Slugs of earlier exercises whose ideas this exercise needs."""
    timeline: str = ""
    """A sentence for learners who have passed: what changed on the timeline."""
    variants: tuple[Variant, ...] = ()
    left_to_instructor: tuple[str, ...] = ()
    """Names of checks that a students' copy of the exercise does not have."""
    chosen: tuple[tuple[str, str], ...] = ()
    """Names and values of variants; for the others, the first value counts."""

    @property
    def subject(self) -> str:
        """Text for messages: `label()` or `the script`."""
        return f"{self.entry}()" if self.entry else "the script"

    @property
    def label(self) -> str:
        """`2.1`"""
        return f"{self.lesson_number}.{self.number}"

    @property
    def key(self) -> str:
        """The exercise's name in the progress file, which does not depend on the order of exercises."""
        return f"{self.lesson_slug}/{self.slug}"

    @property
    def task(self) -> str:
        return escape_control_chars(self.file("task.md"))

    @property
    def starter(self) -> str:
        return self.file("starter.py")

    @property
    def solution(self) -> str:
        return self.file("solution.py")

    @property
    def given(self) -> str:
        return self.file("given.py")

    @property
    def checks(self) -> str:
        return self.file("checks.py")

    @property
    def has_checks(self) -> bool:
        """False for most exercises of a students' copy."""
        return (self.folder / "checks.py").is_file()

    @property
    def has_public_checks(self) -> bool:
        """True if students' copies get checks."""
        return (self.folder / PUBLIC_CHECKS).is_file()

    @property
    def hints(self) -> tuple[str, ...]:
        """Steps of `hints.md`, each with its `##` heading."""
        return split_hints(escape_control_chars(self.file("hints.md")))

    @property
    def right_solutions(self) -> tuple[Path, ...]:
        """Other ways to solve the exercise, each of which must pass."""
        return tuple(sorted((self.folder / "right").glob("*.py")))

    @property
    def wrong_solutions(self) -> tuple[Path, ...]:
        return tuple(sorted((self.folder / "wrong").glob("*.py")))

    def file(self, name: str) -> str:
        """Return the text of a file, with the values of variants filled in."""
        return self.filled(_read(self.folder / name))

    def filled(self, text: str) -> str:
        """Replace the placeholders of variants with their values."""
        chosen = dict(self.chosen)
        for variant in self.variants:
            text = text.replace(variant.place, chosen.get(variant.name, variant.values[0]))
        return text


def _read(path: Path) -> str:
    """Return the text of a file. Raises `CourseError` if it cannot be read."""
    try:
        with open(path, encoding="utf-8", opener=ordinary) as stream:
            return stream.read()
    except (OSError, UnicodeDecodeError) as error:
        raise CourseError(f"{path}: cannot be read ({error})", "Restore the file, then try again.") from error


def _names_folder_of(words: str) -> re.Pattern[str]:
    """Return a pattern for paths in the folder of exercise `2.1` or `name`, also if it cannot be read."""
    separator = re.escape(os.sep)
    if label := re.fullmatch(r"(\d{1,2})\.(\d{1,2})", words):
        lesson, exercise = (f"{int(number):02d}" for number in label.groups())
        return re.compile(rf"{separator}{lesson}_[^{separator}]+{separator}{exercise}_")
    return re.compile(rf"_{re.escape(Path(words).stem)}(?:{separator}|:)")


def split_hints(text: str) -> tuple[str, ...]:
    steps: list[list[str]] = []
    for line in text.splitlines():
        if line.startswith("## "):
            steps.append([line])
        elif steps:
            steps[-1].append(line)
    return tuple("\n".join(step).strip() for step in steps)


@dataclass(frozen=True)
class Lesson:
    """A text and its exercises."""

    number: int
    slug: str
    folder: Path
    title: str
    summary: str
    exercises: tuple[Exercise, ...]
    gpus: int = 1
    """Number of virtual GPUs for the examples of its text."""

    @property
    def text(self) -> str:
        return escape_control_chars(_read(self.folder / "lesson.md"))


@dataclass(frozen=True)
class LearningPath:
    """A named part of a course, such as its core."""

    name: str
    """Name on the command line."""
    title: str
    exercises: tuple[str, ...]
    """Slugs of its exercises."""


@dataclass(frozen=True)
class Course:
    """The lessons in a folder, and the mistakes in their files."""

    folder: Path
    lessons: tuple[Lesson, ...]
    problems: tuple[CourseError, ...] = ()
    id: str = ""
    """The `id` in `course.toml`, the same in every version of the course."""
    title: str = ""
    for_students: bool = False
    """True for a course without solutions, and with chosen checks at most. See `gpututor pack-course`."""
    learning_paths: tuple[LearningPath, ...] = ()
    seed: str = ""
    """Text from which the students' variants follow: `variant_seed` in `course.toml`, else the `id`."""

    def check_has_checks(self, exercise: Exercise | None = None) -> None:
        """Raise `UsageError` for a course without solutions; or, with an exercise, if it has no checks."""
        if self.for_students and not (exercise and exercise.has_checks):
            what = f"Exercise {exercise.label}" if exercise and self.has_public_checks else "This course"
            raise UsageError(
                f"{what} comes without checks and solutions: submit your work with `gpututor pack`.",
                "Your teacher grades with the complete course.",
            )

    @property
    def has_public_checks(self) -> bool:
        """True for a students' copy in which an exercise has checks."""
        return self.for_students and any(exercise.has_checks for exercise in self.exercises)

    @property
    def place(self) -> str:
        """The name of its folders of solutions and progress; empty for the course that comes with gpututor."""
        if self.id == OWN_ID or self.folder == builtin_course():
            return ""
        name = self.id or self.folder.name
        plain = re.sub(r"[^A-Za-z0-9_-]+", "-", name)
        import hashlib

        return plain if plain == name else f"{plain}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"

    @property
    def glossary(self) -> str:
        """The text of `glossary.md`; empty if the course has none."""
        path = self.folder / "glossary.md"
        return escape_control_chars(_read(path)) if path.exists() else ""

    @property
    def reading(self) -> str:
        """The text of `reading.md`, a list of links to pages that lessons name; empty if the course has none."""
        path = self.folder / "reading.md"
        return escape_control_chars(_read(path)) if path.exists() else ""

    @property
    def exercises(self) -> tuple[Exercise, ...]:
        return tuple(exercise for lesson in self.lessons for exercise in lesson.exercises)

    @property
    def keys_by_label(self) -> dict[str, str]:
        """Keys of exercises by their labels, such as `2.1`."""
        return {exercise.label: exercise.key for exercise in self.exercises}

    def lesson_of(self, exercise: Exercise) -> Lesson:
        return next(lesson for lesson in self.lessons if lesson.slug == exercise.lesson_slug)

    def prerequisites_of(self, exercise: Exercise) -> tuple[Exercise, ...]:
        return tuple(other for other in self.exercises if other.slug in exercise.prerequisites)

    def learning_path(self, name: str) -> LearningPath:
        """Return the learning path of that name. Raises `UsageError` with the names of all."""
        for path in self.learning_paths:
            if path.name == name:
                return path
        known = ", ".join(path.name for path in self.learning_paths)
        from gpututor.fuzzy import did_you_mean  # only a wrong name pays for it

        question = did_you_mean(name, [path.name for path in self.learning_paths])
        advice = f"{question}Its paths: {known}." if known else "This course has no learning paths."
        raise UsageError(f"There is no learning path called {name!r}.", advice)

    def paths_of(self, exercise: Exercise) -> tuple[LearningPath, ...]:
        return tuple(path for path in self.learning_paths if exercise.slug in path.exercises)

    def after(self, exercise: Exercise) -> Exercise | None:
        """Return the next exercise; None at the end."""
        exercises = self.exercises
        position = [other.key for other in exercises].index(exercise.key) + 1
        return exercises[position] if position < len(exercises) else None

    def continue_at(self, key: str | None) -> Exercise:
        """Return the exercise with this key, else the first. Raises `CourseError` for a course without exercises."""
        if not self.exercises:
            raise CourseError(f"{self.folder}: there is no exercise in it", "`gpututor doctor` lists the problems.")
        return next((exercise for exercise in self.exercises if exercise.key == key), self.exercises[0])

    def find(self, words: str) -> Exercise:
        """Return the exercise by label, slug, key or a path of folder or file. Raises `UsageError` with near names."""
        stem = Path(words).stem if words.endswith(".py") else Path(words).name
        names = {words, stem, stem.partition("_")[2]}
        for exercise in self.exercises:
            if names & {exercise.label, exercise.slug, exercise.key, exercise.folder.name}:
                return exercise
        from gpututor.fuzzy import likely_meant  # only a wrong name pays for it

        path_pattern = _names_folder_of(words)
        if broken := [problem.title for problem in self.problems if path_pattern.search(problem.title)]:
            raise UsageError(f"The exercise {words!r} is broken.", "\n".join(broken))
        if words.replace(".", "").isdecimal():
            near = likely_meant(words, self.exercises, lambda near: (near.label,))
        else:
            near = likely_meant(words, self.exercises, lambda near: (near.slug, near.title, near.summary), most=3)
        meant = " or ".join(f"{exercise.label} {exercise.slug}" for exercise in near)
        advice = f"Did you mean {meant}? " if near else ""
        if Path(words).is_file():
            advice = "To grade a file with another name, add --file after the exercise's name. "
        defects = f"\n{len(self.problems)} problems in the course: `gpututor list` shows them." if self.problems else ""
        advice = f"{advice}`gpututor list` lists all {len(self.exercises)} exercises.{defects}"
        raise UsageError(f"There is no exercise called {words!r}.", advice)
