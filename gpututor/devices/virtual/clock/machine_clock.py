"""Clock of a virtual machine: its host threads, its streams, and the order of their work.

Callers say how long work takes; this module decides when it runs and how long the host waits. Times are whole
nanoseconds. Imports no torch.

`HappensBefore` is a vector clock per stream and one for the host (Fidge 1988, Mattern 1989), as in PyTorch's stream
sanitizer (torch.cuda._sanitizer). While there are only default streams, nothing can be out of order and it records
almost nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

from gpututor.devices.virtual.clock.timeline import LINK, BusyMeter, EventMarker, GpuTimeline, StreamQueue, StreamTask


def predict_finish(timelines: Sequence[GpuTimeline], timeline: GpuTimeline, mark: EventMarker) -> int:
    """Return the time when `mark`, in a stream of `timeline`, is reached if nothing more is launched.

    Other processes need this time. The streams of all GPUs, `timelines`, are played and then restored. Playing them for
    good would fix the times of work that overlaps with later launches.
    """
    if mark.time >= 0:
        return mark.time
    restore = [other.snapshot() for other in timelines]
    try:
        return timeline.reached(mark)
    finally:
        for undo in restore:
            undo()


READING = 50
"""Nanoseconds to read a clock, so that `while perf_counter() < end` ends."""
_SPIN = 1_000
"""Divisor of the time that a busy loop has waited: each reading adds a thousandth, so that the loop ends soon."""
_LONGEST_READING = 1_000_000


class Stamp(NamedTuple):
    """Time of a thread of one machine, for threads that wait for it."""

    clocks: HostClocks
    """Clocks of the machine: the time has no meaning on another one."""
    time: int


class HostClocks(threading.local):
    """Clock of each host thread, in nanoseconds since the machine was switched on.

    A new thread starts at its parent's time. A thread that waits for another continues at the later of the two times.
    """

    now: int = 0
    running: bool = False
    """True if this thread belongs to the machine: threads started before it do not."""
    slept: int = 0
    """Nanoseconds that the thread slept and left the processor free."""
    latest: int = 0
    """Latest time of any work of the thread: a pool's thread goes back to the start of each job."""
    worked: int = 0
    """Time when the processor was last busy for the thread; waits and sleep do not count."""
    _run_began: int = 0
    _last_reading: int = -1
    _site: Hashable = None

    def __init__(self, threads: list[dict[str, Any]]) -> None:
        """Register this thread's attributes in `threads`; runs in each thread at its first use."""
        self._threads = threads
        threads.append(self.__dict__)

    def begin(self, stamp: Stamp | None) -> None:
        """Make this thread part of the machine; it continues from `stamp` if that is from this machine."""
        self.running = True
        if stamp is not None and stamp.clocks is self:
            self.now = stamp.time

    def spend(self, nanoseconds: int) -> None:
        """Advance the clock by work of the thread."""
        self.now = self.worked = self.now + nanoseconds

    def wait_until(self, moment: int) -> None:
        """Advance the clock to `moment` if that is later."""
        if moment > self.now:
            self.now = moment

    def sleep(self, nanoseconds: int) -> None:
        """Advance the clock without work."""
        self.now += nanoseconds
        self.slept += nanoseconds

    def read(self, site: Hashable = None) -> int:
        """Return the time for a program that reads its clock at `site`; the reading advances the clock.

        Consecutive readings at one site are a loop that waits. Each advances the clock by 50 ns, or by a thousandth of
        the time since the first reading up to 1 ms.
        """
        now = self.now
        step = READING
        if now == self._last_reading and site == self._site:
            step = max(READING, min((now - self._run_began) // _SPIN, _LONGEST_READING))
        else:
            self._run_began = now
            self._site = site
        self.now = self._last_reading = now + step
        return self.now

    def stamp(self) -> Stamp:
        """Return this thread's time, for threads that will wait for its work."""
        return Stamp(self, self.now)

    def wait_for(self, stamp: Stamp | None) -> None:
        """Wait until `stamp`; None or a stamp of another machine changes nothing."""
        if stamp is not None and stamp.clocks is self:
            self.wait_until(stamp.time)

    def last_work(self) -> int:
        """Return the time when the processor was last busy for any thread, including threads never joined."""
        return max(int(attributes.get("worked", 0)) for attributes in [*self._threads])

    def end(self) -> Stamp:
        """Return the time when all work of the thread was done."""
        return Stamp(self, max(self.now, self.latest))


Key = tuple[int, int]
"""GPU index and stream number."""
Known = dict[Key, int]
"""Number of the last launch that is known to be done, by stream."""


class HappensBefore:
    """Work that is known to be done: before the next launch of each stream, and by the host."""

    def __init__(self) -> None:
        self.active = False
        """True if work can be out of order: a second stream was used, or a stream waited for another."""
        self.host: Known = {}
        self.of_fsdp: set[Key] = set()
        """Streams of FSDP, which makes them wait for the current stream before they get memory again."""
        self._count = 0
        self._streams: dict[Key, Known] = {}

    def launched(self, gpu: int, stream: int) -> int:
        """Count a launch on a stream, which comes after all work that the host knows to be done; return its number."""
        if stream and not self.active:
            self.active = True
        self._count += 1
        if self.active:
            known = self.known(gpu, stream)
            _merge(known, self.host)
            known[gpu, stream] = self._count
        return self._count

    def known(self, gpu: int, stream: int) -> Known:
        """Return the work that is done before the next launch of a stream; the caller may add to it."""
        key = (gpu, stream)
        known = self._streams.get(key)
        if known is None:
            # Only default streams were used until now, and each is in order with itself.
            known = self._streams[key] = {} if stream else {key: self._count}
            _merge(known, self.host)
        return known

    def record(self, gpu: int, stream: int) -> Known:
        """Return the work that is done when a marker recorded now is reached."""
        return dict(self.known(gpu, stream)) if self.active else {(gpu, stream): self._count}

    def wait_for(self, gpu: int, stream: int, known: Known) -> None:
        """Order a stream's later launches after a marker's work."""
        if not self.active:
            if set(known) <= {(gpu, stream)}:
                return
            self.active = True
        _merge(self.known(gpu, stream), known)

    def host_waited_for(self, known: Known) -> None:
        """Record that the host waited for a marker."""
        _merge(self.host, known)

    def host_waited(self, gpu: int, stream: int | None) -> None:
        """Record that the host waited for a stream, or for all streams of a GPU."""
        if not self.active:
            self.host[gpu, 0] = self._count
        elif stream is not None:
            _merge(self.host, self.known(gpu, stream))
        else:
            for key, known in self._streams.items():
                if key[0] == gpu:
                    _merge(self.host, known)

    def is_before(self, earlier: StreamTask, gpu: int, stream: int) -> bool:
        """Return True if a launch is done before the next launch of a stream."""
        return earlier.key == (gpu, stream) or self.known(gpu, stream).get(earlier.key, 0) >= earlier.number

    def host_knows(self, earlier: StreamTask) -> bool:
        """Return True if the host knows that a launch is done."""
        return self.host.get(earlier.key, 0) >= earlier.number


def _merge(known: Known, more: Known) -> None:
    for key, number in more.items():
        if known.get(key, 0) < number:
            known[key] = number


SYNCHRONIZE = 3_000
"""Nanoseconds of the host to wait for work that is already done."""
EVENT = 500
"""Nanoseconds of the host to record or query an event."""
AgreeOnStart = Callable[[int, StreamTask], EventMarker]
"""Callback of a collective: takes the time when it could begin here, returns a marker of its start on all ranks."""


class MachineClock:
    """Times of a machine's host threads and GPUs. Thread-safe."""

    def __init__(self, gpus: int) -> None:
        self.host = HostClocks([])
        self.order = HappensBefore()
        self.gpus: list[GpuTimeline] = []
        self.replace_gpus(gpus)
        self.finishing = False
        """True while `finish` plays everything: other processes are then asked with a short timeout."""
        self._lock = threading.RLock()

    def replace_gpus(self, count: int) -> None:
        """Give the machine `count` GPUs without work."""
        self.gpus = [GpuTimeline(index) for index in range(count)]
        for timeline in self.gpus:
            timeline.peers = self.gpus

    def launch(self, gpu: int, stream: int, duration: int, fill: int, cost: int, row: int = -1) -> StreamTask:
        """Launch a kernel, for `cost` of the host's time; the host waits only if the queue is full."""
        with self._lock:
            timeline = self.gpus[gpu]
            queue = timeline.streams.get(stream) or timeline.stream(stream)
            task = timeline.kernel(queue, self._launched(timeline, queue, cost), duration, fill, row)
            task.number = self.order.launched(gpu, stream)
            return task

    def copy(
        self, gpu: int, stream: int, duration: int, engine: str, cost: int, *, asynchronous: bool, row: int = -1
    ) -> StreamTask:
        """Launch a copy on the engine `h2d`, `d2h` or `p2p`; the host waits unless it is asynchronous."""
        with self._lock:
            timeline, queue = self._at(gpu, stream)
            task = timeline.copy(queue, self._launched(timeline, queue, cost), duration, engine, row)
            task.number = self.order.launched(gpu, stream)
            if not asynchronous:
                self.host.wait_until(timeline.drained(queue))
                self.order.host_waited(gpu, stream)
            return task

    def collective(
        self, gpu: int, stream: int, own: int, duration: int, cost: int, agree: AgreeOnStart, row: int = -1
    ) -> tuple[StreamTask, EventMarker]:
        """Launch a collective on the stream `own`, after the work of `stream`; the host does not wait.

        Return its task and a marker that is reached when it is done.
        """
        with self._lock:
            timeline, queue = self._at(gpu, own)
            self.host.spend(cost)
            before = self.record(gpu, stream, 0)
            self.wait_for(gpu, own, before, 0)
            ready = predict_finish(self.gpus, timeline, before)
            task = StreamTask(self.host.now, duration, engine=LINK, row=row, key=queue.key)
            timeline.wait(queue, self.host.now, agree(max(ready, self.host.now), task))
            queue.queue.append(task)
            queue.pending += 1
            task.number = self.order.launched(gpu, own)
            return task, self.record(gpu, own, 0)

    def synchronize(self, gpu: int, stream: int | None = None) -> None:
        """Make the host wait for a stream, or for all streams of a GPU."""
        with self._lock:
            timeline = self.gpus[gpu]
            self.host.spend(SYNCHRONIZE)
            done = timeline.all_drained() if stream is None else timeline.drained(timeline.stream(stream))
            self.host.wait_until(done)
            self.order.host_waited(gpu, stream)

    def record(self, gpu: int, stream: int, cost: int = EVENT) -> EventMarker:
        """Record a marker after all work of a stream."""
        with self._lock:
            timeline, queue = self._at(gpu, stream)
            self.host.spend(cost)
            mark = timeline.mark(queue, self.host.now)
            mark.known = self.order.record(gpu, stream)
            return mark

    def wait_for(self, gpu: int, stream: int, mark: EventMarker, cost: int = EVENT) -> None:
        """Make later work of a stream wait for `mark`; the host does not wait."""
        with self._lock:
            timeline, queue = self._at(gpu, stream)
            self.host.spend(cost)
            timeline.wait(queue, self.host.now, mark)
            self.order.wait_for(gpu, stream, mark.known)

    def is_reached(self, gpu: int, mark: EventMarker) -> bool:
        """Return True if all work before `mark` is done."""
        with self._lock:
            reached = self.has_passed(gpu, mark)
            if reached:
                self.order.host_waited_for(mark.known)
            return reached

    def has_passed(self, gpu: int, mark: EventMarker) -> bool:
        """Return True if all work before `mark` is done. Only the allocator asks: the program's order is unchanged."""
        with self._lock:
            self.host.spend(EVENT)
            self.gpus[gpu].play_until(self.host.now)
            return 0 <= mark.time <= self.host.now

    def is_idle(self, gpu: int, stream: int) -> bool:
        """Return True if all work of a stream is done."""
        with self._lock:
            self.host.spend(EVENT)
            timeline, queue = self._at(gpu, stream)
            timeline.play_until(self.host.now)
            idle = not queue.pending and queue.free_at <= self.host.now
            if idle:
                self.order.host_waited(gpu, stream)
            return idle

    def wait_for_mark(self, gpu: int, mark: EventMarker) -> None:
        """Make the host wait for `mark`."""
        with self._lock:
            self.host.spend(SYNCHRONIZE)
            self.host.wait_until(self.gpus[gpu].reached(mark))
            self.order.host_waited_for(mark.known)

    def recent_work(self, gpu: int) -> tuple[float, float]:
        """Return the share of the last second in which kernels ran, and the bytes that they moved a second."""
        with self._lock:
            now, timeline = self.host.now, self.gpus[gpu]
            timeline.play_until(now)
            length = min(now, BusyMeter.WINDOW)
            if not length:
                return 0.0, 0.0
            busy, moved = timeline.busy.since(now - length, now)
            return busy / length, moved * 1e9 / length

    def finish(self) -> int:
        """Play all streams, so that every task has its times; return the time when the last task is done."""
        with self._lock:
            self.finishing = True
            try:
                return max((timeline.all_drained() for timeline in self.gpus), default=0)
            finally:
                self.finishing = False

    def _at(self, gpu: int, stream: int) -> tuple[GpuTimeline, StreamQueue]:
        timeline = self.gpus[gpu]
        return timeline, timeline.stream(stream)

    def _launched(self, timeline: GpuTimeline, stream: StreamQueue, cost: int) -> int:
        host = self.host
        now = host.now = host.now + cost
        # A launch without cost is part of a graph, which was launched as a whole.
        if stream.pending >= GpuTimeline.QUEUE and cost:
            host.wait_until(timeline.room_in_queue(stream, now))
            return host.now
        return now
