"""Memory events: records of allocations, frees that wait for streams, the driver and the host.

cudaMalloc takes some 100 µs and about half a millisecond for 1 GiB, whose pages are mapped; cudaFree waits for all work
of the device first (CUDA Runtime API, "cudaFree"), then unmaps them. Imports no torch.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch

from gpututor.devices.recorder import Place, Recorder
from gpututor.devices.virtual import cuda_errors, torch_private
from gpututor.devices.virtual.clock.machine_clock import HappensBefore, MachineClock
from gpututor.devices.virtual.clock.timeline import Task
from gpututor.trace.events import Kind

_ALLOCATION_NS, _FREE_NS, _PER_MIB_NS = 100_000, 60_000, 400


def allocation_ns(size_bytes: int) -> int:
    """Nanoseconds of the host for a new segment of device memory."""
    return _ALLOCATION_NS + size_bytes * _PER_MIB_NS // 2**20


def free_ns(segments: int, size_bytes: int) -> int:
    """The same for giving so many segments back, of so many bytes together; the wait is not included."""
    return segments * _FREE_NS + size_bytes * _PER_MIB_NS // 2**20


LARGE = 1 << 30
"""Below this many bytes nobody looks: a machine with so little left has other troubles."""
_KEPT = 64 << 20
_MEMINFO = Path("/proc/meminfo")


def available() -> int | None:
    """The bytes that can be had without swapping; None where the system does not say."""
    try:
        lines = _MEMINFO.read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    for line in lines:
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


def expect(size_bytes: int) -> None:
    """Raises `MemoryError` in words where the system would kill the process for taking that much."""
    if size_bytes < LARGE:
        return
    left = available()
    if left is not None and size_bytes + _KEPT > left:
        raise cuda_errors.host_out_of_memory(size_bytes, left)


@dataclass(frozen=True, slots=True)
class PendingCopy:
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
    copies: list[PendingCopy] = field(default_factory=list)


class PendingCopies:
    """Those of a machine, by storage; false while there are none."""

    def __init__(self) -> None:
        self._by_storage: dict[int, _OfStorage] = {}

    def __bool__(self) -> bool:
        return bool(self._by_storage)

    def add(self, tensor: torch.Tensor, access: Task, order: HappensBefore, *, writes: bool) -> None:
        """A copy from or to a CPU tensor was launched."""
        if order.host_knows(access):
            return
        self._forget_gone()
        with torch_private.host_only():
            storage, (start, end) = tensor.untyped_storage(), extent(tensor)
        found = self._by_storage.get(storage._cdata)
        if found is None or found.storage() is not storage:
            found = self._by_storage[storage._cdata] = _OfStorage(weakref.ref(storage))
        found.copies = [one for one in found.copies if not order.host_knows(one.access)]
        found.copies.append(PendingCopy(access, writes, start, end))

    def of(self, tensor: torch.Tensor, order: HappensBefore) -> Iterator[PendingCopy]:
        """Those that use bytes of a CPU tensor; what is given has been told, and is forgotten."""
        with torch_private.host_only():
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

    def forget(self, tensor: torch.Tensor, told: PendingCopy) -> None:
        """It was reported, and once is enough."""
        found = self._by_storage.get(torch_private.storage_id(tensor))
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


FREED_IN_USE = "freed in use"
"""A hazard, beside those of `gpututor.devices.virtual.execution.races`."""


class StreamsOfThread(Protocol):
    """What is different in each thread."""

    streams: dict[int, int]


Moment = tuple[int, Place, int]
"""When and where something was freed, which is counted later, and the stream that gets it back."""


class UsedMemory(Protocol):
    """The memory of one storage, and the work that used it last."""

    home: int
    written: Task | None
    recorded: set[int] | None

    def reads(self) -> Iterable[Task]: ...


class AllocationLog:
    """What one GPU's memory tells the trace. All sizes are bytes, times nanoseconds."""

    __slots__ = ("_clock", "_device", "_host", "_index", "_order", "_recorder", "_streams_of")

    def __init__(
        self, index: int, device: str, clock: MachineClock, recorder: Recorder, streams_of: StreamsOfThread
    ) -> None:
        self._index = index
        self._device = device
        self._clock = clock
        self._host = clock.host
        self._order = clock.order
        self._recorder = recorder
        self._streams_of = streams_of

    def stream(self) -> int:
        """The number of this thread's current stream on the GPU."""
        streams = self._streams_of.streams
        return streams.get(self._index, 0) if streams else 0

    def moment(self, stream: int) -> Moment | None:
        """Now and here, for what is freed and `stream` gets back; None while nothing is recorded.

        Takes no lock: destructors call it.
        """
        recorder = self._recorder
        # Its callers are the destructor and what that calls.
        return (self._host.now, recorder.place(3), stream) if recorder.enabled else None

    def taken(self, size: int, allocated: int, writer: Task | None) -> int:
        """A storage was allocated; `allocated` is what all of them take now. `writer` is the launch that fills it.

        Gives the number of the event, -1 where none was written down.
        """
        recorder = self._recorder
        if not recorder.enabled:
            return -1
        place = None if writer is None else writer.place
        # A copy from another GPU is on a stream of that one.
        stream = self.stream() if writer is None or writer.key[0] != self._index else writer.key[1]
        now = self._host.now
        return recorder.memory(Kind.ALLOCATE, self._device, size, allocated, launched=now, stream=stream, place=place)

    def left(self, size: int, allocated: int, moment: Moment, taken: int) -> None:
        """A storage was freed at that moment; `taken` is the event of its allocation."""
        time, place, stream = moment
        self._recorder.memory(
            Kind.FREE, self._device, size, allocated, launched=time, stream=stream, partner=taken, place=place
        )

    def freed(self, block: UsedMemory) -> None:
        """Report memory that goes back to its stream while another uses it. Takes no lock: destructors call it."""
        order = self._order
        if not order.active or not self._recorder.enabled:
            return
        for use in (*block.reads(), *(() if block.written is None else (block.written,))):
            recorded = block.recorded is not None and use.key[1] in block.recorded
            if not recorded and not order.is_before(use, self._index, block.home) and not order.host_knows(use):
                now, stream = self._host.now, block.home
                self._recorder.hazard(FREED_IN_USE, self._device, stream=stream, partner=use.row, launched=now)

    def grown(self, size: int) -> None:
        """The driver was asked for a segment."""
        self._host.spend(allocation_ns(size))

    def shrinking(self) -> None:
        """Segments are about to go back to the driver, which waits for all work of the GPU first."""
        began, recorder = self._host.now, self._recorder
        self._clock.synchronize(self._index)
        if recorder.enabled:
            now = self._host.now
            recorder.synchronise("cudaFree", self._device, stream=0, launched=began, start=began, end=now)

    def shrunk(self, segments: int, size: int) -> None:
        """So many segments, of so many bytes together, went back."""
        self._host.spend(free_ns(segments, size))

    def short(self, size: int, allocated: int) -> None:
        """A storage did not fit."""
        recorder = self._recorder
        if recorder.enabled:
            recorder.memory(Kind.OUT_OF_MEMORY, self._device, size, allocated, launched=self._host.now)
