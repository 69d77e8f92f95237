"""Writes down what happens to a GPU's memory: what is allocated, freed, or does not fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from gpututor.devices.recorder import Place, Recorder
from gpututor.devices.virtual.clock.clock import MachineClock
from gpututor.devices.virtual.clock.timeline import Task
from gpututor.devices.virtual.memory import driver
from gpututor.trace.events import Kind

if TYPE_CHECKING:
    from gpututor.devices.virtual.memory.allocator import Block

FREED_IN_USE = "freed in use"
"""A hazard, beside those of `gpututor.devices.virtual.work.hazards`."""


class StreamsOfThread(Protocol):
    """What is different in each thread."""

    streams: dict[int, int]


Moment = tuple[int, Place, int]
"""When and where something was freed, which is counted later, and the stream that gets it back."""


class MemoryWatch:
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

    def freed(self, block: Block) -> None:
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
        self._host.spend(driver.allocation_ns(size))

    def shrinking(self) -> None:
        """Segments are about to go back to the driver, which waits for all work of the GPU first."""
        began, recorder = self._host.now, self._recorder
        self._clock.synchronise(self._index)
        if recorder.enabled:
            now = self._host.now
            recorder.synchronise("cudaFree", self._device, stream=0, launched=began, start=began, end=now)

    def shrunk(self, segments: int, size: int) -> None:
        """So many segments, of so many bytes together, went back."""
        self._host.spend(driver.free_ns(segments, size))

    def short(self, size: int, allocated: int) -> None:
        """A storage did not fit."""
        recorder = self._recorder
        if recorder.enabled:
            recorder.memory(Kind.OUT_OF_MEMORY, self._device, size, allocated, launched=self._host.now)
