"""Errors in an author's code, reported with the author's file, line and frames, but without gpututor's frames."""

from __future__ import annotations

import inspect
import os
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gpututor
from gpututor.errors import CourseError, TutorError

FILES = ("given.py", "checks.py")
"""Files of an exercise whose code runs in the judge or in a worker."""
FIX = "Fix the exercise's checks.py or given.py."
_PACKAGE = str(Path(gpututor.__file__).parent) + os.sep


@dataclass(frozen=True)
class AuthorFrame:
    """A stack frame in an author's file."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{os.path.basename(self.file)}:{self.line} in {self.function}"


def authors_frames(error: BaseException) -> list[AuthorFrame]:
    """Return the frames of `error` in an exercise's files, outermost first."""
    frames = [
        AuthorFrame(frame.f_code.co_filename, line, frame.f_code.co_name)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if _is_authors(frame.f_code.co_filename)
    ]
    if isinstance(error, SyntaxError) and error.filename and _is_authors(error.filename):
        frames.append(AuthorFrame(error.filename, error.lineno or 1, "<module>"))
    return frames


def _is_authors(file: str) -> bool:
    return os.path.basename(file) in FILES and not file.startswith(_PACKAGE)


def describe_error(error: BaseException) -> str:
    """Return the type and message of an exception, or the title of a `TutorError`."""
    if isinstance(error, TutorError):
        return error.title
    return f"{type(error).__name__}: {error}".removesuffix(": ")


def fault_at(frames: Sequence[AuthorFrame], said: str, file: Path | None = None, advice: str = FIX) -> CourseError:
    """Return an error whose title begins with the author's file and line, or with `file` if there is no frame."""
    if not frames:
        return CourseError(f"{file}: {said}" if file is not None else said, advice)
    further = ["Called from:", *map(str, reversed(frames[:-1]))] if len(frames) > 1 else []
    last = frames[-1]
    return CourseError(f"{last.file}:{last.line}: {said}", "\n".join([advice, *further]))


def fault_of(error: BaseException, file: Path | None = None, lead: str = "") -> CourseError:
    """Return an exception in an author's code as a `CourseError`; it names `file` if no frame is the author's."""
    if isinstance(error, TutorError):
        if os.path.isabs(error.title.partition(":")[0]):
            return CourseError(error.title, error.advice)
        return fault_at(authors_frames(error), f"{lead}{error.title}", file, error.advice or FIX)
    return fault_at(authors_frames(error), f"{lead}{describe_error(error)}", file)


def check_fits(function: Callable[..., Any], wanted: str, /, *values: Any, **named: Any) -> None:
    """Raise `CourseError` if `function` cannot take these arguments; `wanted` is the signature that it should have."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return  # written in C: the call itself will fail
    try:
        signature.bind(*values, **named)
    except TypeError as error:
        name = getattr(function, "__name__", type(function).__name__)
        problem = f"{name}{signature} cannot be called as {wanted}: {error}"
        raise fault_at(definition(function), problem, None, f"Give it the signature {wanted}.") from None


def definition(function: Callable[..., Any]) -> list[AuthorFrame]:
    """Return the frame of a function's definition; empty if it has none."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return [] if code is None else [AuthorFrame(code.co_filename, code.co_firstlineno, code.co_name)]


def call_author(function: Callable[[dict[str, Any], Any], Any], drawn: dict[str, Any], machine: Any) -> Any:
    """Call an author's function of (drawn, machine). Raises `CourseError` if it takes other arguments."""
    check_fits(function, "(drawn, machine)", drawn, machine)
    return function(drawn, machine)
