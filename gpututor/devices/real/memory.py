"""What the memory of a real device did, seen by the tensors that come and go."""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable
from typing import Any

from gpututor.devices.real.backends import Backend
from gpututor.devices.recorder import Place, Recorder
from gpututor.trace.events import Kind

_ASKED = re.compile(r"Tried to allocate ([\d.]+) (bytes|[KMGT]iB)")
_UNITS = {"bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}


def asked_for(message: str) -> int:
    """Bytes that an out-of-memory error says were asked for, as exactly as it says it; 0 where it does not."""
    found = _ASKED.search(message)
    return round(float(found[1]) * _UNITS[found[2]]) if found else 0


class Memory:
    """Writes down the storages that operators make, and their end.

    What is allocated after a storage was made is the allocator's own figure, which counts workspaces too; after one
    went, it is that figure less the storage's bytes, as no allocator can be asked in a destructor.
    """

    def __init__(self, recorder: Recorder, now: Callable[[], int]) -> None:
        self._recorder = recorder
        self._now = now
        # By the identity of the storage's Python object, which lives as long as the storage does.
        self._known: dict[int, weakref.ref[Any]] = {}
        self._allocated: dict[str, int] = {}

    def made(self, backend: Backend, index: int, device: str, tensor: Any, stream: int, place: Place | None) -> None:
        """An operator gave this tensor: a new one, or another view of a storage that is known."""
        storage = tensor.untyped_storage()
        if id(storage) in self._known or not storage.nbytes():
            return
        size = -(-storage.nbytes() // backend.granule) * backend.granule
        identity = id(storage)

        def gone(_: object) -> None:
            if self._known.pop(identity, None) is not None and self._recorder.enabled:
                self._allocated[device] = left = max(0, self._allocated[device] - size)
                self._recorder.memory(Kind.FREE, device, size, left, launched=self._now(), stream=stream, partner=taken)

        self._known[identity] = weakref.ref(storage, gone)
        allocated = self._allocated[device] = backend.allocated(index)
        taken = self._recorder.memory(
            Kind.ALLOCATE, device, size, allocated, launched=self._now(), stream=stream, place=place
        )

    def lacked(
        self, backend: Backend, index: int, device: str, error: BaseException, stream: int, place: Place | None
    ) -> None:
        """An operator was refused memory."""
        asked, allocated, now = asked_for(str(error)), backend.allocated(index), self._now()
        self._recorder.memory(Kind.OUT_OF_MEMORY, device, asked, allocated, launched=now, stream=stream, place=place)

    def forget(self) -> None:
        """What goes from now on is not written down."""
        self._known.clear()
