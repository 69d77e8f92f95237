"""The clock of a virtual machine: host threads that launch, copy and wait, and the timelines of its GPUs.

Imports no torch. Durations come from whoever knows what the work costs; here is decided when it runs, and how long the
host has to wait for it.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

from gpututor.devices.virtual.clock.host import HostClocks
from gpututor.devices.virtual.clock.timeline import Mark, Stream, Task, Timeline


@dataclass(frozen=True, slots=True)
class HostCosts:
    """What calls cost the thread that makes them, in nanoseconds."""

    launch: int = 5_000
    """A kernel launch, or the start of a copy, with PyTorch's own way to it."""
    synchronise: int = 3_000
    """A wait for work that is done already."""
    event: int = 500
    """Recording an event, or asking for one."""


@dataclass(frozen=True, slots=True)
class Link:
    """The way between the host and a GPU, or between two GPUs."""

    latency: int
    """Nanoseconds before the first byte."""
    pageable: float
    """Bytes for each second, from and to memory that the system can move."""
    pinned: float
    """The same for page-locked memory."""
    peer: float
    """The same between two GPUs."""

    def duration(self, size_bytes: int, rate: float) -> int:
        """Nanoseconds that a copy takes."""
        return self.latency + round(size_bytes / rate * 1e9)


class MachineClock:
    """Time on a machine: each host thread's, and each GPU's. Safe to use from several threads."""

    def __init__(self, links: Sequence[Link], costs: HostCosts | None = None) -> None:
        self.host = HostClocks()
        self.costs = costs if costs is not None else HostCosts()
        self.links = list(links)
        self.gpus = [Timeline() for _ in links]
        for timeline in self.gpus:
            timeline.peers = self.gpus
        self._lock = threading.Lock()

    def launch(self, gpu: int, stream: int, duration: int, fill: int) -> Task:
        """The host launches a kernel and goes on; it waits only where the stream's queue is full."""
        with self._lock:
            timeline, queue = self._at(gpu, stream)
            return timeline.kernel(queue, self._launched(timeline, queue), duration, fill)

    def copy(self, gpu: int, stream: int, size_bytes: int, engine: str, *, pinned: bool, asynchronous: bool) -> Task:
        """A copy by the engine `h2d`, `d2h` or `p2p`; unless it is asynchronous, the host waits for it."""
        link = self.links[gpu]
        rate = link.peer if engine == "p2p" else link.pinned if pinned else link.pageable
        with self._lock:
            timeline, queue = self._at(gpu, stream)
            task = timeline.copy(queue, self._launched(timeline, queue), link.duration(size_bytes, rate), engine)
            if not asynchronous:
                self.host.wait_until(timeline.drained(queue))
            return task

    def synchronise(self, gpu: int, stream: int | None = None) -> int:
        """The host waits for a stream, or for all of a GPU's; how many nanoseconds it waited."""
        with self._lock:
            timeline = self.gpus[gpu]
            self.host.spend(self.costs.synchronise)
            before = self.host.now
            done = timeline.all_drained() if stream is None else timeline.drained(timeline.stream(stream))
            self.host.wait_until(done)
            return self.host.now - before

    def record(self, gpu: int, stream: int) -> Mark:
        """A mark after all work that the stream has been given."""
        with self._lock:
            timeline, queue = self._at(gpu, stream)
            self.host.spend(self.costs.event)
            return timeline.mark(queue, self.host.now)

    def wait_for(self, gpu: int, stream: int, mark: Mark) -> None:
        """The stream's later work waits for `mark`; the host does not."""
        with self._lock:
            timeline, queue = self._at(gpu, stream)
            self.host.spend(self.costs.event)
            timeline.wait(queue, self.host.now, mark)

    def is_reached(self, gpu: int, mark: Mark) -> bool:
        """Whether all work before `mark` is done by now."""
        with self._lock:
            self.host.spend(self.costs.event)
            self.gpus[gpu].play_until(self.host.now)
            return 0 <= mark.time <= self.host.now

    def is_idle(self, gpu: int, stream: int) -> bool:
        """Whether all work of a stream is done by now."""
        with self._lock:
            self.host.spend(self.costs.event)
            timeline, queue = self._at(gpu, stream)
            timeline.play_until(self.host.now)
            return not queue.pending and queue.free_at <= self.host.now

    def wait_for_mark(self, gpu: int, mark: Mark) -> int:
        """The host waits for `mark`; how many nanoseconds it waited."""
        with self._lock:
            self.host.spend(self.costs.synchronise)
            before = self.host.now
            self.host.wait_until(self.gpus[gpu].reached(mark))
            return self.host.now - before

    def _at(self, gpu: int, stream: int) -> tuple[Timeline, Stream]:
        timeline = self.gpus[gpu]
        return timeline, timeline.stream(stream)

    def _launched(self, timeline: Timeline, stream: Stream) -> int:
        self.host.spend(self.costs.launch)
        if stream.pending >= Timeline.QUEUE:
            self.host.wait_until(timeline.room_in_queue(stream))
        return self.host.now
