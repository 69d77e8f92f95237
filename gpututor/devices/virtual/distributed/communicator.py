"""Communicators: a collective starts once the last rank of its group is ready; its tensors live until gloo is done.

A thread of gloo takes Python's lock to let go of a tensor that Python made. When the interpreter is ending it gets
no lock: Python ends the thread inside a destructor, and C++ aborts the process.

As NCCL's, they run on a stream of the group's own, after what the current stream has been given. Each process tells the
others, over gloo, when that will be done (`clock.foresight`). Nobody waits for the answer before it is needed: when the
program waits for the collective, or for the whole GPU. All processes find the same beginning and the same end then.
"""

from __future__ import annotations

import contextlib
import os
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from itertools import count
from typing import Any

import torch

from gpututor.devices.virtual import cuda_errors, execution, torch_private
from gpututor.devices.virtual.clock.timeline import EventMarker, Task
from gpututor.devices.virtual.cost import links
from gpututor.devices.virtual.cost.links import collective_s
from gpututor.devices.virtual.machine import VirtualGpu, VirtualMachine

_lent: set[weakref.ref[torch.Tensor]] = set()
"""Those that a work of gloo may hold; the last who lets go of a tensor takes it out."""
if hasattr(os, "register_at_fork"):
    # Gloo's threads are the parent's.
    os.register_at_fork(after_in_child=_lent.clear)


def keep_alive_until_done(host: torch.Tensor) -> torch.Tensor:
    """The same values in another tensor, for gloo alone: it is gone as soon as gloo lets go of it."""
    return host.detach() if host.layout is torch.strided else host


def lend(hosts: Iterable[torch.Tensor]) -> None:
    """Remember tensors, each one once, that a work of gloo holds and that nobody else is going to keep."""
    for host in {id(one): one for one in hosts}.values():
        if host.layout is torch.strided:
            # Taken out by C alone: Python code could lose the lock before the thread is done with it.
            _lent.add(weakref.ref(host, _lent.discard))


def wait_for_return(limit_s: float) -> bool:
    """Until gloo holds no tensor that was lent; False when some are still out after that time."""
    deadline = time.monotonic() + limit_s
    while _lent and time.monotonic() < deadline:
        time.sleep(0.001)
    return not _lent


Ask = Callable[[timedelta | None], "list[tuple[int, int]]"]
"""Waits for the figures of the others, for a limited time where one is given: (when ready, how long it takes) each."""


def aside(call: Callable[[], Any]) -> Any:
    """`call`, unseen by the virtual GPU."""
    with torch_private.host_only(), torch_private.function_modes_aside():
        return call()


def pair(figures: torch.Tensor) -> tuple[int, int]:
    """The two figures of one process, read unseen by the virtual GPU."""
    with torch_private.host_only():
        ready, duration = figures.tolist()
    return ready, duration


class PeerReplies:
    """What the others say, when it is there."""

    def __init__(self, carried: Any, theirs: list[torch.Tensor]) -> None:
        self._carried = carried
        self._theirs = theirs

    def ask(self, limit: timedelta | None) -> list[tuple[int, int]]:
        """See `Ask`; raises `RuntimeError` when they do not come."""
        carried = self._carried
        if carried is not None:
            deadline = time.monotonic() + (0.0 if limit is None else limit.total_seconds())
            while limit is not None and not carried.is_completed():
                if time.monotonic() > deadline:
                    raise RuntimeError("no answer")
                time.sleep(0.001)
            carried.wait()
            self.let_go()
        return [pair(one) for one in self._theirs]

    def let_go(self) -> None:
        """Keep the figures, and no longer what gloo has of them, once they are there."""
        if self._carried is not None and self._carried.is_completed():
            with contextlib.suppress(RuntimeError):  # told to who asks
                self._carried.wait()
                self._carried = None


NCCL_VERSION = (2, 27, 5)
"""What `torch.cuda.nccl.version()` says: the NCCL that CUDA builds of torch 2.9 are made with."""
NCCL_TIMEOUT = timedelta(minutes=10)
"""As in a CUDA build (torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp)."""


class NcclOptions:
    """Stands in for `ProcessGroupNCCL.Options`: what is set here is kept, and changes nothing."""

    def __init__(self, is_high_priority_stream: bool = False) -> None:
        self.is_high_priority_stream = is_high_priority_stream
        self._timeout = NCCL_TIMEOUT
        self.global_ranks_in_group: list[int] = []
        self.group_name = ""


class VirtualNccl(torch_private.ProcessGroupGloo):  # type: ignore[misc]
    """Stands in for `ProcessGroupNCCL`; serves device tensors only, as that does."""

    Options = NcclOptions

    def __init__(self, store: Any, rank: int, size: int, options: Any = None) -> None:
        super().__init__(store, rank, size, timeout=NCCL_TIMEOUT if options is None else options._timeout)
        # C++ keeps its half only: the group would be told to be gloo's once this is gone.
        _alive.append(self)

    @property
    def supports_splitting(self) -> bool:
        """NCCL splits communicators to save time; a new group costs nothing here."""
        return False


_alive: list[VirtualNccl] = []
_carriers: dict[int, tuple[Any, Any, str]] = {}
"""By the id of a backend: the backend, a group in which it serves CPU tensors, and that group's name."""


def nccl_is_available() -> bool:
    """Stands in for `torch.distributed.is_nccl_available`."""
    return True


def nccl_version() -> int:
    """Stand in for `torch._C._nccl_version`; packed as there."""
    major, minor, patch = NCCL_VERSION
    return major << 32 | minor << 16 | patch


def nccl_version_suffix() -> bytes:
    """Stand in for `torch._C._nccl_version_suffix`."""
    return b""


def has_nccl_functions(tensors: object) -> bool:
    """Stand in for `torch.cuda.nccl.is_available`: its functions are refused, so torch's own code adds by itself."""
    return False


def carrier_of(group: Any) -> tuple[Any, str]:
    """A group of the same processes, whose collectives take the CPU tensors behind device tensors; and its name.

    Raises torch's error for a group that has no backend for CUDA tensors, and `NotImplementedError` for a backend
    other than nccl and gloo.
    """
    backend = group._get_backend(torch.device("cuda"))
    found = _carriers.get(id(backend))
    if found is not None:
        return found[1:]
    if not isinstance(backend, torch_private.GLOO_BACKENDS):
        raise cuda_errors.unsupported(f"torch.distributed's backend {backend.name()!r} with device tensors")
    name = f"{group.group_name}:carrier"
    carrier = torch_private.group_of_one_backend(backend, group.rank(), group.size(), name)
    _carriers[id(backend)] = (backend, carrier, name)
    return carrier, name


def is_nccl(group: Any) -> bool:
    """Whether device tensors of this group go by NCCL's rules."""
    return isinstance(group._get_backend(torch.device("cuda")), VirtualNccl)


FIRST_STREAM = 1_000_000
"""The streams of groups have numbers from here on: collectives, what is sent and what is received, for each group."""
LAST_ANSWERS_S = 2.0
"""How long others are waited for where only the trace wants to know, in seconds."""
_STAMP_TAG = 1 << 30
"""Added to the tag of a message for the time that goes with it."""


@dataclass(eq=False, slots=True)
class Rendezvous:
    """One collective: where it is on the clock."""

    machine: VirtualMachine
    gpu: VirtualGpu
    group: Communicator
    name: str
    agreed: EventMarker
    """When it can begin everywhere."""
    task: Task
    done: EventMarker

    def ask(self) -> None:
        """Wait, for real, until it is known when this one and those before it in its group begin."""
        for mark in self.group.unanswered_until(self.agreed):
            if mark.time < 0 and mark.ask is not None:
                mark.time = mark.ask()

    def join(self) -> None:
        """What the current stream is given from now on waits for the collective; with gloo the host waits too."""
        self.ask()
        machine, gpu = self.machine, self.gpu
        machine.clock.wait_for(gpu.index, machine.stream_of(gpu), self.done)
        if self.name.endswith("barrier"):
            execution.synchronize(machine, gpu, self.name, machine.stream_of(gpu))
        elif not self.group.is_nccl:
            execution.wait_for_mark(machine, gpu, self.name, self.task.key[1], self.done)

    @property
    def is_met(self) -> bool:
        """Whether all ranks are known to have come to it: it will be done for real, whatever they do."""
        return self.agreed.time >= 0 and (self.agreed.ask is not None or self.group.size == 1)

    def is_over(self) -> bool:
        """Whether it is done by now, on the host's clock."""
        self.ask()
        return self.machine.clock.is_reached(self.gpu.index, self.done)


class Communicator:
    """A group on the clock."""

    def __init__(self, group: Any) -> None:
        self._carrier, _ = carrier_of(group)
        self.rank, self.size = int(group.rank()), int(group.size())
        self.is_nccl = is_nccl(group)
        self.is_world = group is torch.distributed.group.WORLD
        self.stream = FIRST_STREAM + 3 * next(_numbers)
        self._unanswered: deque[EventMarker] = deque()
        self._answers: deque[PeerReplies] = deque(maxlen=4096)
        self._met: deque[tuple[int, Task]] = deque()
        self._last_end = 0
        self._waits: list[tuple[int, int]] = []

    def stream_of(self, name: str) -> int:
        """The stream of an operator of `c10d`."""
        return self.stream + (1 if name == "send" else 2 if name.startswith("recv") else 0)

    def meet(self, machine: VirtualMachine, gpu: VirtualGpu, name: str, size_bytes: int, row: int) -> Rendezvous:
        """Put a collective of all ranks on the clock, of which this rank puts in `size_bytes`."""

        def ask_all(ready: int, task: Task) -> EventMarker:
            if self.size == 1:
                return EventMarker(ready, ready)
            return self._expected(machine, ready, task, self._told(ready, task.duration))

        meeting = self._put(machine, gpu, name, size_bytes, row, self.stream, ask_all)
        if self.size > 1:
            self._met.append((meeting.agreed.launched, meeting.task))
        return meeting

    def send(
        self, machine: VirtualMachine, gpu: VirtualGpu, name: str, size_bytes: int, row: int, to: int, tag: int
    ) -> Rendezvous:
        """Put a message on the clock, and tell the receiver of it."""

        def tell(ready: int, task: Task) -> EventMarker:
            figures = torch.tensor([ready, task.duration])
            _sent.append(aside(lambda: self._carrier.send([figures], to, tag | _STAMP_TAG)))
            return EventMarker(ready, ready)

        return self._put(machine, gpu, name, size_bytes, row, self.stream + 1, tell)

    def receive(
        self,
        machine: VirtualMachine,
        gpu: VirtualGpu,
        name: str,
        size_bytes: int,
        row: int,
        source: int | Callable[[], int],
        tag: int,
    ) -> Rendezvous:
        """Put a message that comes on the clock; `source` is its sender, or waits for the message and tells it."""
        figures = torch.empty(2, dtype=torch.int64)

        def begin(sender: int) -> Any:
            return aside(lambda: self._carrier.recv([figures], sender, tag | _STAMP_TAG))

        early: Any = begin(source) if isinstance(source, int) else None

        def ask_sender(limit: timedelta | None) -> list[tuple[int, int]]:
            carried = begin(source()) if callable(source) else early
            carried.wait(*(() if limit is None else (limit,)))
            return [pair(figures)]

        def meet(ready: int, task: Task) -> EventMarker:
            return self._expected(machine, ready, task, ask_sender)

        return self._put(machine, gpu, name, size_bytes, row, self.stream + 2, meet)

    def unanswered_until(self, mark: EventMarker) -> list[EventMarker]:
        """The marks up to this one about which the others have not been asked, in their order; they are now."""
        found = []
        while mark in self._unanswered:
            found.append(self._unanswered.popleft())
        return found

    def waits(self) -> list[tuple[int, int]]:
        """When this rank was ready for a collective and others were not, as far as played."""
        while self._met and self._met[0][1].end >= 0:
            ready, task = self._met.popleft()
            began = max(ready, self._last_end)
            if task.start > began:
                self._waits.append((began, task.start))
            self._last_end = task.end
        return self._waits

    def _put(
        self,
        machine: VirtualMachine,
        gpu: VirtualGpu,
        name: str,
        size_bytes: int,
        row: int,
        own: int,
        meet: Callable[[int, Task], EventMarker],
    ) -> Rendezvous:
        agreed: list[EventMarker] = []

        def met(ready: int, task: Task) -> EventMarker:
            agreed.append(meet(ready, task))
            return agreed[0]

        duration = round(self._seconds(gpu, name, size_bytes) * 1e9)
        task, done = machine.clock.collective(gpu.index, machine.stream_of(gpu), own, duration, gpu.launch_ns, met, row)
        # What is allocated next is not its.
        gpu.memory.of_thread.writer = None
        return Rendezvous(machine, gpu, self, name, agreed[0], task, done)

    def _seconds(self, gpu: VirtualGpu, name: str, size_bytes: int) -> float:
        seconds = collective_s(gpu.spec, name, size_bytes, self.size)
        if self.is_nccl or not size_bytes:
            return seconds
        # Gloo works on the host: there and back over PCIe.
        there, back = (links.copy_s(gpu.spec, size_bytes, pinned=True, direction=one) for one in ("d2h", "h2d"))
        return seconds + there + back

    def _expected(self, machine: VirtualMachine, ready: int, task: Task, ask: Ask) -> EventMarker:
        """The moment when this rank and those that `ask` asks are ready; `task` gets the longest duration."""

        def moment() -> int:
            try:
                theirs = ask(timedelta(seconds=LAST_ANSWERS_S) if machine.clock.finishing else None)
            except RuntimeError:
                # They are gone. What the collective itself says of that is not the clock's affair.
                return ready
            task.duration = max(task.duration, *(duration for _, duration in theirs))
            return max(ready, *(moment for moment, _ in theirs))

        mark = EventMarker(ready, ask=moment)
        self._unanswered.append(mark)
        return mark

    def _told(self, ready: int, duration: int) -> Ask:
        """Tell all ranks this one's figures, and give what waits for theirs."""
        mine = torch.tensor([ready, duration])
        theirs = [torch.empty(2, dtype=torch.int64) for _ in range(self.size)]
        lent = [keep_alive_until_done(one) for one in (mine, *theirs)]
        answers = PeerReplies(aside(lambda: self._carrier.allgather([lent[1:]], lent[:1])), theirs)
        lend(lent)
        self._answers.append(answers)
        return answers.ask

    def let_go(self) -> None:
        """Let gloo have back what it is done with."""
        for answers in self._answers:
            answers.let_go()


_numbers = count()
_sent: deque[Any] = deque(maxlen=4096)
"""Messages with times that may be under way: they are lost when nobody keeps them."""
_communicators: dict[int, Communicator] = {}
"""By the id of the carrier, which lives as long as the process."""


def communicator_of(group: Any) -> Communicator:
    """The group on the clock; raises what `carrier_of` raises."""
    carrier, _ = carrier_of(group)
    found = _communicators.get(id(carrier))
    if found is None:
        found = _communicators[id(carrier)] = Communicator(group)
    return found


def known_rank() -> int | None:
    """This process's number among all, where it has met others."""
    return next((one.rank for one in _communicators.values() if one.is_world), None)


def waits_for_others() -> list[tuple[int, int]]:
    """(begin, end) of the times in which a group's stream was ready for a collective and other ranks were not."""
    return [wait for one in _communicators.values() for wait in one.waits()]


def send_last(limit_s: float) -> None:
    """Called as Python ends: until those to whom messages went have got their times."""
    deadline = time.monotonic() + limit_s
    while _sent and time.monotonic() < deadline:
        with contextlib.suppress(RuntimeError):  # the receiver is gone, or never came
            _sent.popleft().wait(timedelta(seconds=max(deadline - time.monotonic(), 0.001)))


def let_go_of_answers() -> None:
    """Called as Python ends: gloo gets back what it is done with."""
    for one in _communicators.values():
        one.let_go()
