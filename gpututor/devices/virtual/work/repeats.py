"""Copies that bring the same bytes to a GPU once more: nobody has changed them since, and one copy would have done."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any

import torch

from gpututor.devices.virtual import private
from gpututor.devices.virtual.clock.timeline import Task
from gpututor.devices.virtual.machine import VirtualMachine

_MOST = 10_000
"""Copies that are remembered; a program with more tensors than that on the host starts anew."""


@dataclass(frozen=True, slots=True)
class Brought:
    """What was copied to a GPU."""

    storage: weakref.ref[torch.UntypedStorage]
    version: int
    view: tuple[Any, ...]
    row: int


def brought(machine: VirtualMachine, source: torch.Tensor, gpu: int, access: Task | None) -> None:
    """A CPU tensor was copied to that GPU: tell the trace if the same bytes were before."""
    if access is None or access.row < 0 or source.is_inference() or source.layout is not torch.strided:
        return
    with private.host_only():
        storage = source.untyped_storage()
        view = (source.storage_offset(), source.shape, source.stride(), source.dtype)
        key, version = (storage._cdata, gpu), source._version
    before = machine.brought.get(key)
    if before is not None and before.storage() is storage and before.version == version and before.view == view:
        machine.recorder.repeats(access.row, before.row)
    if len(machine.brought) >= _MOST:
        machine.brought.clear()
    machine.brought[key] = Brought(weakref.ref(storage), version, view, access.row)
