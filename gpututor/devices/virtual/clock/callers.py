"""Who reads the virtual clock: the learner's code, and nobody who has to wait for real. Imports no torch.

The file of the calling code decides. Python's own modules and installed packages, torch among them, get the real clock:
they wait for processes, files and sockets, which take their own time. What measures time for a learner reads the
virtual one: `timeit`, `torch.utils.benchmark` and `sched`. Progress bars (tqdm) are for the person who waits: real.
"""

from __future__ import annotations

import asyncio.events
import concurrent.futures.thread
import importlib.util
import multiprocessing.pool
import multiprocessing.process
import os
import sched
import site
import sysconfig
import threading
import timeit
from collections.abc import Iterable
from enum import Enum
from types import CodeType
from typing import Any

from gpututor.paths import PACKAGE


class Caller(Enum):
    """What a file is to the clock."""

    LEARNER = "learner"
    STOPWATCH = "stopwatch"
    """It measures time for a learner."""
    LIBRARY = "library"


TIMED_CODE = ("<timeit-src>", "<magic-timeit>")
"""The file names of the loops that `timeit` and IPython's `%timeit` make."""


def _code(function: Any) -> CodeType:
    code = function.__code__
    assert isinstance(code, CodeType)
    return code


_ON_BEHALF = {
    id(_code(function))
    for function in (
        threading.Thread.run,
        threading.Timer.run,
        concurrent.futures.thread._WorkItem.run,
        multiprocessing.process.BaseProcess.run,
        multiprocessing.pool.worker,  # type: ignore[attr-defined]
        multiprocessing.pool.mapstar,  # type: ignore[attr-defined]
        multiprocessing.pool.starmapstar,  # type: ignore[attr-defined]
        asyncio.events.Handle._run,
    )
}
"""Code of Python's that calls functions for those who gave them: `Thread(target=time.sleep, args=(1,))`."""
_known: dict[str, Caller] = dict.fromkeys(TIMED_CODE, Caller.STOPWATCH)


def on_behalf(function: Any) -> Any:
    """Decorator: what this calls is called by the learner, who gave it."""
    _ON_BEHALF.add(id(_code(function)))
    return function


def kind_of(code: CodeType) -> Caller:
    """What the code that called is to the clock."""
    kind = _known.get(code.co_filename)
    if kind is None:
        kind = _known[code.co_filename] = _kind_of_file(code.co_filename)
    return Caller.LEARNER if kind is Caller.LIBRARY and id(code) in _ON_BEHALF else kind


def is_learners(code: CodeType) -> bool:
    """Whether time passes on the virtual clock while this code waits."""
    return kind_of(code) is not Caller.LIBRARY


def _folders(paths: Iterable[str | None]) -> tuple[str, ...]:
    """Each folder as it is called and as it is really called, with a separator at its end."""
    known = {one for path in paths if path for one in (os.path.abspath(path), os.path.realpath(path))}
    return tuple(os.path.join(one, "") for one in known)


def _torch_folder() -> str | None:
    found = importlib.util.find_spec("torch")
    return os.path.dirname(found.origin) if found is not None and found.origin else None


_INSTALLED = _folders(
    [
        *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
        *site.getsitepackages(),
        site.getusersitepackages(),
        _torch_folder(),
        str(PACKAGE),
    ]
)
_EXERCISES = _folders([str(PACKAGE / "exercises")])
_STOPWATCHES = (os.path.join("torch", "utils", "benchmark", ""), timeit.__file__, sched.__file__)


def is_installed(name: str) -> bool:
    """Whether a file is one of Python's, of an installed package's or of ours."""
    return name.startswith(("<frozen ", *_INSTALLED)) and not name.startswith(_EXERCISES)


def _kind_of_file(name: str) -> Caller:
    if not is_installed(name):
        return Caller.LEARNER
    if any(one in name for one in _STOPWATCHES):
        return Caller.STOPWATCH
    return Caller.LIBRARY
