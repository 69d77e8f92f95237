"""Lessons and exercises of a course as plain data; `catalogue` reads them from files."""

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
DEFAULT_PROCESSES = 2
MAX_SUBMISSION_BYTES = 1 << 20
"""A solution file may be as large as this; nobody types more."""


@dataclass(frozen=True)
class Limits:
    """What one run may use."""

    wall_s: float = 10.0
    """Seconds of wall-clock time for one scenario, sleeping counted."""
    output_kib: int = 64
    """KiB of printed text that are kept."""
    result_mib: int = 64
    """MiB of tensors that the result of one call may hold."""


@dataclass(frozen=True)
class MutantWaiver:
    """A change of the solution that no check has to notice; see `gpututor verify`."""

    change: str
    """What the gate calls it."""
    reason: str
    """Why it is harmless."""


@dataclass(frozen=True)
class Exercise:
    """One folder with a task, a starter, inputs, checks, a solution, hints, right variants and wrong solutions."""

    lesson_number: int
    number: int
    slug: str
    lesson_slug: str
    folder: Path
    title: str
    summary: str
    minutes: int
    kind: str
    """`function`; `processes`: it is called in several of them at once; `script`: the file is run as one."""
    entry: str
    """The name of the function that the learner writes; empty for a script."""
    cases: int
    """How many times the function is called, or the script run, each time with other inputs."""
    devices: tuple[str, ...]
    """Kinds of device that the exercise supports, of `hardware.scenario.KINDS`."""
    scenarios: tuple[Scenario, ...]
    limits: Limits = field(default_factory=Limits)
    processes: int = 1
    """In how many processes the function is called at once, each with its rank."""
    excused_mutants: tuple[MutantWaiver, ...] = ()
    allowed_names: tuple[str, ...] = ()
    """Names that a submission may use although the judge notes them; see `gpututor.judge.source_review`."""

    @property
    def subject(self) -> str:
        """What runs, in words: `label()` or `the script`."""
        return f"{self.entry}()" if self.entry else "the script"

    @property
    def label(self) -> str:
        """`2.1`"""
        return f"{self.lesson_number}.{self.number}"

    @property
    def key(self) -> str:
        """The name under which progress is kept; it outlives a change of order."""
        return f"{self.lesson_slug}/{self.slug}"

    @property
    def task(self) -> str:
        return escape_control_chars(self._text("task.md"))

    @property
    def starter(self) -> str:
        return self._text("starter.py")

    @property
    def solution(self) -> str:
        return self._text("solution.py")

    @property
    def given(self) -> str:
        """The text of `given.py`: what is drawn, and what is built of it."""
        return self._text("given.py")

    @property
    def checks(self) -> str:
        """The text of `checks.py`."""
        return self._text("checks.py")

    @property
    def hints(self) -> tuple[str, ...]:
        """The steps of `hints.md`: each begins with a `##` heading; the heading stays in the text."""
        return split_hints(escape_control_chars(self._text("hints.md")))

    @property
    def right_solutions(self) -> tuple[Path, ...]:
        """The right variants: other ways to solve the exercise, each of which must pass."""
        return tuple(sorted((self.folder / "right").glob("*.py")))

    @property
    def wrong_solutions(self) -> tuple[Path, ...]:
        return tuple(sorted((self.folder / "wrong").glob("*.py")))

    def file(self, name: str) -> str:
        """The text of another file of the folder. Raises `CourseError` when it cannot be read."""
        return self._text(name)

    def _text(self, name: str) -> str:
        return _text_of(self.folder / name)


def _text_of(path: Path) -> str:
    try:
        with open(path, encoding="utf-8", opener=ordinary) as stream:
            return stream.read()
    except (OSError, UnicodeDecodeError) as error:
        raise CourseError(f"{path}: cannot be read ({error})", "Restore the file, then try again.") from error


def _names_folder_of(words: str) -> re.Pattern[str]:
    """Match paths in the folder that `2.1` or a name means, whether or not its exercise can be read."""
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
    """A text and the exercises that belong to it."""

    number: int
    slug: str
    folder: Path
    title: str
    summary: str
    exercises: tuple[Exercise, ...]
    gpus: int = 1
    """How many virtual GPUs the examples of its text run on."""

    @property
    def text(self) -> str:
        return escape_control_chars(_text_of(self.folder / "lesson.md"))


@dataclass(frozen=True)
class Course:
    """The lessons under one folder, and what was wrong with the files there."""

    folder: Path
    lessons: tuple[Lesson, ...]
    problems: tuple[CourseError, ...] = ()
    id: str = ""
    """What `course.toml` calls it, the same in every version of the course."""
    title: str = ""
    for_students: bool = False
    """Whether it was handed out to students: it comes without checks and solutions. See `gpututor pack-course`."""

    def check_has_checks(self) -> None:
        """Raises `UsageError` for a course that was handed out to students."""
        if self.for_students:
            raise UsageError(
                "This course comes without checks and solutions: hand in with `gpututor pack`.",
                "Whoever handed it out grades with the whole course.",
            )

    @property
    def place(self) -> str:
        """What its folder of solutions and its progress are called; empty for the course that comes with gpututor."""
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
        return escape_control_chars(_text_of(path)) if path.exists() else ""

    @property
    def exercises(self) -> tuple[Exercise, ...]:
        return tuple(exercise for lesson in self.lessons for exercise in lesson.exercises)

    def lesson_of(self, exercise: Exercise) -> Lesson:
        return next(lesson for lesson in self.lessons if lesson.slug == exercise.lesson_slug)

    def after(self, exercise: Exercise) -> Exercise | None:
        """The exercise that follows, or None at the end."""
        exercises = self.exercises
        position = [other.key for other in exercises].index(exercise.key) + 1
        return exercises[position] if position < len(exercises) else None

    def find(self, words: str) -> Exercise:
        """The exercise called `2.1`, `born_on_the_device`, `lesson/exercise` or by a path of its folder or file.

        Raises `UsageError` with the nearest names when there is none.
        """
        stem = Path(words).stem if words.endswith(".py") else Path(words).name
        names = {words, stem, stem.partition("_")[2]}
        for exercise in self.exercises:
            if names & {exercise.label, exercise.slug, exercise.key, exercise.folder.name}:
                return exercise
        raise self._not_found(words)

    def _not_found(self, words: str) -> UsageError:
        import difflib

        is_of_it = _names_folder_of(words)
        if broken := [problem.title for problem in self.problems if is_of_it.search(problem.title)]:
            return UsageError(f"The exercise {words!r} is broken.", "\n".join(broken))
        known = [exercise.slug for exercise in self.exercises]
        near = difflib.get_close_matches(words, known, n=3, cutoff=0.6)
        advice = f"Did you mean {' or '.join(near)}? " if near else ""
        if Path(words).is_file():
            advice = "A file of another name is taken by --file, after the exercise's name. "
        defects = f"\n{len(self.problems)} defects in the course: `gpututor list` shows them." if self.problems else ""
        return UsageError(
            f"There is no exercise called {words!r}.",
            f"{advice}`gpututor list` names all {len(known)} of them.{defects}",
        )
