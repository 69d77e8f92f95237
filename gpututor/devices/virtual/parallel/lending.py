"""Tensors that gloo's threads hold: Python may not end before they are back.

A thread of gloo takes Python's lock to let go of a tensor that Python made. When the interpreter is ending it gets
no lock: Python ends the thread inside a destructor, and C++ aborts the process.
"""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Iterable

import torch

_lent: set[weakref.ref[torch.Tensor]] = set()
"""Those that a work of gloo may hold; the last who lets go of a tensor takes it out."""
if hasattr(os, "register_at_fork"):
    # Gloo's threads are the parent's.
    os.register_at_fork(after_in_child=_lent.clear)


def to_lend(host: torch.Tensor) -> torch.Tensor:
    """The same values in another tensor, for gloo alone: it is gone as soon as gloo lets go of it."""
    return host.detach() if host.layout is torch.strided else host


def lend(hosts: Iterable[torch.Tensor]) -> None:
    """Remember tensors, each one once, that a work of gloo holds and that nobody else is going to keep."""
    for host in {id(one): one for one in hosts}.values():
        if host.layout is torch.strided:
            # Taken out by C alone: Python code could lose the lock before the thread is done with it.
            _lent.add(weakref.ref(host, _lent.discard))


def wait_for_return(limit_s: float) -> bool:
    """Until gloo holds no tensor that was lent; False when some are still out after that time."""
    deadline = time.monotonic() + limit_s
    while _lent and time.monotonic() < deadline:
        time.sleep(0.001)
    return not _lent
