"""Threads: torch's modes belong to one thread, so each thread enters them as it starts; so does its clock.

A thread begins at the time of the thread that started it; who joins it goes on no earlier than it ended.
"""

from __future__ import annotations

import _thread
import sys
import threading
from collections.abc import Callable
from typing import Any

from gpututor.devices.virtual.clock.host import Stamp
from gpututor.devices.virtual.face.devices import lazy_init
from gpututor.devices.virtual.machine import active, is_on
from gpututor.devices.virtual.parallel.handing_over import gave_up, host_clock, stamp
from gpututor.devices.virtual.tensors.names import ThreadModes, thread_has_modes

_Thread: Any = threading.Thread
_real_bootstrap, _real_thread_start, _real_join = _Thread._bootstrap_inner, _Thread.start, _Thread.join
_real_start: Any = _thread.start_new_thread


def thread_start(self: Any) -> None:
    """Stands in for `threading.Thread.start`."""
    self.virtual_start = stamp()
    _real_thread_start(self)


def thread_bootstrap(self: Any) -> None:
    """Stands in for the start of every `threading.Thread`, those of pools included, in the new thread."""
    if not is_on():
        _real_bootstrap(self)
        return
    host = active().clock.host
    host.begin(getattr(self, "virtual_start", None))
    with ThreadModes():
        try:
            _real_bootstrap(self)
        finally:
            self.virtual_end = host.end()


def thread_join(self: Any, timeout: float | None = None) -> None:
    """Stands in for `threading.Thread.join`."""
    _real_join(self, timeout)
    host = host_clock()
    if host is not None and not self.is_alive():
        host.meet(getattr(self, "virtual_end", None))
    else:
        gave_up(sys._getframe(1), timeout)


def start_new_thread(function: Callable[..., object], args: tuple[Any, ...], kwargs: Any = None, /) -> int:
    """Stands in for `_thread.start_new_thread`."""
    started: Stamp | None = stamp()

    def on_the_machine() -> None:
        if not is_on():
            function(*args, **(kwargs or {}))
            return
        active().clock.host.begin(started)
        with ThreadModes():
            function(*args, **(kwargs or {}))

    # With wrong arguments Python's own function says what is wrong, before a thread starts.
    right = callable(function) and isinstance(args, tuple) and isinstance(kwargs, dict | None)
    return int(
        _real_start(on_the_machine, ()) if right else _real_start(function, args, *([] if kwargs is None else [kwargs]))
    )


def start_cuda() -> None:
    """Stands in for `torch.cuda._lazy_init`, which C++ calls where no function mode has seen the device's name.

    Raises `RuntimeError` in a thread without the modes: what it asks for would be looked for on a real GPU. C++ calls
    until it has succeeded once in a process; from then on torch itself says that there is no such kernel.
    """
    lazy_init()
    if not thread_has_modes():
        raise RuntimeError(
            "This thread was started before the virtual GPU was switched on, so it does not see it. "
            "Start the thread inside the block of virtual_gpu(), or give the work to a pool of threads."
        )
