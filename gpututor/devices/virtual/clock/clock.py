"""The clock of a virtual machine: host threads that launch, copy and wait, and the timelines of its GPUs.

Imports no torch. Durations come from whoever knows what the work costs; here is decided when it runs, and how long the
host has to wait for it. All figures are whole nanoseconds.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from gpututor.devices.virtual.clock.foresight import foreseen
from gpututor.devices.virtual.clock.host import HostClocks
from gpututor.devices.virtual.clock.order import Order
from gpututor.devices.virtual.clock.timeline import LINK, Mark, Stream, Task, Timeline

SYNCHRONISE = 3_000
"""What a wait costs the host for work that is done already."""
EVENT = 500
"""What it costs the host to record an event, or to ask for one."""


Meet = Callable[[int, Task], Mark]
"""Told when a collective, and which, could begin here; gives the moment when it can everywhere."""


class MachineClock:
    """Time on a machine: each host thread's, and each GPU's. Safe to use from several threads."""

    def __init__(self, gpus: int) -> None:
        self.host = HostClocks([])
        self.order = Order()
        """What is done before what, whatever the times are."""
        self.gpus = [Timeline(index) for index in range(gpus)]
        for timeline in self.gpus:
            timeline.peers = self.gpus
        self.finishing = False
        """Whether everything is played for the trace: who is asked meanwhile need not wait for long."""
        self._lock = threading.RLock()

    def launch(self, gpu: int, stream: int, duration: int, fill: int, cost: int, row: int = -1) -> Task:
        """The host launches a kernel, which costs it `cost`, and goes on; it waits only where the queue is full."""
        with self._lock:
            timeline = self.gpus[gpu]
            queue = timeline.streams.get(stream) or timeline.stream(stream)
            task = timeline.kernel(queue, self._launched(timeline, queue, cost), duration, fill, row)
            task.number = self.order.launched(gpu, stream)
            return task

    def copy(
        self, gpu: int, stream: int, duration: int, engine: str, cost: int, *, asynchronous: bool, row: int = -1
    ) -> Task:
        """A copy by the engine `h2d`, `d2h` or `p2p`; unless it is asynchronous, the host waits for it."""
        with self._lock:
            timeline, queue = self._at(gpu, stream)
            task = timeline.copy(queue, self._launched(timeline, queue, cost), duration, engine, row)
            task.number = self.order.launched(gpu, stream)
            if not asynchronous:
                self.host.wait_until(timeline.drained(queue))
                self.order.host_waited(gpu, stream)
            return task

    def collective(
        self,
        gpu: int,
        stream: int,
        own: int,
        duration: int,
        cost: int,
        meet: Callable[[int, Task], Mark],
        row: int = -1,
    ) -> tuple[Task, Mark]:
        """Work that processes do together, on the stream `own`, after what `stream` has been given; the host goes on.

        `meet` is told when it could begin here, and gives the moment when it can everywhere. The second result is the
        mark that is reached when it is done.
        """
        with self._lock:
            timeline, queue = self._at(gpu, own)
            self.host.spend(cost)
            before = self.record(gpu, stream, 0)
            self.wait_for(gpu, own, before, 0)
            ready = foreseen(self.gpus, self.gpus[gpu], before)
            task = Task(self.host.now, duration, engine=LINK, row=row, key=queue.key)
            timeline.wait(queue, self.host.now, meet(max(ready, self.host.now), task))
            timeline.put(queue, task)
            task.number = self.order.launched(gpu, own)
            return task, self.record(gpu, own, 0)

    def synchronise(self, gpu: int, stream: int | None = None) -> int:
        """The host waits for a stream, or for all of a GPU's; how many nanoseconds it waited."""
        with self._lock:
            timeline = self.gpus[gpu]
            self.host.spend(SYNCHRONISE)
            before = self.host.now
            done = timeline.all_drained() if stream is None else timeline.drained(timeline.stream(stream))
            self.host.wait_until(done)
            self.order.host_waited(gpu, stream)
            return self.host.now - before

    def record(self, gpu: int, stream: int, cost: int = EVENT) -> Mark:
        """A mark after all work that the stream has been given."""
        with self._lock:
            timeline, queue = self._at(gpu, stream)
            self.host.spend(cost)
            mark = timeline.mark(queue, self.host.now)
            mark.known = self.order.record(gpu, stream)
            return mark

    def wait_for(self, gpu: int, stream: int, mark: Mark, cost: int = EVENT) -> None:
        """The stream's later work waits for `mark`; the host does not."""
        with self._lock:
            timeline, queue = self._at(gpu, stream)
            self.host.spend(cost)
            timeline.wait(queue, self.host.now, mark)
            self.order.wait_for(gpu, stream, mark.known)

    def is_reached(self, gpu: int, mark: Mark) -> bool:
        """Whether all work before `mark` is done by now."""
        with self._lock:
            self.host.spend(EVENT)
            self.gpus[gpu].play_until(self.host.now)
            reached = 0 <= mark.time <= self.host.now
            if reached:
                self.order.host_waited_for(mark.known)
            return reached

    def is_idle(self, gpu: int, stream: int) -> bool:
        """Whether all work of a stream is done by now."""
        with self._lock:
            self.host.spend(EVENT)
            timeline, queue = self._at(gpu, stream)
            timeline.play_until(self.host.now)
            idle = not queue.pending and queue.free_at <= self.host.now
            if idle:
                self.order.host_waited(gpu, stream)
            return idle

    def wait_for_mark(self, gpu: int, mark: Mark) -> int:
        """The host waits for `mark`; how many nanoseconds it waited."""
        with self._lock:
            self.host.spend(SYNCHRONISE)
            before = self.host.now
            self.host.wait_until(self.gpus[gpu].reached(mark))
            self.order.host_waited_for(mark.known)
            return self.host.now - before

    def finish(self) -> int:
        """Play all that is in the streams, so that every task has its times; when the last of it is done."""
        with self._lock:
            self.finishing = True
            try:
                return max((timeline.all_drained() for timeline in self.gpus), default=0)
            finally:
                self.finishing = False

    def _at(self, gpu: int, stream: int) -> tuple[Timeline, Stream]:
        timeline = self.gpus[gpu]
        return timeline, timeline.stream(stream)

    def _launched(self, timeline: Timeline, stream: Stream, cost: int) -> int:
        host = self.host
        now = host.now = host.now + cost
        # What costs nothing is part of a graph, which was launched as a whole.
        if stream.pending >= Timeline.QUEUE and cost:
            host.wait_until(timeline.room_in_queue(stream, now))
            return host.now
        return now
