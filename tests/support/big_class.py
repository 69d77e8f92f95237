"""A random class: solutions, starters, wrong, hostile and broken files, with their expected outcomes.

The same seed makes the same class, byte for byte. `big_class_layouts` writes it to a folder.
"""

from __future__ import annotations

import ast
import random
import re
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gpututor.authoring.lint import named_check
from gpututor.course.loader import load_course
from gpututor.course.model import MAX_SUBMISSION_BYTES, Course, Exercise
from gpututor.grading.report import Outcome
from gpututor.paths import builtin_course
from tests.hostile import tiny_course
from tests.hostile.members import Member, members

SUBMISSIONS, SEED = 2_000, 8
FILES_EACH = 8
"""Average number of files of a student."""
LESSONS = (1, 2, 3, 6)
"""Lessons without timed exercises."""
ZIPPED_SHARE, SAME_TEXT_SHARE, AGAIN_SHARE = 0.25, 0.2, 0.1
KINDS = {"solution": 30, "renamed": 10, "starter": 8, "wrong": 35, "hostile": 9, "broken": 6, "misplaced": 2}
"""Per cent of each kind of file."""

SECRET = "08" * 32
"""The class secret, so that the inputs are always the same."""

NOT_PASSED = frozenset(Outcome) - {Outcome.PASSED, Outcome.REJECTED, Outcome.INTERNAL_ERROR, Outcome.NOT_GRADABLE_HERE}
_REFUSED = frozenset({Outcome.REJECTED})
_QUICK_RESOURCES = ("abort", "prints_a_lot", "segfault")
"""Hostile files that use up resources quickly; each of the others takes seconds."""

_PLACED = re.compile(r"@[a-z]+@")
"""Placeholders of the hostile suite."""


@dataclass(frozen=True)
class Submission:
    """A submitted file."""

    student: str
    exercise: Exercise
    kind: str
    name: str
    """Name of the original file, for failure messages."""
    content: bytes
    ends: frozenset[Outcome]
    """Expected outcomes."""
    fails: str = ""
    """The check that it fails; empty if unknown."""
    attempt: int = 1

    @property
    def is_misplaced(self) -> bool:
        """True if it is a link, or has a path out of its zip."""
        return self.kind == "misplaced"

    @property
    def is_refused(self) -> bool:
        """True if it must not reach a judge."""
        return self.ends == _REFUSED

    @property
    def who(self) -> tuple[str, str, int]:
        """Key of the submission in the class as read."""
        return self.student, self.exercise.key, self.attempt


@dataclass(frozen=True)
class BigClass:
    """The class, its course, and the students with zips."""

    course: Course
    submissions: tuple[Submission, ...]
    zipped: frozenset[str]
    """Students who submit one zip."""


def big_class(folder: Path, submissions: int = SUBMISSIONS, seed: int = SEED) -> BigClass:
    """Make a class; its course is written to `folder`."""
    course = _course(folder)
    chance = random.Random(seed)
    kinds = _Kinds(course, chance)
    made: list[Submission] = []
    students = [f"{1000 + number}" for number in range(-(-submissions // FILES_EACH))]
    exercises = [exercise for exercise in course.exercises if exercise.lesson_number in LESSONS]
    while len(made) < submissions:
        student = students[len(made) // FILES_EACH]
        kind = chance.choices(list(KINDS), list(KINDS.values()))[0]
        submission = replace(kinds.draw(kind, chance.choice(exercises)), student=student)
        before = [other for other in made if (other.student, other.exercise.key) == (student, submission.exercise.key)]
        if before and (chance.random() > AGAIN_SHARE or _is_once_only(submission, before)):
            continue  # most students submit each exercise once
        made.append(replace(submission, attempt=len(before) + 1))
    zipped = frozenset(student for student in students if chance.random() < ZIPPED_SHARE)
    return BigClass(course, tuple(made), zipped)


def _is_once_only(submission: Submission, before: Sequence[Submission]) -> bool:
    """Check for a second attempt that intake would not count: an equal text, or a misplaced file."""
    return submission.is_misplaced or any(other.is_misplaced or other.content == submission.content for other in before)


def _course(folder: Path) -> Course:
    """Make a course of some shipped lessons and the exercises that hostile files attack."""
    folder.mkdir(parents=True)
    builtin = load_course(builtin_course())
    for lesson in builtin.lessons:
        if lesson.number in LESSONS:
            shutil.copytree(lesson.folder, folder / lesson.folder.name, ignore=shutil.ignore_patterns("__pycache__"))
    with tempfile.TemporaryDirectory() as apart:
        tiny_course.lay_out(Path(apart), "nothing that is secret")
        shutil.move(Path(apart) / "01_hostile", folder / "99_hostile")
    (folder / "course.toml").write_text('id = "big"\ntitle = "The big class"\n')
    return load_course(folder)


class _Kinds:
    """A maker of submissions without a student."""

    def __init__(self, course: Course, chance: random.Random) -> None:
        self._chance = chance
        self._number = 0
        exercises = {exercise.slug: exercise for exercise in course.exercises}
        self._hostile = [
            Submission("", exercises[member.attacks], "hostile", member.id, member.text.encode(), member.ends)
            for member in members()
            if member.attacks in exercises and _needs_nothing(member)
        ]

    def draw(self, kind: str, exercise: Exercise) -> Submission:
        self._number += 1
        if kind == "hostile":
            return self._own(self._chance.choice(self._hostile))
        if kind == "wrong":
            path = self._chance.choice(exercise.wrong_solutions)
            text = path.read_text(encoding="utf-8")
            wrong = Submission("", exercise, kind, path.name, text.encode(), NOT_PASSED, named_check(text))
            return self._own(wrong)
        if kind == "starter":
            return self._own(Submission("", exercise, kind, kind, exercise.starter.encode(), NOT_PASSED))
        right = Submission("", exercise, kind, kind, exercise.solution.encode(), frozenset({Outcome.PASSED}))
        if kind == "renamed":
            return self._own(replace(right, content=renamed(exercise.solution, str(self._number)).encode()))
        if kind == "misplaced":
            return replace(right, ends=_REFUSED)
        return self._own(right) if kind == "solution" else self._broken(right)

    def _own(self, submission: Submission) -> Submission:
        """Add an own last line to most texts: equal texts are graded once."""
        if self._chance.random() < SAME_TEXT_SHARE:
            return submission
        return replace(submission, content=submission.content.rstrip() + f"\n\n# number {self._number}\n".encode())

    def _broken(self, right: Submission) -> Submission:
        text, number = right.content.decode(), self._number
        ways: dict[str, tuple[bytes, frozenset[Outcome]]] = {
            "binary": (bytes([7, 0, number % 256, 255]) + right.content, _REFUSED),
            "UTF-16": (text.encode("utf-16"), _REFUSED),
            "Latin-1": (f"# caf\xe9 {number}\n{text}".encode("latin-1", "replace"), _REFUSED),
            "too big": (right.content + b"#" * MAX_SUBMISSION_BYTES, _REFUSED),
            "empty": (b"", _REFUSED),
            "no Python": (f"{text}\ndef (:  # {number}\n".encode(), frozenset({Outcome.ERROR})),
            "cut": (f"{text.rstrip()}\nvalue_{number} = (1,\n".encode(), frozenset({Outcome.ERROR})),
        }
        name = self._chance.choice(list(ways))
        content, ends = ways[name]
        return replace(right, name=name, content=content, ends=ends)


def _needs_nothing(member: Member) -> bool:
    """Check that a hostile file ends quickly in every isolation, under any name and in any folder."""
    is_quick = member.name in _QUICK_RESOURCES or not (
        member.kind == "resources" or member.attacks in ("timed", "patience")
    )
    is_plain = len(member.isolations) > 1 and member.device == "virtual" and member.file_name == f"{member.name}.py"
    return is_quick and is_plain and not member.open and not _PLACED.search(member.text)


def renamed(text: str, ending: str) -> str:
    """Return the program with other local names, and without comments."""
    tree = ast.parse(text)
    fixed = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    fixed |= {name for node in ast.walk(tree) if isinstance(node, ast.Global | ast.Nonlocal) for name in node.names}
    fixed |= {name for statement in tree.body for name in _stored(statement, inside=False)}
    for function in [node for node in tree.body if isinstance(node, ast.FunctionDef)]:
        local = _stored(function, inside=True) - fixed
        for node in ast.walk(function):
            if isinstance(node, ast.Name) and node.id in local:
                node.id = f"{node.id}_{ending}"
    return f"{ast.unparse(tree)}\n"


def _stored(statement: ast.stmt, *, inside: bool) -> set[str]:
    """Return the names that a statement assigns; of a function, those inside."""
    if not inside and isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return {statement.name}
    return {node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
