"""Programs that run in this process as with `python FILE` or `python -m MODULE`. Imports no torch."""

from __future__ import annotations

import atexit
import builtins
import importlib.util
import io
import os
import re
import runpy
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import ModuleType, TracebackType
from typing import TypeVar

from gpututor.devices.virtual.clock.python_time import is_installed
from gpututor.errors import UsageError
from gpututor.paths import PACKAGE

Entered = TypeVar("Entered")
_MODULES = {"torchrun": "torch.distributed.run", "accelerate": "accelerate.commands.launch", "pytest": "pytest"}
"""Modules behind the commands that start CUDA programs."""
_OURS = str(PACKAGE) + os.sep
_EXERCISES = os.path.join(_OURS, "exercises", "")
_MODE_WRAPPERS = {("torch", "overrides.py"), ("torch", "_compile.py"), ("_dynamo", "eval_frame.py")}
"""Ends of torch's files that call a mode, or call through one."""


@dataclass(frozen=True)
class Program:
    """A program and its arguments."""

    name: str
    """A file, a folder or zip file with a `__main__.py`, or the name of a module."""
    arguments: tuple[str, ...] = ()
    is_module: bool = False

    @property
    def words(self) -> str:
        """Return a short name, such as `train.py` or `-m package.train`."""
        return f"-m {self.name}" if self.is_module else os.path.basename(os.path.abspath(self.name))


def check(program: Program) -> None:
    """Raise `UsageError` for a program that does not exist, without running any of it."""
    if not program.is_module:
        if not os.path.exists(program.name):
            raise UsageError(*_no_script(program.name, program.arguments))
        if os.path.isdir(program.name) and not os.path.exists(os.path.join(program.name, "__main__.py")):
            raise UsageError(f"{program.name} is a folder without a __main__.py.", "Name a Python file.")
        if not (os.path.isdir(program.name) or os.path.isfile(program.name)):
            raise UsageError(f"{program.name} is a device, a pipe or a socket.", "Name a Python file.")
        return
    if program.name.endswith(".py") and os.path.exists(program.name):
        raise UsageError(f"{program.name} is a file, and -m takes the name of a module.", "Leave out -m.")
    first = program.name.split(".")[0]
    try:
        known = bool(first) and (first in sys.builtin_module_names or _spec_here(first) is not None)
    except ValueError:  # a loaded module without a spec
        known = True
    if not known:
        hint = "Leave out -m to run a file." if os.path.exists(program.name) else "-m takes names like package.train."
        raise UsageError(f"There is no module {program.name!r}.", hint)


def _spec_here(name: str) -> ModuleSpec | None:
    """Return the spec of a module, looking in the current folder first."""
    sys.path.insert(0, os.getcwd())
    try:
        return importlib.util.find_spec(name)
    finally:
        del sys.path[0]


def _no_script(name: str, arguments: tuple[str, ...]) -> tuple[str, str]:
    """Return title and advice for a name that is not a file; often it is a command."""
    if re.fullmatch(r"python[\d.]*", name):
        rest = " ".join(arguments) or "SCRIPT"
        return f"{name} is a command, but a Python file is needed.", f"Leave it out: {rest}"
    if name in _MODULES:
        return f"{name} is a command, but a Python file is needed.", f"Use -m {_MODULES[name]}."
    if shutil.which(name):
        return f"{name} is a command, but a Python file is needed.", "Name a file, or a module after -m."
    return f"There is no file {name}.", "Name a Python file, or a module after -m."


def run(program: Program) -> None:
    """Run the program as `__main__`, and leave the module in place for its exit handlers.

    `sys.argv`, `sys.path[0]` and `__file__` are as Python sets them, so child processes find the program again.
    All exceptions of the program propagate, including `SystemExit`.
    """
    main = ModuleType("__main__")
    main.__dict__["__builtins__"] = builtins
    sys.modules["__main__"] = main
    sys.argv = [program.name, *program.arguments]
    if program.is_module:
        _look_first_in(os.getcwd())
        runpy._run_module_as_main(program.name)  # type: ignore[attr-defined]
        return
    path = os.path.abspath(program.name)
    if os.path.isdir(path) or _is_zip(path):
        _look_first_in(path)
        runpy._run_module_as_main("__main__", False)  # type: ignore[attr-defined]
        return
    _look_first_in(os.path.dirname(os.path.realpath(path)))
    main.__file__ = path
    main.__loader__ = SourceFileLoader("__main__", path)
    main.__dict__["__cached__"] = None
    with io.open_code(path) as file:
        source = file.read()
    exec(compile(source, path, "exec", dont_inherit=True), main.__dict__)


def _look_first_in(folder: str) -> None:
    if sys.flags.safe_path:
        sys.path.insert(0, folder)
    else:
        sys.path[0] = folder  # replaces the folder of gpututor's own command line


def _is_zip(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(4) == b"PK\x03\x04"


def run_on(
    machine: AbstractContextManager[Entered],
    program: Program,
    *,
    began: Callable[[Entered], object] = lambda _: None,
    failed: Callable[[BaseException], object] = lambda _: None,
) -> None:
    """Run the program inside `machine`; leave `machine` when Python exits, after all threads and exit handlers.

    Calls `began` inside `machine`, before the program starts. Passes an uncaught error to `failed`, and prints it as
    Python does, but without gpututor's frames. Then raises `SystemExit` with Python's exit code (130 for Ctrl-C).
    """
    stack = ExitStack()
    atexit.register(stack.close)
    began(stack.enter_context(machine))
    try:
        run(program)
    except SystemExit:
        raise
    except BaseException as error:
        failed(error)
        show(error)
        sys.exit(130 if isinstance(error, KeyboardInterrupt) else 1)


def show(error: BaseException) -> None:
    """Show an uncaught error with the program's own `sys.excepthook`, without gpututor's frames."""
    for cause in _with_causes(error):
        cause.__traceback__ = program_frames(cause.__traceback__)
    sys.excepthook(type(error), error, error.__traceback__)


def _with_causes(error: BaseException) -> Iterator[BaseException]:
    waiting: list[BaseException | None] = [error]
    seen: set[int] = set()
    while waiting:
        cause = waiting.pop()
        if cause is None or id(cause) in seen:
            continue
        seen.add(id(cause))
        waiting += [cause.__cause__, cause.__context__]
        if isinstance(cause, BaseExceptionGroup):
            waiting += cause.exceptions
        yield cause


def program_frames(traceback: TracebackType | None) -> TracebackType | None:
    """Remove gpututor's frames, and torch's frames between and below them: without gpututor, these are C++.

    Returns None if no frame is left.
    """
    frames: list[TracebackType] = []
    is_internal = False
    while traceback is not None:
        file = traceback.tb_frame.f_code.co_filename
        parts = Path(file).parts
        is_internal = (file.startswith((_OURS, "<frozen runpy>")) and not file.startswith(_EXERCISES)) or (
            is_internal and "torch" in parts
        )
        if not is_internal and parts[-2:] not in _MODE_WRAPPERS:
            frames.append(traceback)
        traceback = traceback.tb_next
    for index, frame in enumerate(frames):
        frame.tb_next = frames[index + 1] if index + 1 < len(frames) else None
    return frames[0] if frames else None


@dataclass(frozen=True)
class Learners:
    """Rule for the learner's files: files in `below` that are not installed, and all files in `inside`.

    Folders end in a separator. Relative names of files are relative to `here`.
    """

    here: str
    below: Sequence[str]
    inside: Sequence[str]

    def __call__(self, file: str) -> bool:
        if file.startswith("<"):
            return False
        path = os.path.normpath(os.path.join(self.here, file))
        if path.startswith(tuple(self.inside)):
            return True
        return path.startswith(tuple(self.below)) and not is_installed(path) and not _INSTALLED.search(path)


_INSTALLED = re.compile(r"[/\\](site|dist)-packages[/\\]")


def learners_of(program: Program) -> Learners:
    """Return the rule for a program: files below its folder or the current folder, and the package of a -m module."""
    below, inside = [os.getcwd()], []
    if program.is_module:
        inside = _package_folders(program.name.split(".")[0])
    else:
        below += [os.path.dirname(path(program.name)) for path in (os.path.realpath, os.path.abspath)]
    return Learners(os.getcwd(), *([os.path.join(folder, "") for folder in folders] for folders in (below, inside)))


def _package_folders(name: str) -> list[str]:
    """Return the folders of an installed package; none for Python's own modules, torch and gpututor."""
    if name in ("torch", PACKAGE.name) or name in sys.stdlib_module_names:
        return []
    with suppress(ImportError, ValueError):
        spec = _spec_here(name)
        return [os.path.abspath(folder) for folder in (spec and spec.submodule_search_locations) or ()]
    return []
