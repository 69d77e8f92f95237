"""Threads: torch's modes belong to one thread, so each thread enters them as it starts."""

from __future__ import annotations

import _thread
import threading
from collections.abc import Callable
from typing import Any

from gpututor.devices.virtual.machine import is_on
from gpututor.devices.virtual.tensors.names import ThreadModes

_real_bootstrap: Any = threading.Thread._bootstrap_inner  # type: ignore[attr-defined]
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
