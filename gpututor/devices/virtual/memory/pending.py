"""Asynchronous copies from and to page-locked memory of which the host does not know yet that they are done."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from gpututor.devices.virtual import private
from gpututor.devices.virtual.clock.order import Order
from gpututor.devices.virtual.clock.timeline import Task


@dataclass(frozen=True, slots=True)
class Pending:
    """One copy; it uses the bytes of its storage from `start` to before `end`."""

    access: Task
    writes: bool
    """Whether it writes there, from the GPU; else it reads."""
    start: int
    end: int


@dataclass(slots=True)
class _OfStorage:
    storage: weakref.ref[torch.UntypedStorage]
    """Another may get its number once it is gone; its memory is kept until its copies are done."""
    copies: list[Pending] = field(default_factory=list)


class PendingCopies:
    """Those of a machine, by storage; false while there are none."""

    def __init__(self) -> None:
        self._by_storage: dict[int, _OfStorage] = {}

    def __bool__(self) -> bool:
        return bool(self._by_storage)

    def add(self, tensor: torch.Tensor, access: Task, order: Order, *, writes: bool) -> None:
        """A copy from or to a CPU tensor was launched."""
        if order.host_knows(access):
            return
        self._forget_gone()
        with private.host_only():
            storage, (start, end) = tensor.untyped_storage(), extent(tensor)
        found = self._by_storage.get(storage._cdata)
        if found is None or found.storage() is not storage:
            found = self._by_storage[storage._cdata] = _OfStorage(weakref.ref(storage))
        found.copies = [one for one in found.copies if not order.host_knows(one.access)]
        found.copies.append(Pending(access, writes, start, end))

    def of(self, tensor: torch.Tensor, order: Order) -> Iterator[Pending]:
        """Those that use bytes of a CPU tensor; what is given has been told, and is forgotten."""
        with private.host_only():
            storage = tensor.untyped_storage()
            found = self._by_storage.get(storage._cdata)
            if found is None:
                return
            start, end = extent(tensor)
        if found.storage() is not storage:
            del self._by_storage[storage._cdata]
            return
        for one in list(found.copies):
            if order.host_knows(one.access):
                found.copies.remove(one)
            elif one.start < end and start < one.end:
                yield one
        if not found.copies:
            self._by_storage.pop(storage._cdata, None)

    def forget(self, tensor: torch.Tensor, told: Pending) -> None:
        """It was reported, and once is enough."""
        found = self._by_storage.get(private.storage_id(tensor))
        if found is not None and told in found.copies:
            found.copies.remove(told)

    def _forget_gone(self) -> None:
        for key, one in list(self._by_storage.items()):
            if one.storage() is None:
                del self._by_storage[key]


def extent(tensor: Any) -> tuple[int, int]:
    """The bytes of its storage that a strided tensor lies in: from the first to before the second."""
    if not tensor.numel():
        return 0, 0
    start = tensor.storage_offset()
    last = start + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    width: int = tensor.element_size()
    return start * width, (last + 1) * width
