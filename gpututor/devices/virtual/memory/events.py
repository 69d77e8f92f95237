"""Side effects of memory: trace events, pending copies, the driver's time and the host's real memory.

cudaMalloc maps pages. On an H200 it takes 50 µs for 200 MiB and 1.0 ms for 20,000 MiB. cudaFree first waits for all
work of the device (CUDA Runtime API, "cudaFree"), then unmaps the pages. This takes 82 µs and 6.8 ms
(benchmarks/data/h200.json).
"""

from __future__ import annotations

import weakref
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import torch

from gpututor.devices.recorder import Place, Recorder
from gpututor.devices.virtual import cuda_errors, torch_private
from gpututor.devices.virtual.clock.machine_clock import HappensBefore, MachineClock
from gpututor.devices.virtual.clock.timeline import EventMarker, StreamTask
from gpututor.trace.columns import MOST_BYTES
from gpututor.trace.events import Kind

_ALLOCATION_NS, _ALLOCATION_PER_MIB_NS = 40_000, 50
_FREE_NS, _FREE_PER_MIB_NS = 25_000, 300


def allocation_ns(size_bytes: int) -> int:
    """Return the host's nanoseconds to allocate a segment."""
    return _ALLOCATION_NS + size_bytes * _ALLOCATION_PER_MIB_NS // 2**20


def free_ns(segments: int, size_bytes: int) -> int:
    """Return the host's nanoseconds to free segments of `size_bytes` in total, without the wait."""
    return segments * _FREE_NS + size_bytes * _FREE_PER_MIB_NS // 2**20


LARGE = 1 << 30
"""Bytes from which the host's memory is checked."""
_RESERVE = 64 << 20
_MEMINFO = Path("/proc/meminfo")


def available() -> int | None:
    """Return the bytes available without swapping; None if the system does not say."""
    try:
        lines = _MEMINFO.read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    for line in lines:
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


def check_fits_on_host(size_bytes: int) -> None:
    """Raise `MemoryError` if the system would kill the process for taking that much."""
    if size_bytes < LARGE:
        return
    left = available()
    if left is not None and size_bytes + _RESERVE > left:
        raise cuda_errors.host_out_of_memory(size_bytes, left)


@dataclass(frozen=True, slots=True)
class PendingCopy:
    """Asynchronous copy that uses the bytes of a host storage from `start` to before `end`."""

    access: StreamTask
    writes: bool
    """True if it writes to the host's memory; False if it reads."""
    start: int
    end: int


@dataclass(slots=True)
class _OfStorage:
    storage: weakref.ref[torch.UntypedStorage]
    """Reference that detects a new storage with the same number."""
    copies: list[PendingCopy] = field(default_factory=list)


class PendingCopies:
    """Pending copies of a machine, by storage; false if there are none."""

    def __init__(self) -> None:
        self._by_storage: dict[int, _OfStorage] = {}

    def __bool__(self) -> bool:
        return bool(self._by_storage)

    def add(self, tensor: torch.Tensor, access: StreamTask, order: HappensBefore, *, writes: bool) -> None:
        """Add a launched copy from or to a CPU tensor."""
        if order.host_knows(access):
            return
        for key, entry in list(self._by_storage.items()):
            if entry.storage() is None:
                del self._by_storage[key]
        with torch_private.host_only():
            storage, (start, end) = tensor.untyped_storage(), extent(tensor)
        pending = self._by_storage.get(storage._cdata)
        if pending is None or pending.storage() is not storage:
            pending = self._by_storage[storage._cdata] = _OfStorage(weakref.ref(storage))
        pending.copies = [copy for copy in pending.copies if not order.host_knows(copy.access)]
        pending.copies.append(PendingCopy(access, writes, start, end))

    def of(self, tensor: torch.Tensor, order: HappensBefore) -> Iterator[PendingCopy]:
        """Yield the pending copies that use bytes of a CPU tensor."""
        with torch_private.host_only():
            storage = tensor.untyped_storage()
            pending = self._by_storage.get(storage._cdata)
            if pending is None:
                return
            start, end = extent(tensor)
        if pending.storage() is not storage:
            del self._by_storage[storage._cdata]
            return
        for copy in list(pending.copies):
            if order.host_knows(copy.access):
                pending.copies.remove(copy)
            elif copy.start < end and start < copy.end:
                yield copy
        if not pending.copies:
            self._by_storage.pop(storage._cdata, None)

    def forget(self, tensor: torch.Tensor, reported: PendingCopy) -> None:
        """Remove a copy, so that its race is reported once."""
        pending = self._by_storage.get(torch_private.storage_id(tensor))
        if pending is not None and reported in pending.copies:
            pending.copies.remove(reported)


def extent(tensor: Any) -> tuple[int, int]:
    """Return the range of bytes of its storage, (start, end), that contains a strided tensor."""
    if not tensor.numel():
        return 0, 0
    start = tensor.storage_offset()
    last = start + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    width: int = tensor.element_size()
    return start * width, (last + 1) * width


FREED_IN_USE = "freed in use"
"""Hazard of memory, in addition to those of `gpututor.devices.virtual.execution.races`."""
Moment = tuple[int, Place, int]
"""Time, place and stream of a free that is counted later."""


class StreamsOfThread(Protocol):
    """Current streams of each thread."""

    def stream(self, gpu: int) -> int:
        """Return the number of the current stream of a GPU."""


class EarlyFree(NamedTuple):
    """Memory that was freed while a launch on another stream used it."""

    use: StreamTask
    home: int
    """Stream that gets the memory back."""
    memory: range
    """Addresses of the memory."""
    time: int
    place: Place


class AllocationLog:
    """Trace events of one GPU's memory. All sizes are bytes, all times nanoseconds."""

    __slots__ = ("_clock", "_device", "_host", "_index", "_recorder", "_streams_of", "early_frees", "order")

    def __init__(
        self, index: int, device: str, clock: MachineClock, recorder: Recorder, streams_of: StreamsOfThread
    ) -> None:
        self._index = index
        self._device = device
        self._clock = clock
        self._host = clock.host
        self.order = clock.order
        self._recorder = recorder
        self._streams_of = streams_of
        self.early_frees: list[EarlyFree] = []
        """Frees of memory in use, as long as neither a new use nor an order between both streams is known."""

    def stream(self) -> int:
        """Return the number of this thread's current stream on the GPU."""
        return self._streams_of.stream(self._index)

    def mark(self, stream: int) -> EventMarker:
        """Record an event after all earlier work of a stream."""
        return self._clock.record(self._index, stream)

    def is_reached(self, mark: EventMarker) -> bool:
        """Return True if all work before `mark` is done by now. Orders no work: the program does not see the answer."""
        return self._clock.has_passed(self._index, mark)

    def wait_for(self, mark: EventMarker) -> None:
        """Make the host wait for `mark`."""
        self._clock.wait_for_mark(self._index, mark)

    def moment(self, stream: int) -> Moment | None:
        """Return the time and place of a free whose memory `stream` gets back; None while nothing is recorded.

        Takes no lock: destructors call it.
        """
        recorder = self._recorder
        # Skips `CachingAllocator.release`, which the destructor calls.
        return (self._host.now, recorder.place(2), stream) if recorder.enabled else None

    def record_allocation(self, size: int, allocated: int, writer: StreamTask | None) -> int:
        """Record an allocation, after which all storages take `allocated`; `writer` is the launch that fills it.

        Return the row of the event; -1 if nothing is recorded.
        """
        recorder = self._recorder
        if not recorder.enabled:
            return -1
        place = None if writer is None else writer.place
        # A copy from another GPU is on a stream of that one.
        stream = self.stream() if writer is None or writer.key[0] != self._index else writer.key[1]
        now = self._host.now
        return recorder.memory(Kind.ALLOCATE, self._device, size, allocated, launched=now, stream=stream, place=place)

    def record_free(self, size: int, allocated: int, moment: Moment, taken: int) -> None:
        """Record a free at an earlier moment; `taken` is the row of its allocation."""
        time, place, stream = moment
        self._recorder.memory(
            Kind.FREE, self._device, size, allocated, launched=time, stream=stream, partner=taken, place=place
        )

    def note_freed_in_use(
        self, uses: Iterable[StreamTask], home: int, recorded: Collection[int], memory: range
    ) -> None:
        """Note memory that returns to the stream `home` while another uses it. Takes no lock: destructors call it.

        `uses` are the last launches that read or wrote the addresses `memory`, `recorded` the streams passed to
        `record_stream`.
        """
        order = self.order
        if not self._recorder.enabled or (self._index, home) in order.of_fsdp:
            return
        for use in uses:
            if use.key[1] not in recorded and not order.is_before(use, self._index, home) and not order.host_knows(use):
                self.early_frees.append(EarlyFree(use, home, memory, self._host.now, self._recorder.place()))

    def record_freed_in_use(self, new: range | None = None) -> None:
        """Record a hazard for each early free whose memory is in `new`, an allocation; or for all of them, at the end.

        There is none if the stream has waited since for the launch that used the memory.
        """
        order = self.order
        early, self.early_frees = self.early_frees, []
        for free in early:
            use, home, memory, time, (file, line) = free
            if order.is_before(use, self._index, home):
                continue
            if new is not None:
                if new.start >= memory.stop or memory.start >= new.stop:
                    self.early_frees.append(free)
                    continue
                if order.host_knows(use):
                    continue
            # The recorder may be off by now: it was on when the memory was freed.
            self._recorder.trace.add(
                Kind.HAZARD,
                FREED_IN_USE,
                self._device,
                stream=home,
                partner=use.row,
                launched=time,
                start=time,
                end=time,
                file=file,
                line=line,
            )

    def spend(self, nanoseconds: int) -> None:
        """Advance the host's clock by a call of the driver."""
        self._host.spend(nanoseconds)

    def wait_for_device(self) -> None:
        """Wait for all work of the GPU, as the driver does before it frees segments, and record the wait."""
        began, recorder = self._host.now, self._recorder
        self._clock.synchronize(self._index)
        if recorder.enabled:
            now = self._host.now
            recorder.synchronize("cudaFree", self._device, stream=0, launched=began, start=began, end=now)

    def record_out_of_memory(self, size: int, allocated: int) -> None:
        """Record a storage that did not fit, whatever its size."""
        recorder = self._recorder
        if recorder.enabled:
            size = min(size, MOST_BYTES)
            recorder.memory(Kind.OUT_OF_MEMORY, self._device, size, allocated, launched=self._host.now)
