"""The clock of a machine: the host, its streams, and the order of their work.

Other processes want to know when this one will be ready. To play the streams up to there would settle what runs beside
work that the host has still to launch: so they are played, and put back as they were.

A vector clock for each stream and one for the host (Fidge 1988, Mattern 1989), as PyTorch's own sanitizer of streams
has them (torch.cuda._sanitizer): for each stream, the last launch of it that is done before whatever comes now. While
there are only default streams nothing can be out of order, and next to nothing is kept.

Imports no torch. Durations come from whoever knows what the work costs; here is decided when it runs, and how long the
host has to wait for it. All figures are whole nanoseconds.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from itertools import islice
from typing import Any, NamedTuple

from gpututor.devices.virtual.clock.timeline import LINK, EventMarker, Stream, Task, Timeline


def predict_finish(timelines: Sequence[Timeline], timeline: Timeline, mark: EventMarker) -> int:
    """When `mark`, which is in a stream of `timeline`, will be reached if nothing more is launched.

    `timelines` are those of all GPUs of the machine.
    """
    if mark.time >= 0:
        return mark.time
    before = [_Kept(one) for one in timelines]
    try:
        return timeline.reached(mark)
    finally:
        for kept in before:
            kept.put_back()


class _Kept:
    """A timeline as it is now."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._state = timeline.state()
        self._streams = [
            (stream, stream.queue.copy(), stream.free_at, stream.pending) for stream in timeline.streams.values()
        ]

    def put_back(self) -> None:
        self._timeline.go_back_to(self._state)
        for stream, queue, free_at, pending in self._streams:
            for one in islice(queue, len(queue) - len(stream.queue)):
                if type(one) is Task:
                    one.start = one.end = -1
                elif type(one) is EventMarker:
                    one.time = -1
            stream.queue, stream.free_at, stream.pending = queue, free_at, pending


READING = 50
"""Nanoseconds that reading a clock takes, so that `while perf_counter() < end` ends."""
_SPIN = 1_000
"""A loop that does nothing but read the clock moves it by a thousandth of what it has waited: it ends soon."""
_LONGEST_READING = 1_000_000


class Stamp(NamedTuple):
    """When a thread of a machine did something that others wait for."""

    clocks: HostClocks
    """The machine's: a moment means nothing on another."""
    time: int


class HostClocks(threading.local):
    """One clock for each thread, in whole nanoseconds since the machine was switched on.

    A thread that is started begins at its parent's time; who waits for another goes on at the later of the two times.
    """

    now: int = 0
    running: bool = False
    """Whether this thread is on the machine. One that was started earlier, by others, is not."""
    slept: int = 0
    """How much of the time the thread slept: the processor was free."""
    latest: int = 0
    """The latest time of any work of the thread. A pool's thread goes back where a job began before it was free."""
    worked: int = 0
    """When the processor was last busy for the thread: waits and sleep do not count."""
    _run_began: int = 0
    _last_reading: int = -1
    _site: Hashable = None

    def __init__(self, threads: list[dict[str, Any]]) -> None:
        """Run in each thread at its first use, with the same list: its attributes become part of that."""
        self._threads = threads
        threads.append(self.__dict__)

    def begin(self, stamp: Stamp | None) -> None:
        """This thread is on the machine from now on; it goes on from `stamp`, where that is the machine's."""
        self.running = True
        if stamp is not None and stamp.clocks is self:
            self.now = stamp.time

    def spend(self, nanoseconds: int) -> None:
        """The thread worked for that long."""
        self.now = self.worked = self.now + nanoseconds

    def wait_until(self, moment: int) -> None:
        """The thread goes on at `moment`, if that is not past."""
        if moment > self.now:
            self.now = moment

    def sleep(self, nanoseconds: int) -> None:
        """The thread did nothing for that long."""
        self.now += nanoseconds
        self.slept += nanoseconds

    def read(self, site: Hashable = None) -> int:
        """The time, for a program that asks; asking takes a moment.

        `site` is the place in the program. Readings one after another at the same place, with nothing between, are a
        loop that waits: each moves the clock by 50 ns or by a thousandth of the time since the first one, up to 1 ms.
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
        """This thread's time, for those who will wait for what it did."""
        return Stamp(self, self.now)

    def meet(self, stamp: Stamp | None) -> None:
        """The thread got what another had ready at `stamp`; None, or one of another machine, changes nothing."""
        if stamp is not None and stamp.clocks is self and stamp.time > self.now:
            self.now = stamp.time

    def last_work(self) -> int:
        """When the processor was last busy for any thread, those that nobody has waited for included."""
        return max(int(one.get("worked", 0)) for one in [*self._threads])

    def end(self) -> Stamp:
        """When all that the thread did was done."""
        return Stamp(self, max(self.now, self.latest))


Key = tuple[int, int]
"""A GPU's index and a stream's number."""
Known = dict[Key, int]
"""By stream, the number of its last launch that is known to be done."""


class HappensBefore:
    """What is known to be done: on each stream before its next launch, and by the host."""

    def __init__(self) -> None:
        self.active = False
        """Whether anything can be out of order: a second stream was used, or a stream waited for another."""
        self.host: Known = {}
        self._count = 0
        self._streams: dict[Key, Known] = {}

    def launched(self, gpu: int, stream: int) -> int:
        """The number of a new launch on that stream, which comes after all that the host knows to be done."""
        if stream and not self.active:
            self.active = True
        self._count += 1
        if self.active:
            known = self.known(gpu, stream)
            _learn(known, self.host)
            known[gpu, stream] = self._count
        return self._count

    def known(self, gpu: int, stream: int) -> Known:
        """What is done before the next launch on that stream; the caller may add to it."""
        key = (gpu, stream)
        found = self._streams.get(key)
        if found is None:
            # Until now the default streams were alone, and each is in order with itself.
            found = self._streams[key] = {} if stream else {key: self._count}
            _learn(found, self.host)
        return found

    def record(self, gpu: int, stream: int) -> Known:
        """What is done when a mark that is made now is reached."""
        return dict(self.known(gpu, stream)) if self.active else {(gpu, stream): self._count}

    def wait_for(self, gpu: int, stream: int, known: Known) -> None:
        """The stream's later launches come after a mark."""
        if not self.active:
            if set(known) <= {(gpu, stream)}:
                return
            self.active = True
        _learn(self.known(gpu, stream), known)

    def host_waited_for(self, known: Known) -> None:
        """The host waited for a mark."""
        _learn(self.host, known)

    def host_waited(self, gpu: int, stream: int | None) -> None:
        """The host waited for a stream, or for all of a GPU's."""
        if not self.active:
            self.host[gpu, 0] = self._count
        elif stream is not None:
            _learn(self.host, self.known(gpu, stream))
        else:
            for key, known in self._streams.items():
                if key[0] == gpu:
                    _learn(self.host, known)

    def is_before(self, earlier: Task, gpu: int, stream: int) -> bool:
        """Whether a launch is done before the next one on that stream."""
        return earlier.key == (gpu, stream) or self.known(gpu, stream).get(earlier.key, 0) >= earlier.number

    def host_knows(self, earlier: Task) -> bool:
        """Whether the host knows that a launch is done."""
        return self.host.get(earlier.key, 0) >= earlier.number


def _learn(known: Known, more: Known) -> None:
    for key, number in more.items():
        if known.get(key, 0) < number:
            known[key] = number


SYNCHRONISE = 3_000
"""What a wait costs the host for work that is done already."""
EVENT = 500
"""What it costs the host to record an event, or to ask for one."""


Meet = Callable[[int, Task], EventMarker]
"""Told when a collective, and which, could begin here; gives the moment when it can everywhere."""


class MachineClock:
    """Time on a machine: each host thread's, and each GPU's. Safe to use from several threads."""

    def __init__(self, gpus: int) -> None:
        self.host = HostClocks([])
        self.order = HappensBefore()
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
        meet: Callable[[int, Task], EventMarker],
        row: int = -1,
    ) -> tuple[Task, EventMarker]:
        """Work that processes do together, on the stream `own`, after what `stream` has been given; the host goes on.

        `meet` is told when it could begin here, and gives the moment when it can everywhere. The second result is the
        mark that is reached when it is done.
        """
        with self._lock:
            timeline, queue = self._at(gpu, own)
            self.host.spend(cost)
            before = self.record(gpu, stream, 0)
            self.wait_for(gpu, own, before, 0)
            ready = predict_finish(self.gpus, self.gpus[gpu], before)
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

    def record(self, gpu: int, stream: int, cost: int = EVENT) -> EventMarker:
        """A mark after all work that the stream has been given."""
        with self._lock:
            timeline, queue = self._at(gpu, stream)
            self.host.spend(cost)
            mark = timeline.mark(queue, self.host.now)
            mark.known = self.order.record(gpu, stream)
            return mark

    def wait_for(self, gpu: int, stream: int, mark: EventMarker, cost: int = EVENT) -> None:
        """The stream's later work waits for `mark`; the host does not."""
        with self._lock:
            timeline, queue = self._at(gpu, stream)
            self.host.spend(cost)
            timeline.wait(queue, self.host.now, mark)
            self.order.wait_for(gpu, stream, mark.known)

    def is_reached(self, gpu: int, mark: EventMarker) -> bool:
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

    def wait_for_mark(self, gpu: int, mark: EventMarker) -> int:
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
