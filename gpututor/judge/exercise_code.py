"""The author's code of an exercise: what is drawn, and the checks. Trusted, run in the judge."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from gpututor.checks.core import Check
from gpututor.course.exercise import Exercise
from gpututor.errors import CourseError


@dataclass(frozen=True)
class ExerciseCode:
    """`given.py` and `checks.py`, loaded."""

    draw: Callable[[int, int], dict[str, Any]]
    given_source: str
    """Sent to the worker, which needs `build` of it."""
    checks: tuple[Check, ...]


def load_code(exercise: Exercise) -> ExerciseCode:
    """Raises `CourseError` that names the file, the line and what to do."""
    given_path, checks_path = exercise.folder / "given.py", exercise.folder / "checks.py"
    given = exercise.given
    checks = getattr(_execute(checks_path, exercise.checks), "checks", None)
    draw = getattr(_execute(given_path, given), "draw", None)
    if not callable(draw):
        raise CourseError(f"{given_path}: there is no function draw(seed, case)", "Write one.")
    if not isinstance(checks, list) or not checks or not all(isinstance(check, Check) for check in checks):
        raise CourseError(
            f"{checks_path}: `checks` must be a list with at least one check", "Such as checks = [value(expected)]."
        )
    twice = [name for name, times in Counter(check.name for check in checks).items() if times > 1]
    if twice:
        raise CourseError(f"{checks_path}: two checks are called {twice[0]!r}", "Give one of them another name=.")
    return ExerciseCode(draw, given, tuple(checks))


def draw_inputs(code: ExerciseCode, folder: Path, seed: int, case: int) -> dict[str, Any]:
    """What is drawn for one call. Raises `CourseError` when the author's draw breaks."""
    try:
        drawn = code.draw(seed, case)
    except Exception as error:
        raise _broken(folder / "given.py", error) from error
    if not isinstance(drawn, dict) or not all(isinstance(name, str) for name in drawn):
        raise CourseError(f"{folder / 'given.py'}: draw() must return a dict with names as keys", "Return one.")
    return drawn


def _execute(path: Path, source: str) -> ModuleType:
    module = ModuleType(path.stem)
    module.__file__ = str(path)
    try:
        exec(compile(source, str(path), "exec"), module.__dict__)
    except Exception as error:
        raise _broken(path, error) from error
    return module


def line_in(path: Path, error: Exception) -> int | None:
    """The line of an author's file at which it broke; None where it did not break there."""
    line: int | None = error.lineno if isinstance(error, SyntaxError) else None
    frame = error.__traceback__
    while frame is not None:
        if frame.tb_frame.f_code.co_filename == str(path):
            line = frame.tb_lineno
        frame = frame.tb_next
    return line


def _broken(path: Path, error: Exception) -> CourseError:
    line = line_in(path, error)
    at = f":{line}" if line else ""
    return CourseError(f"{path}{at}: {type(error).__name__}: {error}", "Mend the exercise's file.")
