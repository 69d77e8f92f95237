"""Loading and calling what the learner wrote, and putting words to what went wrong."""

from __future__ import annotations

import importlib.util
import linecache
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from gpututor.wire.messages import Failure, FailureKind

MODULE_NAME = "submission"


class SubmissionFailed(Exception):
    """The submission could not be loaded or called; carries the words for it."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def load(path: Path, entry: str) -> Callable[..., Any]:
    """Import the file at `path` afresh and return its function `entry`. Raises `SubmissionFailed`."""
    sys.modules.pop(MODULE_NAME, None)
    linecache.checkcache(str(path))
    module = _execute(path)
    function = getattr(module, entry, None)
    if not callable(function):
        defined = [name for name, value in vars(module).items() if callable(value) and not name.startswith("_")]
        raise SubmissionFailed(_missing(entry, function, defined))
    return function  # type: ignore[no-any-return]


def call(function: Callable[..., Any], arguments: dict[str, Any], path: Path) -> Any:
    """Call the learner's function. Raises `SubmissionFailed` for whatever it raises, `sys.exit` included."""
    try:
        return function(**arguments)
    except BaseException as error:
        raise SubmissionFailed(describe(error, path)) from None


def _execute(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(MODULE_NAME, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[MODULE_NAME] = module
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        raise SubmissionFailed(describe(error, path)) from None
    return module


def _missing(entry: str, found: object, defined: list[str]) -> Failure:
    import difflib

    if found is not None:
        message = f"{entry} is a {type(found).__name__}, not a function"
    else:
        near = difflib.get_close_matches(entry, defined, n=1, cutoff=0.5)
        message = f"there is no function called {entry}" + (f"; did you mean to call {near[0]} so?" if near else "")
    return Failure("missing", "", message, None, "")


def describe(error: BaseException, path: Path) -> Failure:
    """The words for an exception: its kind, its message, and where in the learner's file it came from."""
    summary = traceback.TracebackException(type(error), error, error.__traceback__, limit=None, compact=True)
    own = [frame for frame in summary.stack if frame.filename == str(path)]
    line = own[-1].lineno if own else None
    if isinstance(error, SyntaxError) and error.filename == str(path):
        line = error.lineno
    return Failure(
        kind=_kind(error, path),
        type_name=type(error).__name__,
        message=_message(error),
        line=line or None,
        traceback=_own_traceback(summary, own, path),
    )


def _kind(error: BaseException, path: Path) -> FailureKind:
    match error:
        case SyntaxError() if error.filename == str(path):
            return "syntax"
        case SystemExit():
            return "exit"
        case MemoryError() | torch.OutOfMemoryError():
            return "out of memory"
        case RuntimeError() if "DefaultCPUAllocator" in str(error):
            return "out of memory"
        case NotImplementedError() if "virtual GPU" in str(error):
            return "unsupported"
    return "exception"


def _message(error: BaseException) -> str:
    if isinstance(error, SyntaxError):
        return error.msg or "invalid syntax"
    try:
        return str(error)
    except BaseException as inner:
        return f"<its message raised {type(inner).__name__}>"


def _own_traceback(summary: traceback.TracebackException, own: list[traceback.FrameSummary], path: Path) -> str:
    """The traceback with the learner's frames only, and the file's name in place of its path."""
    if own or summary.exc_type is not None:
        summary.stack = traceback.StackSummary.from_list(own)
    try:
        return "".join(summary.format(chain=False)).replace(str(path), path.name)
    except BaseException as inner:
        return f"<the traceback raised {type(inner).__name__}>"
