"""Communicators: a collective starts once the last rank of its group is ready.

As with NCCL, collectives run on a stream of the group, after the work that the current stream has so far. Each process
sends the predicted end of that work to the others over gloo (`clock.machine_clock.predict_finish`). It waits for their
replies only when the program waits for the collective or for the whole GPU. All processes then compute the same start
and end.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from itertools import count
from typing import Any, NamedTuple

import torch

from gpututor.devices.virtual import execution
from gpututor.devices.virtual.clock.machine_clock import AgreeOnStart
from gpututor.devices.virtual.clock.timeline import EventMarker, StreamTask
from gpututor.devices.virtual.cost import links
from gpututor.devices.virtual.distributed import gloo, nccl_rules
from gpututor.devices.virtual.distributed.process_group_nccl import carrier_of, is_nccl, is_world
from gpututor.devices.virtual.machine import VirtualGpu, VirtualMachine

Ask = Callable[[timedelta | None], "list[gloo.Figures]"]
"""Wait, with an optional time limit, for the figures of other ranks. Raises `RuntimeError`."""


class PeerReplies:
    """Figures that all ranks send."""

    def __init__(self, gloo_work: Any, theirs: list[torch.Tensor]) -> None:
        self._gloo_work = gloo_work
        self._theirs = theirs

    def ask(self, limit: timedelta | None) -> list[gloo.Figures]:
        """Implement `Ask`."""
        gloo_work = self._gloo_work
        if gloo_work is not None:
            deadline = time.monotonic() + (0.0 if limit is None else limit.total_seconds())
            while limit is not None and not gloo_work.is_completed():
                if time.monotonic() > deadline:
                    raise RuntimeError("no answer")
                time.sleep(0.001)
            gloo_work.wait()
            self.release()
        return [gloo.read_figures(figures) for figures in self._theirs]

    def release(self) -> None:
        """Release gloo's work if the replies have arrived."""
        if self._gloo_work is not None and self._gloo_work.is_completed():
            with contextlib.suppress(RuntimeError):  # `ask` raises it
                self._gloo_work.wait()
                self._gloo_work = None


FIRST_STREAM = 1_000_000
"""Number of the first stream of groups. Each group has three streams: for collectives, sends and receives."""
LAST_ANSWERS_S = 2.0
"""Seconds to wait for other ranks' times that only the trace needs."""
_STAMP_TAG = 1 << 30
"""Added to a message's tag to get the tag of the message that carries its time."""


class Operation(NamedTuple):
    """A call of a collective operator in this rank, with its row in the trace."""

    machine: VirtualMachine
    gpu: VirtualGpu
    name: str
    size_bytes: int
    row: int


@dataclass(eq=False, slots=True)
class Rendezvous:
    """A collective on the modelled clock."""

    machine: VirtualMachine
    gpu: VirtualGpu
    group: Communicator
    name: str
    agreed: EventMarker
    """The start, which is the same on all ranks."""
    task: StreamTask
    done: EventMarker

    def ask(self) -> None:
        """Wait in real time until the starts of this collective and of the group's earlier collectives are known."""
        for mark in self.group.unanswered_until(self.agreed):
            if mark.time < 0 and mark.ask is not None:
                mark.time = mark.ask()

    def join(self) -> None:
        """Make later work of the current stream wait for the collective; with gloo the host waits too."""
        self.ask()
        machine, gpu = self.machine, self.gpu
        machine.clock.wait_for(gpu.index, machine.stream_of(gpu), self.done)
        if self.name.endswith("barrier"):
            execution.synchronize(machine, gpu, self.name, machine.stream_of(gpu))
        elif not self.group.is_nccl:
            execution.wait_for_mark(machine, gpu, self.name, self.task.key[1], self.done)

    @property
    def has_all_ranks(self) -> bool:
        """True if all ranks are known to take part, so that the collective can finish."""
        return self.agreed.time >= 0 and (self.agreed.ask is not None or self.group.size == 1)

    def is_over(self) -> bool:
        """Return True if it is done on the host's clock."""
        self.ask()
        return self.machine.clock.is_reached(self.gpu.index, self.done)


class OwnMessage:
    """The work of a message from a rank to itself, which needs both calls."""

    def __init__(self, host: torch.Tensor, rank: int, queue: deque[OwnMessage]) -> None:
        """`queue` has the messages that wait for their partners."""
        self.host = host
        self.rank = rank
        self.has_partner = False
        self._queue = queue
        queue.append(self)

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        if not self.has_partner:
            if self in self._queue:
                # The program can catch the error and go on; a later message must not become the partner.
                self._queue.remove(self)
            advice = "pass the send and the receive to one batch_isend_irecv()"
            raise RuntimeError(f"a rank's message to itself would wait forever: {advice}")
        return True

    def is_completed(self) -> bool:
        return self.has_partner

    is_success = is_completed

    def exception(self) -> None:
        return None

    def _source_rank(self) -> int:
        return self.rank


class Communicator:
    """A process group on the modelled clock."""

    def __init__(self, group: Any) -> None:
        self._carrier, _ = carrier_of(group)
        self.rank, self.size = int(group.rank()), int(group.size())
        self.is_nccl = is_nccl(group)
        self.is_world = is_world(group)
        self._bound_device: torch.device | None = group.bound_device_id
        self._used: set[int] = set()
        """Indices of the GPUs of earlier collectives."""
        self.stream = FIRST_STREAM + 3 * next(_numbers)
        self._unanswered: deque[EventMarker] = deque()
        self._replies: deque[PeerReplies] = deque(maxlen=4096)
        self._collectives: deque[tuple[int, StreamTask]] = deque()
        self._last_end = 0
        self._waits: list[tuple[int, int]] = []
        self._own_messages: dict[int, tuple[deque[OwnMessage], deque[OwnMessage]]] = {}

    def stream_of(self, name: str) -> int:
        """Return the stream of an operator of `c10d`."""
        return self.stream + (1 if name == "send" else 2 if name.startswith("recv") else 0)

    def gpu_for(self, name: str, args: tuple[Any, ...], machine: VirtualMachine, device: torch.device) -> VirtualGpu:
        """Return the GPU of an operator with tensors on `device`. For a barrier, NCCL chooses the GPU.

        Raise NCCL's error for another device than that of `init_process_group`.
        """
        gpu = machine.home(device)
        if not self.is_nccl or name == "send" or name.startswith("recv"):
            return gpu
        if self._bound_device is not None and gpu.index != self._bound_device.index:
            raise nccl_rules.not_on_bound_device()
        if name == "barrier" and not args[2] and self._bound_device is None:
            rank = torch.distributed.get_rank() if torch.distributed.is_initialized() else self.rank
            return machine.gpu(min(self._used, default=rank % len(machine.gpus)))
        return gpu

    def collective(self, operation: Operation) -> Rendezvous:
        """Put a collective of all ranks on the clock, to which this rank contributes `size_bytes`."""
        asks: list[Ask] = []

        def start(ready: int, task: StreamTask) -> EventMarker:
            if self.size == 1:
                return EventMarker(ready, ready)
            mine = gloo.Figures(ready, task.duration, operation.gpu.slot)
            asks.append(self._exchange(mine))
            return self._expected(operation.machine, ready, task, asks[0])

        rendezvous = self._put(operation, self.stream, start)
        if self.size > 1:
            self._collectives.append((rendezvous.agreed.launched, rendezvous.task))
        if operation.gpu.index not in self._used:
            self._connect(operation.gpu, *asks)
        return rendezvous

    def to_self(self, name: str, host: torch.Tensor, tag: int) -> OwnMessage:
        """Send or receive a message of this rank to itself: the second call of both copies the values."""
        sent, received = self._own_messages.setdefault(tag, (deque(), deque()))
        message = OwnMessage(host, self.rank, sent if name == "send" else received)
        if sent and received:
            source, target = sent.popleft(), received.popleft()
            gloo.call(lambda: target.host.copy_(source.host))
            source.has_partner = target.has_partner = True
        return message

    def send(self, operation: Operation, to: int, tag: int) -> Rendezvous:
        """Put a message on the clock, and send its time to the receiver."""

        def start(ready: int, task: StreamTask) -> EventMarker:
            if to == self.rank:
                return EventMarker(ready, ready)
            figures = gloo.figures_for(gloo.Figures(ready, task.duration, operation.gpu.slot))
            _sent.append(gloo.call(lambda: self._carrier.send([figures], to, tag | _STAMP_TAG)))
            return EventMarker(ready, ready)

        return self._put(operation, self.stream + 1, start)

    def receive(self, operation: Operation, source: int | Callable[[], int], tag: int) -> Rendezvous:
        """Put an incoming message on the clock; `source` is its sender, or waits for the message and returns it."""
        figures = gloo.figures_for(gloo.Figures(0, 0, 0))

        def begin(sender: int) -> Any:
            return gloo.call(lambda: self._carrier.recv([figures], sender, tag | _STAMP_TAG))

        early: Any = begin(source) if isinstance(source, int) and source != self.rank else None

        def ask_sender(limit: timedelta | None) -> list[gloo.Figures]:
            gloo_work = begin(source()) if callable(source) else early
            gloo_work.wait(*(() if limit is None else (limit,)))
            return [gloo.read_figures(figures)]

        def start(ready: int, task: StreamTask) -> EventMarker:
            if source == self.rank:
                return EventMarker(ready, ready)
            return self._expected(operation.machine, ready, task, ask_sender)

        return self._put(operation, self.stream + 2, start)

    def unanswered_until(self, mark: EventMarker) -> list[EventMarker]:
        """Remove and return, in order, the markers up to `mark` that still need the other ranks' times."""
        marks = []
        while mark in self._unanswered:
            marks.append(self._unanswered.popleft())
        return marks

    def waits(self) -> list[tuple[int, int]]:
        """Return the (begin, end) of each wait of this rank for other ranks, for the collectives finished so far."""
        while self._collectives and self._collectives[0][1].end >= 0:
            ready, task = self._collectives.popleft()
            began = max(ready, self._last_end)
            if task.start > began:
                self._waits.append((began, task.start))
            self._last_end = task.end
        return self._waits

    def _connect(self, gpu: VirtualGpu, ask: Ask | None = None) -> None:
        """Wait in real time for all ranks, as NCCL does before its first collective on a GPU.

        Raise NCCL's error if another rank is on the same GPU.
        """
        others: list[gloo.Figures] = []
        if self.is_nccl and ask is not None:
            with contextlib.suppress(RuntimeError):  # the collective itself reports that other ranks have exited
                others = ask(None)
        for rank, figures in enumerate(others):
            if figures.slot == gpu.slot and rank != self.rank:
                raise nccl_rules.duplicate_gpu(self.rank, rank, gpu.slot)
        self._used.add(gpu.index)

    def _put(self, operation: Operation, own: int, start: AgreeOnStart) -> Rendezvous:
        machine, gpu, name, size_bytes, row = operation
        agreed: list[EventMarker] = []

        def agree(ready: int, task: StreamTask) -> EventMarker:
            agreed.append(start(ready, task))
            return agreed[0]

        duration = round(self._seconds(gpu, name, size_bytes) * 1e9)
        stream = machine.stream_of(gpu)
        task, done = machine.clock.collective(gpu.index, stream, own, duration, gpu.launch_ns, agree, row)
        # The collective does not write the memory that is allocated next.
        gpu.memory.of_thread.writer = None
        return Rendezvous(machine, gpu, self, name, agreed[0], task, done)

    def _seconds(self, gpu: VirtualGpu, name: str, size_bytes: int) -> float:
        seconds = links.collective_s(gpu.spec, name, size_bytes, self.size)
        if self.is_nccl or not size_bytes:
            return seconds
        # Gloo works on the host: the bytes cross PCIe twice.
        to_host = links.copy_s(gpu.spec, size_bytes, pinned=True, direction="d2h")
        return seconds + to_host + links.copy_s(gpu.spec, size_bytes, pinned=True, direction="h2d")

    def _expected(self, machine: VirtualMachine, ready: int, task: StreamTask, ask: Ask) -> EventMarker:
        """Return a marker that is reached once this rank and the ranks of `ask` are ready.

        `task` gets the longest duration.
        """

        def moment() -> int:
            try:
                theirs = ask(timedelta(seconds=LAST_ANSWERS_S) if machine.clock.finishing else None)
            except RuntimeError:
                # The other ranks have exited; the collective itself reports that.
                return ready
            task.duration = max(task.duration, *(figures.duration for figures in theirs))
            return max(ready, *(figures.ready for figures in theirs))

        mark = EventMarker(ready, ask=moment)
        self._unanswered.append(mark)
        return mark

    def _exchange(self, mine: gloo.Figures) -> Ask:
        """Send this rank's figures to all ranks; return the function that waits for theirs."""
        own = gloo.figures_for(mine)
        theirs = [gloo.figures_for(gloo.Figures(0, 0, 0)) for _ in range(self.size)]
        lent = gloo.call(lambda: [gloo.keep_alive_until_done(figures) for figures in (own, *theirs)])
        replies = PeerReplies(gloo.call(lambda: self._carrier.allgather([lent[1:]], lent[:1])), theirs)
        gloo.track_tensors(lent)
        self._replies.append(replies)
        return replies.ask


_numbers = count()
_sent: deque[Any] = deque(maxlen=4096)
"""Sends of times that may be pending: gloo drops a message that nothing refers to."""
_communicators: dict[int, Communicator] = {}
"""Communicator by the id of its carrier, which lives as long as the process."""


def communicator_of(group: Any) -> Communicator:
    """Return the group's communicator; raise the errors of `carrier_of`."""
    carrier, _ = carrier_of(group)
    communicator = _communicators.get(id(carrier))
    if communicator is None:
        communicator = _communicators[id(carrier)] = Communicator(group)
    return communicator


def known_rank() -> int | None:
    """Return this process's global rank; None before its first collective among all ranks."""
    return next((communicator.rank for communicator in _communicators.values() if communicator.is_world), None)


def waits_for_others() -> list[tuple[int, int]]:
    """Return the (begin, end) of each wait of this process for other ranks, in collectives of all groups."""
    return [wait for communicator in _communicators.values() for wait in communicator.waits()]


def send_last(limit_s: float) -> None:
    """Wait, while Python exits, until the receivers have the times of this rank's messages."""
    deadline = time.monotonic() + limit_s
    while _sent and time.monotonic() < deadline:
        with contextlib.suppress(RuntimeError):  # the receiver has exited or never connected
            _sent.popleft().wait(timedelta(seconds=max(deadline - time.monotonic(), 0.001)))


def release_replies() -> None:
    """Release gloo's finished works while Python exits."""
    for communicator in _communicators.values():
        for replies in communicator._replies:
            replies.release()
