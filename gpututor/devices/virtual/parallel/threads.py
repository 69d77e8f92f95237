"""Threads: torch's modes belong to one thread, so each thread enters them as it starts."""

from __future__ import annotations

import _thread
import concurrent.futures.thread
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from multiprocessing.pool import ThreadPool
from typing import Any

from gpututor.devices.virtual.face.devices import lazy_init
from gpututor.devices.virtual.machine import is_on
from gpututor.devices.virtual.tensors.names import ThreadModes, thread_has_modes

_real_bootstrap: Any = threading.Thread._bootstrap_inner  # type: ignore[attr-defined]
_real_item: Any = concurrent.futures.thread._WorkItem.run
_real_start: Any = _thread.start_new_thread


def thread_bootstrap(self: threading.Thread) -> None:
    """Stands in for the start of every `threading.Thread`, those of pools included."""
    if not is_on():
        _real_bootstrap(self)
        return
    with ThreadModes():
        _real_bootstrap(self)


def start_new_thread(function: Callable[..., object], args: tuple[Any, ...], kwargs: Any = None, /) -> int:
    """Stands in for `_thread.start_new_thread`."""

    def on_the_machine() -> None:
        if not is_on():
            function(*args, **(kwargs or {}))
            return
        with ThreadModes():
            function(*args, **(kwargs or {}))

    # With wrong arguments Python's own function says what is wrong, before a thread starts.
    right = callable(function) and isinstance(args, tuple) and isinstance(kwargs, dict | None)
    return int(
        _real_start(on_the_machine, ()) if right else _real_start(function, args, *([] if kwargs is None else [kwargs]))
    )


def _modes() -> AbstractContextManager[Any]:
    """For a piece of work in a thread that may have been started before the machine was entered."""
    return ThreadModes() if is_on() and not thread_has_modes() else nullcontext()


def run_item(self: Any, *context: Any) -> None:
    """Stands in for what a `ThreadPoolExecutor` runs for each call that it was given."""
    with _modes():
        _real_item(self, *context)


def giver_of_work(name: str) -> Any:
    """Stands in for a method of `multiprocessing.pool.ThreadPool` that gives a function to its threads."""
    real: Any = getattr(ThreadPool, name)

    @wraps(real)
    def give(self: Any, func: Any, *args: Any, **options: Any) -> Any:
        return real(self, _OnTheMachine(func) if callable(func) else func, *args, **options)

    return give


class _OnTheMachine:
    """A function of a pool of threads."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with _modes():
            return self._function(*args, **kwargs)


def start_cuda() -> None:
    """Stands in for `torch.cuda._lazy_init`, which C++ calls where no function mode has seen the device's name.

    Raises `RuntimeError` in a thread without the modes: what it asks for would be looked for on a real GPU.
    """
    lazy_init()
    if not thread_has_modes():
        raise RuntimeError(
            "This thread was started before the virtual GPU was switched on, so it does not see it. "
            "Start the thread inside the block of virtual_gpu(), or give the work to a pool of threads."
        )
