"""Discrete-event model of the work on one virtual GPU: streams, copy engines and concurrent kernels. Imports no torch.

The host appends work to a stream and continues; nothing is scheduled at that time. When a result is needed, the work is
played in order of time. A kernel starts when its stream has reached it and the GPU has room next to the running
kernels. A copy starts when its engine is free. Times are whole nanoseconds since the machine was switched on, so that
they are the same on every computer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import islice
from typing import ClassVar

WHOLE = 1_000_000
"""Capacity of a GPU for kernels, in millionths: integers add up exactly."""
LINK = "link"
"""Engine of collectives. It never blocks: they wait for other processes, not for a GPU."""


@dataclass(slots=True, eq=False)
class StreamTask:
    """A kernel, copy or collective in a stream. All times are nanoseconds."""

    launched: int
    """Time when the host has launched it."""
    duration: int
    fill: int = 0
    """Share of the GPU that a kernel needs, in millionths."""
    engine: str = ""
    """Copy engine, or `LINK`; empty for a kernel."""
    row: int = -1
    """Row in the trace; -1 for none."""
    key: tuple[int, int] = (0, 0)
    """GPU index and stream number."""
    number: int = 0
    """Position among all launches of the machine."""
    place: tuple[str, int | None] | None = None
    """File and line that launched it, if a trace records them."""
    size_bytes: int = 0
    """Bytes that a kernel reads and writes."""
    in_backward: bool = False
    """True if autograd's engine launched it, set only while work can be out of order."""
    start: int = -1
    end: int = -1
    """-1 until played."""


@dataclass(slots=True, eq=False)
class EventMarker:
    """Position in a stream that others can wait for: the target of a recorded event."""

    launched: int
    time: int = -1
    """Time when all earlier work is done; -1 until played."""
    known: dict[tuple[int, int], int] = field(default_factory=dict)
    """Number of the last launch that is done when the marker is reached, by (GPU index, stream number)."""
    ask: Callable[[], int] | None = None
    """Blocks in real time until other processes have decided the marker's time, and returns it."""


@dataclass(slots=True, eq=False)
class Wait:
    """Entry that holds its stream until `mark` is reached."""

    launched: int
    mark: EventMarker


@dataclass(slots=True, eq=False)
class StreamQueue:
    """Queue of work that runs in order."""

    key: tuple[int, int]
    """GPU index and stream number."""
    queue: deque[StreamTask | EventMarker | Wait] = field(default_factory=deque)
    free_at: int = 0
    """Time when the played work is done."""
    pending: int = 0
    """Tasks that have not been played."""

    def settle(self) -> bool:
        """Pass the markers and waits at the head of the queue; return True if a marker was reached."""
        queue, reached = self.queue, False
        while queue:
            head = queue[0]
            if type(head) is EventMarker:
                head.time = self.free_at = max(self.free_at, head.launched)
                reached = True
            elif type(head) is Wait and head.mark.time >= 0:
                self.free_at = max(self.free_at, head.mark.time, head.launched)
            else:
                break
            queue.popleft()
        return reached


class BusyMeter:
    """Time in which kernels ran, and the bytes that they moved, up to any time of the last `WINDOW`."""

    WINDOW: ClassVar[int] = 1_000_000_000
    """Nanoseconds of history."""
    _STEP: ClassVar[int] = 5_000_000

    def __init__(self) -> None:
        self._until = self._busy = self._moved = 0
        # (time, busy nanoseconds until then, bytes moved until then), at most `_STEP` of work apart.
        self._points: deque[tuple[int, int, int]] = deque([(0, 0, 0)])

    def add(self, start: int, end: int, size_bytes: int) -> None:
        """Count a kernel; kernels start in the order of time."""
        until = self._until
        self._moved += size_bytes
        if end <= until:
            return
        self._busy += end - (start if start > until else until)
        self._until = end
        if end - self._points[-1][0] >= self._STEP:
            self._note(start, end, size_bytes)

    def _note(self, start: int, end: int, size_bytes: int) -> None:
        points = self._points
        if start > points[-1][0]:
            points.append((start, self._busy - (end - start), self._moved - size_bytes))
        points.append((end, self._busy, self._moved))
        while len(points) > 2 and points[1][0] < end - 2 * self.WINDOW:
            points.popleft()

    def since(self, begin: int, end: int) -> tuple[float, float]:
        """Return the (busy nanoseconds, bytes moved) between two times."""
        (busy_before, moved_before), (busy, moved) = self._at(begin), self._at(end)
        return busy - busy_before, moved - moved_before

    def _at(self, time: int) -> tuple[float, float]:
        """Return both sums at a time, between two points in proportion."""
        earlier = (0, 0, 0)
        for later in (*self._points, (self._until, self._busy, self._moved)):
            if later[0] >= time:
                share = (time - earlier[0]) / (later[0] - earlier[0]) if later[0] > earlier[0] else 1.0
                return earlier[1] + share * (later[1] - earlier[1]), earlier[2] + share * (later[2] - earlier[2])
            earlier = later
        return float(self._busy), float(self._moved)

    def copy(self) -> BusyMeter:
        other = BusyMeter()
        other._until, other._busy, other._moved = self._until, self._busy, self._moved
        other._points = self._points.copy()
        return other


class GpuTimeline:
    """Streams and copy engines of one GPU, one engine per direction."""

    QUEUE: ClassVar[int] = 1024
    """Launches that a stream accepts before the host has to wait, as in CUDA's drivers."""

    def __init__(self, index: int = 0, engines: tuple[str, ...] = ("h2d", "d2h", "p2p")) -> None:
        self.index = index
        self.streams: dict[int, StreamQueue] = {0: StreamQueue((index, 0))}
        self.peers: list[GpuTimeline] = [self]
        """Timelines of all GPUs of the machine, including this one: work may wait for markers of any of them."""
        self.played: Callable[[int, int, int], None] | None = None
        """Callback for each played task of the trace: row, start, end."""
        self._engine_free = dict.fromkeys(engines, 0)
        self._running: list[tuple[int, int]] = []
        self._room = WHOLE
        self._last_start = 0
        self.busy = BusyMeter()
        self._passed = False
        """True if `_first_ready` passed markers or waits: another call may find more."""

    def stream(self, number: int) -> StreamQueue:
        """Return the stream of that number; create it at its first use."""
        stream = self.streams.get(number)
        if stream is None:
            stream = self.streams[number] = StreamQueue((self.index, number))
        return stream

    def kernel(self, stream: StreamQueue, launched: int, duration: int, fill: int, row: int = -1) -> StreamTask:
        """Append a kernel to a stream; `fill` is limited to the whole GPU."""
        task = StreamTask(
            launched, duration, fill if 0 < fill <= WHOLE else min(max(fill, 1), WHOLE), "", row, stream.key
        )
        stream.queue.append(task)
        stream.pending += 1
        return task

    def copy(self, stream: StreamQueue, launched: int, duration: int, engine: str, row: int = -1) -> StreamTask:
        task = StreamTask(launched, duration, 0, engine, row, stream.key)
        stream.queue.append(task)
        stream.pending += 1
        return task

    def mark(self, stream: StreamQueue, launched: int) -> EventMarker:
        mark = EventMarker(launched)
        if stream.queue:
            stream.queue.append(mark)
        else:
            mark.time = max(stream.free_at, launched)
        return mark

    def wait(self, stream: StreamQueue, launched: int, mark: EventMarker) -> None:
        """Make later work of the stream wait for `mark`."""
        if mark.time >= 0 and not stream.queue:
            stream.free_at = max(stream.free_at, mark.time)
        else:
            stream.queue.append(Wait(launched, mark))

    def drained(self, stream: StreamQueue) -> int:
        """Play until the stream is empty; return the time when its last work is done."""
        while stream.queue:
            self._play_next()
        return stream.free_at

    def reached(self, mark: EventMarker) -> int:
        """Play until `mark` is reached; return its time."""
        while mark.time < 0:
            self._play_next()
        return mark.time

    def all_drained(self) -> int:
        """Play everything; return the time when all of it is done."""
        return max(self.drained(stream) for stream in list(self.streams.values()))

    def play_until(self, time: int) -> None:
        """Play everything that is ready at `time`; later launches cannot come before it."""
        while (ready := self._first_ready()) is not None and ready[0] <= time:
            ready[1]._start(ready[2], ready[0])

    def room_in_queue(self, stream: StreamQueue, now: int) -> int:
        """Return the time when the host, now at `now`, can launch into this stream; 0 for immediately."""
        self.play_until(now)
        time = 0
        while stream.pending >= self.QUEUE:
            before = stream.pending
            self._play_next()
            if stream.pending < before:
                time = stream.free_at
        return time

    def snapshot(self) -> Callable[[], None]:
        """Save the state and return a function that restores it; until then nothing is reported to `played`."""
        state = dict(self._engine_free), list(self._running), self._room, self._last_start, self.played, self.busy
        self.busy = self.busy.copy()
        streams = [(stream, stream.queue.copy(), stream.free_at, stream.pending) for stream in self.streams.values()]
        self.played = None

        def restore() -> None:
            self._engine_free, self._running, self._room, self._last_start, self.played, self.busy = state
            for stream, queue, free_at, pending in streams:
                for entry in islice(queue, len(queue) - len(stream.queue)):
                    if type(entry) is StreamTask:
                        entry.start = entry.end = -1
                    elif type(entry) is EventMarker:
                        entry.time = -1
                stream.queue, stream.free_at, stream.pending = queue, free_at, pending

        return restore

    def _play_next(self) -> None:
        """Start the first ready task of any GPU, or pass markers and waits."""
        ready = self._first_ready()
        if ready is not None:
            ready[1]._start(ready[2], ready[0])
        elif self._passed or self._ask():
            return
        elif any(stream.queue for timeline in self.peers for stream in timeline.streams.values()):
            raise AssertionError("streams wait for each other")

    def _ask(self) -> bool:
        """Ask other processes for the first marker that a stream waits for; return False if there is none."""
        for timeline in self.peers:
            for stream in timeline.streams.values():
                head = stream.queue[0] if stream.queue else None
                if type(head) is Wait and head.mark.time < 0 and head.mark.ask is not None:
                    head.mark.time = head.mark.ask()
                    return True
        return False

    def _first_ready(self) -> tuple[int, GpuTimeline, StreamQueue] | None:
        """Return (time, GPU, stream) of the task that is ready first; of several, the task launched first."""
        again = True
        self._passed = False
        while again:
            again = False
            best: tuple[int, int] | None = None
            chosen: tuple[GpuTimeline, StreamQueue] | None = None
            for timeline in self.peers:
                for stream in timeline.streams.values():
                    queue = stream.queue
                    if not queue:
                        continue
                    if type(queue[0]) is not StreamTask:
                        before = len(queue)
                        again = stream.settle() or again
                        self._passed = self._passed or len(queue) < before
                    if queue and type(head := queue[0]) is StreamTask:
                        launched, free_at = head.launched, stream.free_at
                        key = (launched if launched > free_at else free_at, launched)
                        if best is None or key < best:
                            best, chosen = key, (timeline, stream)
        return None if best is None or chosen is None else (best[0], *chosen)

    def _start(self, stream: StreamQueue, ready: int) -> None:
        task = stream.queue.popleft()
        assert type(task) is StreamTask
        stream.pending -= 1
        if task.engine == LINK:
            task.start, task.end = ready, ready + task.duration
        elif task.engine:
            task.start = max(ready, self._engine_free[task.engine])
            task.end = self._engine_free[task.engine] = task.start + task.duration
        else:
            task.start = self._kernel_start(task, ready)
            task.end = task.start + task.duration
            heappush(self._running, (task.end, task.fill))
            self._room -= task.fill
            self._last_start = task.start
            self.busy.add(task.start, task.end, task.size_bytes)
        stream.free_at = task.end
        if task.row >= 0 and self.played is not None:
            self.played(task.row, task.start, task.end)

    def _kernel_start(self, task: StreamTask, ready: int) -> int:
        """Return the first time with room for the kernel, not before a kernel that was ready earlier."""
        start = max(ready, self._last_start)
        running = self._running
        while running and (running[0][0] <= start or self._room < task.fill):
            end, fill = heappop(running)
            self._room += fill
            start = max(start, end)
        return start
