"""Gloo carries the values and figures of collectives on the CPU. Tensors live until gloo is done with them.

A thread of gloo needs the GIL to release a tensor that Python made. While the interpreter exits, the thread cannot get
the GIL: Python ends the thread inside a destructor, and C++ aborts the process. So before it exits, a process waits
until gloo has released its tensors.
"""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch

from gpututor.devices.virtual import torch_private

_held_by_gloo: set[weakref.ref[torch.Tensor]] = set()
"""Tensors that gloo may hold; a tensor's entry disappears with the tensor."""
if hasattr(os, "register_at_fork"):
    # A forked child has none of gloo's threads.
    os.register_at_fork(after_in_child=_held_by_gloo.clear)


def keep_alive_until_done(host: torch.Tensor) -> torch.Tensor:
    """Return a second tensor on the same memory for gloo, which is freed as soon as gloo releases it."""
    return host.detach() if host.layout is torch.strided else host


def track_tensors(hosts: Iterable[torch.Tensor]) -> None:
    """Remember tensors that only gloo holds from now on."""
    for host in {id(host): host for host in hosts}.values():
        if host.layout is torch.strided:
            # The callback is a C method: in Python code, the thread could lose the GIL before it is done.
            _held_by_gloo.add(weakref.ref(host, _held_by_gloo.discard))


def wait_for_release(limit_s: float) -> bool:
    """Wait up to `limit_s` seconds; return True if gloo has released all its tensors."""
    deadline = time.monotonic() + limit_s
    while _held_by_gloo and time.monotonic() < deadline:
        time.sleep(0.001)
    return not _held_by_gloo


def call(function: Callable[[], Any]) -> Any:
    """Call gloo, unseen by the virtual GPU."""
    with torch_private.host_only(), torch_private.without_function_modes(), torch_private.unprofiled():
        return function()


class Figures(NamedTuple):
    """Times in nanoseconds that a rank sends with a collective, and the number of its GPU on the machine."""

    ready: int
    duration: int
    slot: int


def figures_for(values: Figures) -> torch.Tensor:
    """Return a CPU tensor with figures for another rank."""
    tensor: torch.Tensor = call(lambda: torch.tensor(values))
    return tensor


def read_figures(tensor: torch.Tensor) -> Figures:
    """Return the figures that a rank has sent."""
    return Figures(*call(tensor.tolist))
