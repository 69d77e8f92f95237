"""The author's code of an exercise: what is drawn, and the checks. Trusted, run in the judge."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from gpututor.checks.authors import check_fits, definition, fault_at, fault_of
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
    module = _execute(given_path, given)
    draw, build = getattr(module, "draw", None), getattr(module, "build", None)
    if not callable(draw):
        raise CourseError(f"{given_path}: there is no function draw(seed, case)", "Write one.")
    check_fits(draw, "draw(seed, case)", 0, 0)
    if callable(build):
        check_fits(build, "build(drawn, device)", {}, torch.device("cpu"))
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
    except (Exception, SystemExit) as error:
        raise fault_of(error, folder / "given.py") from error
    at, file = definition(code.draw), folder / "given.py"
    if not isinstance(drawn, dict) or not all(isinstance(name, str) for name in drawn):
        raise fault_at(at, "draw() must return a dict with names as keys", file, "Return one.")
    if odd := _odd_part(drawn):
        advice = "Return CPU tensors, numbers, text, lists, tuples and dicts; let build() make everything else."
        raise fault_at(at, f"draw() returns {odd}, which does not travel to the worker", file, advice)
    return drawn


_PLAIN = (type(None), bool, int, float, str, torch.Tensor, torch.nn.Parameter, torch.device, torch.dtype, torch.Size)


def _odd_part(value: Any, path: str = "") -> str:
    """Return words for the first part that cannot be sent to a worker, such as `a Linear at 'model'`; or nothing."""
    if isinstance(value, torch.Tensor) and value.device.type != "cpu":
        return f"a tensor on {value.device} at {path!r}"
    if type(value) in _PLAIN:
        return ""
    if isinstance(value, dict):
        return next(filter(None, (_odd_part(part, f"{path}.{key}".strip(".")) for key, part in value.items())), "")
    if isinstance(value, list | tuple):
        parts = enumerate(value)
        return next(filter(None, (_odd_part(part, f"{path}.{index}".strip(".")) for index, part in parts)), "")
    return f"a {type(value).__name__} at {path!r}"


def _execute(path: Path, source: str) -> ModuleType:
    module = ModuleType(path.stem)
    module.__file__ = str(path)
    try:
        exec(compile(source, str(path), "exec"), module.__dict__)
    except (Exception, SystemExit) as error:
        raise fault_of(error, path) from error
    return module
