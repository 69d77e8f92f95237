"""Loads and calls a submission or a script, builds its arguments, and describes its failures."""

from __future__ import annotations

import contextlib
import difflib
import inspect
import io
import linecache
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any, TextIO

import torch

from gpututor.protocol.messages import Failure, FailureKind, mixes_devices
from gpututor.worker.device_mismatch import describe_tensors
from gpututor.worker.guard import MODULE_NAME, CallGuard


class Script:
    """A script that each call runs from its beginning, with the call's arguments. The output is the result."""

    def __init__(self, code: CodeType, path: Path) -> None:
        self._script, self._path = code, path

    def __call__(self, argv: Sequence[str] = ()) -> str:
        """Run it with `sys.argv[1:]` as given. Raises its exceptions, and `SystemExit` for any status but 0."""
        main = ModuleType("__main__")
        main.__file__ = str(self._path)
        printed = io.StringIO()
        with _as_main(main, [self._path.name, *argv]), contextlib.redirect_stdout(_Tee(sys.stdout, printed)):
            try:
                exec(self._script, main.__dict__)
            except SystemExit as ended:
                if ended.code not in (None, 0):
                    raise
        return printed.getvalue()


@contextlib.contextmanager
def _as_main(main: ModuleType, argv: list[str]) -> Iterator[None]:
    before = sys.modules["__main__"], sys.argv
    sys.modules["__main__"], sys.argv = main, argv
    try:
        yield
    finally:
        sys.modules["__main__"], sys.argv = before


class _Tee(io.TextIOBase):
    def __init__(self, stream: TextIO, captured: io.StringIO) -> None:
        self._stream, self._kept = stream, captured

    def write(self, text: str) -> int:
        self._kept.write(text)
        return self._stream.write(text)

    def flush(self) -> None:
        self._stream.flush()

    def isatty(self) -> bool:
        return False


LONGEST_MESSAGE, LONGEST_TRACEBACK = 10_000, 40_000
"""Characters that are sent: the author of an exception decides how many there are."""


class SubmissionFailed(Exception):
    """The submission could not be loaded or called."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


GIVEN = "given.py"
"""File name under which the source of the exercise's `given.py` is compiled."""
Build = Callable[[dict[str, Any], torch.device], dict[str, Any]]


class GivenFailed(Exception):
    """The author's `given.py` failed. `fault` is `gpututor.protocol.messages.GivenFault` as JSON."""

    def __init__(self, fault: dict[str, Any]) -> None:
        super().__init__(fault["said"])
        self.fault = fault


@contextlib.contextmanager
def _authors_code() -> Iterator[None]:
    """Run code of `given.py`. Raises `GivenFailed` for its exceptions, `SystemExit` included."""
    try:
        yield
    except (Exception, SystemExit) as error:
        frames = [
            [line, frame.f_code.co_name]
            for frame, line in traceback.walk_tb(error.__traceback__)
            if frame.f_code.co_filename == GIVEN
        ]
        said = f"{type(error).__name__}: {error}".removesuffix(": ")
        raise GivenFailed({"said": said[:2000], "frames": frames[-20:]}) from error


def build_function(source: str) -> Build:
    """Return `build(drawn, device)` of `given.py`, or a function that returns `drawn`. Both may raise `GivenFailed`."""
    given = ModuleType("given")
    with _authors_code():
        exec(compile(source, GIVEN, "exec"), given.__dict__)
    build: Build | None = getattr(given, "build", None)
    if build is None:
        return lambda drawn, _: drawn

    def build_arguments(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
        with _authors_code():
            arguments: object = build(drawn, device)
        if not isinstance(arguments, dict):
            said = f"build() must return a dict of arguments, not a {type(arguments).__name__}"
            line = getattr(getattr(build, "__code__", None), "co_firstlineno", 1)
            raise GivenFailed({"said": said, "frames": [[line, "build"]]})
        return arguments

    return build_arguments


def run(function: Callable[..., Any], path: Path, *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except BaseException as error:
        raise SubmissionFailed(describe(error, path)) from None


def load(path: Path, entry: str) -> Callable[..., Any]:
    """Import the file at `path` afresh and return its function `entry`, or a `Script` if `entry` is empty.

    Raises `SubmissionFailed`.
    """
    sys.modules.pop(MODULE_NAME, None)
    linecache.checkcache(str(path))
    code = _compiled(path)
    if not entry:
        return Script(code, path)
    module = ModuleType(MODULE_NAME)
    module.__file__ = str(path)
    sys.modules[MODULE_NAME] = module
    run(exec, path, code, module.__dict__)
    function = run(lambda: getattr(module, entry, None), path)  # calls a __getattr__ of the module
    if not callable(function):
        raise SubmissionFailed(_missing(entry, function, module))
    return function  # type: ignore[no-any-return]


def call(
    function: Callable[..., Any], arguments: dict[str, Any], path: Path, guard: CallGuard | None = None
) -> tuple[Any, int | None]:
    """Call the learner's function; return its result, and the line at which it returned, if known.

    `guard` lets the submission run during the call. Raises `SubmissionFailed` for its exceptions, `sys.exit` included.
    """
    tracer = None
    try:
        if guard is not None:
            guard.resume()
        returned = _ReturnLine(function)
        tracer = returned.tracer
        sys.settrace(tracer)
        output = function(**arguments)
        line = returned.take()
        flush_printed()
    except BaseException as error:
        raise SubmissionFailed(describe(error, path)) from None
    finally:
        if guard is not None:
            guard.suspend(tracer)
        sys.settrace(None)
    return output, line


def flush_printed() -> None:
    """Flush the output, so that the judge gets it with the answer. The learner may have replaced the streams."""
    for printed in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            printed.flush()


class _ReturnLine:
    """The line at which a function returned, read from its outermost frame.

    A trace function finds the frame, and ends the tracing at once, because it slows all Python code that it sees.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._code = getattr(inspect.unwrap(function), "__code__", None)
        self._frame: FrameType | None = None
        self.tracer = self._on_call if self._code is not None else None

    def _on_call(self, frame: FrameType, event: str, _: Any) -> None:
        if frame.f_code is self._code:
            self._frame = frame
            sys.settrace(None)

    def take(self) -> int | None:
        """Return the line, if known, and drop the frame, which keeps the function's variables alive."""
        frame, self._frame = self._frame, None
        return None if frame is None else frame.f_lineno


def _compiled(path: Path) -> CodeType:
    try:
        return compile(path.read_text(encoding="utf-8"), str(path), "exec", dont_inherit=True)
    except (MemoryError, RecursionError) as error:
        message = "an expression is nested too deeply for Python to read"
        raise SubmissionFailed(Failure("syntax", type(error).__name__, message, None, "")) from None
    except (SyntaxError, ValueError) as error:
        raise SubmissionFailed(describe(error, path)) from None


def _missing(entry: str, value: object, module: ModuleType) -> Failure:
    if value is not None:
        return Failure("missing", "", f"{entry} is a {type(value).__name__}, not a function", None, "")
    functions = {name: value for name, value in vars(module).items() if type(value) is FunctionType}
    message, line = f"there is no function called {entry}", None
    for near in difflib.get_close_matches(entry, functions, n=1, cutoff=0.5):
        message += f"; there is {near}: did you mean that?"
        line = functions[near].__code__.co_firstlineno
    return Failure("missing", "", message, line, "")


def describe(error: BaseException, path: Path) -> Failure:
    """Describe an exception: its kind, its message, and its line in the learner's file."""
    try:
        return _describe(error, path)
    except BaseException:  # its class is the learner's, so any attribute may run code
        return Failure("exception", "", "an exception whose type or message cannot be read", None, "")


def _describe(error: BaseException, path: Path) -> Failure:
    summary = traceback.TracebackException(type(error), error, error.__traceback__, limit=None, compact=True)
    learners_frames = [frame for frame in summary.stack if frame.filename == str(path)]
    message = str.__getitem__(_message(error), slice(LONGEST_MESSAGE))
    line = learners_frames[-1].lineno if learners_frames else None
    if isinstance(error, SyntaxError) and error.filename == str(path):
        line = error.lineno
    return Failure(
        kind=_kind(error, path),
        type_name=type(error).__name__,
        message=message,
        line=line if type(line) is int and line > 0 else None,
        traceback=_own_traceback(summary, learners_frames, path, message),
        tensors=describe_tensors(error, path) if mixes_devices(type(error).__name__, message) else "",
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


def _own_traceback(
    summary: traceback.TracebackException, learners_frames: list[traceback.FrameSummary], path: Path, message: str
) -> str:
    """Format the traceback with the learner's frames only, and the file's name instead of its path."""
    if learners_frames or summary.exc_type is not None:
        summary.stack = traceback.StackSummary.from_list(learners_frames)
    try:
        if len(message) < LONGEST_MESSAGE:
            text = "".join(summary.format(chain=False))
        else:  # Python would take half a minute to indent a message of many lines
            text = "".join([*summary.stack.format(), f"{summary.exc_type.__name__}: {message}\n"])
    except BaseException as inner:
        return f"<the traceback raised {type(inner).__name__}>"
    return text.replace(str(path), path.name)[:LONGEST_TRACEBACK]
