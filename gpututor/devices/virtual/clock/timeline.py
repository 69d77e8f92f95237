"""When the work on one virtual GPU runs: streams, copy engines and kernels that share the GPU. Imports no torch.

A discrete-event model. The host puts work at the end of a stream and goes on; nothing is decided then. When somebody
needs to know, the work is played in the order of time: what is ready first starts first. A kernel starts when the work
before it in its stream is done and the GPU has room for it beside the kernels that run; a copy when its engine is free.
Times are whole nanoseconds since the machine was switched on, so that figures are the same on every computer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import ClassVar

WHOLE = 1_000_000
"""A GPU's room for kernels, in millionths: whole numbers add up exactly."""
FOREVER = 1 << 62
LINK = "link"
"""The engine of collectives, which all of them have for themselves: they wait for other processes, not for a GPU."""

Played = Callable[[int, int, int], None]
"""Told when a task has its times: its row in the trace, its start, its end."""
State = tuple[dict[str, int], list[tuple[int, int]], int, int, Played | None]
"""When the engines are free, which kernels run, the room beside them, the last start, and who is told."""


@dataclass(slots=True, eq=False)
class Task:
    """One piece of work in a stream."""

    launched: int
    """When the host had launched it."""
    duration: int
    fill: int = 0
    """The share of the GPU that a kernel needs, in millionths."""
    engine: str = ""
    """The copy engine that a copy needs, or `LINK`; empty for a kernel."""
    row: int = -1
    """Its row in the trace; -1 for none."""
    key: tuple[int, int] = (0, 0)
    """The GPU's index and the stream's number."""
    number: int = 0
    """Its place among all launches of the machine."""
    place: tuple[str, int | None] | None = None
    """The file and line that caused it, where somebody asked."""
    in_backward: bool = False
    """Whether autograd's engine launched it, where anything can be out of order."""
    start: int = -1
    end: int = -1
    """-1 until it has been played."""


@dataclass(slots=True, eq=False)
class EventMarker:
    """A place in a stream that others can wait for: what a recorded event points at."""

    launched: int
    time: int = -1
    """When all work before it was done; -1 until that has been played."""
    known: dict[tuple[int, int], int] = field(default_factory=dict)
    """What is done when it is reached: by GPU and stream, the number of the last launch."""
    ask: Callable[[], int] | None = None
    """For a moment that other processes decide: waits for real until they have, and tells it."""


@dataclass(slots=True, eq=False)
class Wait:
    """A stream goes on when `mark` has been reached."""

    launched: int
    mark: EventMarker


@dataclass(slots=True, eq=False)
class Stream:
    """Work in its order."""

    key: tuple[int, int]
    """The GPU's index and the stream's number."""
    queue: deque[Task | EventMarker | Wait] = field(default_factory=deque)
    free_at: int = 0
    """When the work that has been played is done."""
    pending: int = 0
    """Kernels and copies that have not been played."""

    def settle(self) -> bool:
        """Pass the marks and waits at the head of the queue; whether a mark was reached that others may wait for."""
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


class Timeline:
    """The streams and engines of one GPU.

    `engines` are the names of its copy engines, one for each direction. Work may wait for marks of other timelines:
    `peers` are the timelines of all GPUs of the machine, this one among them.
    """

    QUEUE: ClassVar[int] = 1024
    """Launches that a stream takes before the host has to wait, as CUDA's drivers have it."""

    def __init__(self, index: int = 0, engines: tuple[str, ...] = ("h2d", "d2h", "p2p")) -> None:
        self.index = index
        self.streams: dict[int, Stream] = {0: Stream((index, 0))}
        self.peers: list[Timeline] = [self]
        self.played: Played | None = None
        self._engine_free = dict.fromkeys(engines, 0)
        self._running: list[tuple[int, int]] = []
        self._room = WHOLE
        self._last_start = 0
        self._passed = False
        """Whether marks or waits were passed by the last look: who wants to know more should look again."""

    def stream(self, number: int) -> Stream:
        """The stream of that number, which is made at its first use."""
        found = self.streams.get(number)
        if found is None:
            found = self.streams[number] = Stream((self.index, number))
        return found

    def kernel(self, stream: Stream, launched: int, duration: int, fill: int, row: int = -1) -> Task:
        """Put a kernel at the end of a stream; `fill` is cut to the whole GPU."""
        task = Task(launched, duration, fill if 0 < fill <= WHOLE else min(max(fill, 1), WHOLE), "", row, stream.key)
        stream.queue.append(task)
        stream.pending += 1
        return task

    def copy(self, stream: Stream, launched: int, duration: int, engine: str, row: int = -1) -> Task:
        """Put a copy at the end of a stream."""
        return self.put(stream, Task(launched, duration, 0, engine, row, stream.key))

    def put(self, stream: Stream, task: Task) -> Task:
        """Put a piece of work at the end of a stream."""
        stream.queue.append(task)
        stream.pending += 1
        return task

    def mark(self, stream: Stream, launched: int) -> EventMarker:
        """Remember this place in the stream."""
        mark = EventMarker(launched)
        if stream.queue:
            stream.queue.append(mark)
        else:
            mark.time = max(stream.free_at, launched)
        return mark

    def wait(self, stream: Stream, launched: int, mark: EventMarker) -> None:
        """Work that is put into the stream from now on waits for `mark`."""
        if mark.time >= 0 and not stream.queue:
            stream.free_at = max(stream.free_at, mark.time)
        else:
            stream.queue.append(Wait(launched, mark))

    def drained(self, stream: Stream) -> int:
        """Play until the stream is empty; when its last work is done."""
        while stream.queue:
            self._play_next()
        return stream.free_at

    def reached(self, mark: EventMarker) -> int:
        """Play until `mark` is reached; when that is."""
        while mark.time < 0:
            self._play_next()
        return mark.time

    def all_drained(self) -> int:
        """Play everything; when all of it is done."""
        return max(self.drained(stream) for stream in list(self.streams.values()))

    def play_until(self, time: int) -> None:
        """Play whatever is ready at `time`; what is launched later cannot come before it."""
        while True:
            found = self._first_ready()
            if found is None or found[0] > time:
                return
            found[1]._start(found[2], found[0])

    def room_in_queue(self, stream: Stream, now: int) -> int:
        """When the host, whose time is `now`, can launch into this stream again; 0 for at once."""
        self.play_until(now)
        time = 0
        while stream.pending >= self.QUEUE:
            before = stream.pending
            self._play_next()
            if stream.pending < before:
                time = stream.free_at
        return time

    def state(self) -> State:
        """What has been decided beside the streams, to go back to; until then nobody is told of what is played."""
        found = dict(self._engine_free), list(self._running), self._room, self._last_start, self.played
        self.played = None
        return found

    def go_back_to(self, state: State) -> None:
        """Forget what has been played since; the streams are the caller's affair."""
        self._engine_free, self._running, self._room, self._last_start, self.played = state

    def _play_next(self) -> None:
        """Start the one piece of work of any GPU that is ready first, or go past marks and waits."""
        found = self._first_ready()
        if found is not None:
            found[1]._start(found[2], found[0])
        elif self._passed or self._ask():
            return
        elif any(stream.queue for timeline in self.peers for stream in timeline.streams.values()):
            raise AssertionError("streams wait for each other")

    def _ask(self) -> bool:
        """Ask other processes, where a stream of any GPU waits for them; whether one does."""
        for timeline in self.peers:
            for stream in timeline.streams.values():
                head = stream.queue[0] if stream.queue else None
                if type(head) is Wait and head.mark.time < 0 and head.mark.ask is not None:
                    head.mark.time = head.mark.ask()
                    return True
        return False

    def _first_ready(self) -> tuple[int, Timeline, Stream] | None:
        """(when, GPU, stream) of the task that is ready first; of several, the one that was launched first."""
        again = True
        self._passed = False
        while again:
            again = False
            best: tuple[int, int] | None = None
            chosen: tuple[Timeline, Stream] | None = None
            for timeline in self.peers:
                for stream in timeline.streams.values():
                    queue = stream.queue
                    if not queue:
                        continue
                    if type(queue[0]) is not Task:
                        before = len(queue)
                        again = stream.settle() or again
                        self._passed = self._passed or len(queue) < before
                    if queue and type(head := queue[0]) is Task:
                        launched, free_at = head.launched, stream.free_at
                        key = (launched if launched > free_at else free_at, launched)
                        if best is None or key < best:
                            best, chosen = key, (timeline, stream)
        return None if best is None or chosen is None else (best[0], *chosen)

    def _start(self, stream: Stream, ready: int) -> None:
        task = stream.queue.popleft()
        assert type(task) is Task
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
        stream.free_at = task.end
        if task.row >= 0 and self.played is not None:
            self.played(task.row, task.start, task.end)

    def _kernel_start(self, task: Task, ready: int) -> int:
        """The first moment with room for it, and not before a kernel that was ready earlier."""
        start = max(ready, self._last_start)
        running = self._running
        while running and (running[0][0] <= start or self._room < task.fill):
            end, fill = heappop(running)
            self._room += fill
            start = max(start, end)
        return start
