"""A class that is made up: solutions, starters, wrong, hostile and broken files, and what each of them comes to.

The same seed makes the same class, byte for byte. `big_class_layouts` puts it into a folder as a platform would.
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
EACH_HANDS_IN = 8
"""Files, about."""
LESSONS = (1, 2, 3, 6)
"""In none of their exercises is anything timed."""
ZIPPED_SHARE, SAME_TEXT_SHARE, AGAIN_SHARE = 0.25, 0.2, 0.1
KINDS = {"solution": 30, "renamed": 10, "starter": 8, "wrong": 35, "hostile": 9, "broken": 6, "misplaced": 2}
"""What is handed in, and how often of a hundred."""

SECRET = "08" * 32
"""The class secret: with it, every figure of every grading is known beforehand."""

NOT_PASSED = frozenset(Outcome) - {Outcome.PASSED, Outcome.REJECTED, Outcome.INTERNAL_ERROR, Outcome.NOT_GRADABLE_HERE}
_REFUSED = frozenset({Outcome.REJECTED})
_QUICK_RESOURCES = ("abort", "prints_a_lot", "segfault")
"""Of the hostile files that use up something; the others take seconds each."""

_PLACED = re.compile(r"@[a-z]+@")
"""What the hostile suite replaces by something of the machine."""


@dataclass(frozen=True)
class Submission:
    """One file."""

    student: str
    exercise: Exercise
    kind: str
    name: str
    """Of the file that it was made of, for who reads what went wrong."""
    content: bytes
    ends: frozenset[Outcome]
    """Any of these is right."""
    fails: str = ""
    """The check that it fails, where that is known."""
    attempt: int = 1

    @property
    def is_misplaced(self) -> bool:
        """It is handed in as a link, or in a zip under a name that leads out of it."""
        return self.kind == "misplaced"

    @property
    def is_refused(self) -> bool:
        """It must not reach a judge."""
        return self.ends == _REFUSED

    @property
    def who(self) -> tuple[str, str, int]:
        """By which it is found again in a class that was read."""
        return self.student, self.exercise.key, self.attempt


@dataclass(frozen=True)
class BigClass:
    """All of it."""

    course: Course
    submissions: tuple[Submission, ...]
    zipped: frozenset[str]
    """Students who hand in one zip."""


def big_class(folder: Path, submissions: int = SUBMISSIONS, seed: int = SEED) -> BigClass:
    """Make a class; its course is written to `folder`."""
    course = _course(folder)
    chance = random.Random(seed)
    kinds = _Kinds(course, chance)
    made: list[Submission] = []
    students = [f"{1000 + number}" for number in range(-(-submissions // EACH_HANDS_IN))]
    exercises = [exercise for exercise in course.exercises if exercise.lesson_number in LESSONS]
    while len(made) < submissions:
        student = students[len(made) // EACH_HANDS_IN]
        kind = chance.choices(list(KINDS), list(KINDS.values()))[0]
        one = replace(kinds.one(kind, chance.choice(exercises)), student=student)
        before = [other for other in made if (other.student, other.exercise.key) == (student, one.exercise.key)]
        if before and (chance.random() > AGAIN_SHARE or _is_once_only(one, before)):
            continue  # most hand in each exercise once
        made.append(replace(one, attempt=len(before) + 1))
    zipped = frozenset(student for student in students if chance.random() < ZIPPED_SHARE)
    return BigClass(course, tuple(made), zipped)


def _is_once_only(one: Submission, before: Sequence[Submission]) -> bool:
    """The same text twice is one attempt, and a file that is no file has no text to be told by."""
    return one.is_misplaced or any(other.is_misplaced or other.content == one.content for other in before)


def _course(folder: Path) -> Course:
    """Some lessons of the course that comes with gpututor, and the exercises that hostile files attack."""
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
    """Makes submissions, of nobody as yet."""

    def __init__(self, course: Course, chance: random.Random) -> None:
        self._chance = chance
        self._number = 0
        exercises = {exercise.slug: exercise for exercise in course.exercises}
        self._hostile = [
            Submission("", exercises[member.attacks], "hostile", member.id, member.text.encode(), member.ends)
            for member in members()
            if member.attacks in exercises and _needs_nothing(member)
        ]

    def one(self, kind: str, exercise: Exercise) -> Submission:
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

    def _own(self, one: Submission) -> Submission:
        """With a line of its own for most: the same text is graded once."""
        if self._chance.random() < SAME_TEXT_SHARE:
            return one
        return replace(one, content=one.content.rstrip() + f"\n\n# number {self._number}\n".encode())

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
    """It ends quickly in every isolation, on the virtual GPU, whatever it is called and wherever it is."""
    is_quick = member.name in _QUICK_RESOURCES or not (
        member.kind == "resources" or member.attacks in ("timed", "patience")
    )
    is_plain = len(member.isolations) > 1 and member.device == "virtual" and member.file_name == f"{member.name}.py"
    return is_quick and is_plain and not member.open and not _PLACED.search(member.text)


def renamed(text: str, ending: str) -> str:
    """The same program with other names for what functions keep in variables, and without its comments."""
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
    """Names that a statement assigns to; of a function only those in it."""
    if not inside and isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return {statement.name}
    return {node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
