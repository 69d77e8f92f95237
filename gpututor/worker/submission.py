"""Loading and calling a submission or a script, and describing what went wrong."""

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
from gpututor.worker.device_mismatch import tensors_in_words
from gpututor.worker.guard import MODULE_NAME, CallGuard


class Script:
    """A file that is run afresh, with other arguments, in each call; what it prints is its result."""

    def __init__(self, code: CodeType, path: Path) -> None:
        self._script = code
        self._path = path

    def __call__(self, argv: Sequence[str] = ()) -> str:
        """Run it with `sys.argv[1:]` as given. Raises what it raises, and `SystemExit` for any status but 0."""
        main = ModuleType("__main__")
        main.__file__ = str(self._path)
        with _as_main(main, [self._path.name, *argv]), _printed() as printed:
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


@contextlib.contextmanager
def _printed() -> Iterator[io.StringIO]:
    """What is printed goes on its way, and is kept."""
    kept = io.StringIO()
    with contextlib.redirect_stdout(_Both(sys.stdout, kept)):
        yield kept


class _Both(io.TextIOBase):
    def __init__(self, stream: TextIO, kept: io.StringIO) -> None:
        self._stream, self._kept = stream, kept

    def write(self, text: str) -> int:
        self._kept.write(text)
        return self._stream.write(text)

    def flush(self) -> None:
        self._stream.flush()

    def isatty(self) -> bool:
        return False


LONGEST_MESSAGE, LONGEST_TRACEBACK = 10_000, 40_000
"""Characters that are passed on: an exception's author decides how many there are."""


class SubmissionFailed(Exception):
    """The submission could not be loaded or called; carries the words for it."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def load(path: Path, entry: str) -> Callable[..., Any]:
    """Import the file at `path` afresh and return its function `entry`, or all of it as a script where that is empty.

    Raises `SubmissionFailed`.
    """
    sys.modules.pop(MODULE_NAME, None)
    linecache.checkcache(str(path))
    code = _compiled(path)
    if not entry:
        return Script(code, path)
    module = _executed(code, path)
    try:
        function = getattr(module, entry, None)
    except BaseException as error:  # of the module's own __getattr__
        raise SubmissionFailed(describe(error, path)) from None
    if not callable(function):
        raise SubmissionFailed(_missing(entry, function, module))
    return function  # type: ignore[no-any-return]


def call(
    function: Callable[..., Any], arguments: dict[str, Any], path: Path, between: CallGuard | None = None
) -> tuple[Any, int | None]:
    """Call the learner's function: its result, and the line at which it returned where that can be seen.

    `between` is told when it runs. Raises `SubmissionFailed` for whatever it raises, `sys.exit` included.
    """
    tracer = None
    try:
        if between is not None:
            between.go()
        returned = _ReturnLine(function)
        tracer = returned.on_call
        sys.settrace(tracer)
        output = function(**arguments)
        flush_printed()
    except BaseException as error:
        raise SubmissionFailed(describe(error, path)) from None
    finally:
        if between is not None:
            between.stand(tracer)
        sys.settrace(None)
    return output, returned.line


def flush_printed() -> None:
    """So that the judge has what was printed when it has the answer. The streams may be the learner's own."""
    for printed in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            printed.flush()


class _ReturnLine:
    """Watches one function's frames for the line at which the outermost of them returns."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._code = getattr(inspect.unwrap(function), "__code__", None)
        self.line: int | None = None

    def on_call(self, frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code is not self._code:
            return None
        frame.f_trace_lines = False
        return self._on_event

    def _on_event(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "return":
            self.line = frame.f_lineno
        return self._on_event


def _compiled(path: Path) -> CodeType:
    try:
        return compile(path.read_text(encoding="utf-8"), str(path), "exec", dont_inherit=True)
    except (MemoryError, RecursionError) as error:
        message = "an expression is nested too deeply for Python to read"
        raise SubmissionFailed(Failure("syntax", type(error).__name__, message, None, "")) from None
    except (SyntaxError, ValueError) as error:
        raise SubmissionFailed(describe(error, path)) from None


def _executed(code: CodeType, path: Path) -> ModuleType:
    module = ModuleType(MODULE_NAME)
    module.__file__ = str(path)
    sys.modules[MODULE_NAME] = module
    try:
        exec(code, module.__dict__)
    except BaseException as error:
        raise SubmissionFailed(describe(error, path)) from None
    return module


def _missing(entry: str, found: object, module: ModuleType) -> Failure:
    if found is not None:
        return Failure("missing", "", f"{entry} is a {type(found).__name__}, not a function", None, "")
    functions = {name: value for name, value in vars(module).items() if type(value) is FunctionType}
    near = difflib.get_close_matches(entry, functions, n=1, cutoff=0.5)
    message = f"there is no function called {entry}"
    if not near:
        return Failure("missing", "", message, None, "")
    line = functions[near[0]].__code__.co_firstlineno
    return Failure("missing", "", f"{message}; there is {near[0]}: is that a typing mistake?", line, "")


def describe(error: BaseException, path: Path) -> Failure:
    """The words for an exception: its kind, its message, and where in the learner's file it came from."""
    try:
        return _describe(error, path)
    except BaseException:  # its class is the learner's too, and every attribute of it may be code
        return Failure("exception", "", "an exception that breaks whoever looks at it", None, "")


def _describe(error: BaseException, path: Path) -> Failure:
    summary = traceback.TracebackException(type(error), error, error.__traceback__, limit=None, compact=True)
    own = [frame for frame in summary.stack if frame.filename == str(path)]
    message = str.__getitem__(_message(error), slice(LONGEST_MESSAGE))
    line = own[-1].lineno if own else None
    if isinstance(error, SyntaxError) and error.filename == str(path):
        line = error.lineno
    return Failure(
        kind=_kind(error, path),
        type_name=type(error).__name__,
        message=message,
        line=line if type(line) is int and line > 0 else None,
        traceback=_own_traceback(summary, own, path, message),
        tensors=tensors_in_words(error, path) if mixes_devices(type(error).__name__, message) else "",
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
    summary: traceback.TracebackException, own: list[traceback.FrameSummary], path: Path, message: str
) -> str:
    """The traceback with the learner's frames only, and the file's name in place of its path."""
    if own or summary.exc_type is not None:
        summary.stack = traceback.StackSummary.from_list(own)
    try:
        if len(message) < LONGEST_MESSAGE:
            text = "".join(summary.format(chain=False))
        else:  # Python would take half a minute to indent a message of many lines
            text = "".join([*summary.stack.format(), f"{summary.exc_type.__name__}: {message}\n"])
    except BaseException as inner:
        return f"<the traceback raised {type(inner).__name__}>"
    return text.replace(str(path), path.name)[:LONGEST_TRACEBACK]
