"""The capture of a CUDA graph: work that is remembered instead of run, stream by stream, and how it is run again."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count
from weakref import WeakKeyDictionary, WeakSet

from gpututor.devices.virtual import cuda_errors
from gpututor.devices.virtual.clock.timeline import EventMarker, Task
from gpututor.devices.virtual.cost.kernel import Cost
from gpututor.devices.virtual.execution.copies import put_copy
from gpututor.devices.virtual.execution.launch import launch
from gpututor.devices.virtual.execution.races import replayed
from gpututor.devices.virtual.machine import VirtualGpu, VirtualMachine
from gpututor.devices.virtual.memory.allocator import Allocation

_FIRST_BRANCH = 1000
_branches: WeakKeyDictionary[VirtualMachine, count[int]] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel of a graph."""

    branch: int
    """0 for the stream on which the capture began; others in the order in which they joined it."""
    name: str
    size_bytes: int
    cost: Cost


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy between the host's page-locked memory and the GPU."""

    branch: int
    name: str
    size_bytes: int
    engine: str
    duration: int


@dataclass(frozen=True, slots=True)
class Place:
    """An event: a place in a branch, which `mark` stands for; or a branch that waits for it."""

    branch: int
    mark: EventMarker
    waits: bool


Node = Kernel | Copy | Place


class Capture:
    """What is captured so far. `failed` says that something happened that no graph can hold."""

    def __init__(self, machine: VirtualMachine, gpu: VirtualGpu, stream: int, error_mode: str = "global") -> None:
        self.machine = machine
        self.gpu = gpu
        self._error_mode = error_mode
        self._thread = threading.get_ident()
        self.nodes: list[Node] = []
        self.steps: list[Callable[[], None]] = []
        """Each computes the values of one operator again, where they were when it was captured."""
        self.undo: dict[int, Callable[[], None]] = {}
        """By storage: puts back what was there before the capture and has been written to since."""
        self.own: set[int] = set()
        """The storages that the capture made."""
        self.read: WeakSet[Allocation] = WeakSet()
        self.written: WeakSet[Allocation] = WeakSet()
        """The memory that its operators read and write; `made` is what they allocated."""
        self.made: WeakSet[Allocation] = WeakSet()
        self._kernels: tuple[str, ...] = ()
        self.failed = False
        self._branch_of = {stream: 0}
        # Of each branch: how much of each branch's work comes before what is next in it.
        self._before: list[dict[int, int]] = [{}]
        self._before_mark: dict[EventMarker, dict[int, int]] = {}

    def forbids(self) -> bool:
        """Whether this thread may not wait now, nor ask, even for what is no part of the capture."""
        if self._error_mode == "thread_local":
            return threading.get_ident() == self._thread
        return self._error_mode == "global"

    def began_on(self, gpu: int, stream: int) -> bool:
        """Whether that is the stream on which the capture began."""
        return gpu == self.gpu.index and self._branch_of.get(stream) == 0

    def takes(self, gpu: int, stream: int) -> bool:
        """Whether what is put into that stream becomes part of the graph."""
        return stream in self._branch_of and gpu == self.gpu.index

    def add(self, step: Callable[[], None], kernels: tuple[str, ...]) -> None:
        """What the kernels and copies of that name compute, which come next."""
        self.check()
        self.steps.append(step)
        self._kernels = kernels

    def kernel(self, stream: int, name: str, size_bytes: int, cost: Cost) -> None:
        """A kernel whose values are known; raises `NotImplementedError` for any other."""
        if name not in self._kernels and size_bytes:
            self.failed = True
            raise cuda_errors.unsupported(f"{name} in CUDA graphs")
        branch = self._next(stream)
        self.nodes.append(Kernel(branch, name, size_bytes, replace(cost, host=0)))

    def copy(self, stream: int, name: str, size_bytes: int, engine: str, duration: int) -> None:
        branch = self._next(stream)
        self.nodes.append(Copy(branch, name, size_bytes, engine, duration))

    def record(self, stream: int) -> EventMarker:
        """An event in a stream that is captured."""
        self.check()
        branch = self._branch_of[stream]
        mark = EventMarker(-1)
        self._before_mark[mark] = dict(self._before[branch])
        self.nodes.append(Place(branch, mark, waits=False))
        return mark

    def wait(self, gpu: int, stream: int, mark: EventMarker) -> None:
        """A stream waits for an event, and so becomes part of the graph; raises CUDA's error where it cannot."""
        self.check()
        before = self._before_mark.get(mark)
        if before is None:
            self.failed = True
            raise cuda_errors.capture_of_uncaptured()
        if gpu != self.gpu.index:
            self.failed = True
            raise cuda_errors.unsupported("CUDA graphs on several GPUs", "Capture one graph for each GPU.")
        if stream not in self._branch_of:
            if stream == 0:
                self.failed = True
                raise cuda_errors.capture_of_default_stream()
            self._branch_of[stream] = len(self._before)
            self._before.append({})
        branch = self._branch_of[stream]
        mine = self._before[branch]
        for other, amount in before.items():
            mine[other] = max(mine.get(other, 0), amount)
        self.nodes.append(Place(branch, mark, waits=True))

    def finish(self) -> None:
        """The capture ends; raises CUDA's error after a failure, and for work that was not waited for."""
        self.check()
        main = self._before[0]
        if any(main.get(branch, 0) < before.get(branch, 0) for branch, before in enumerate(self._before)):
            raise cuda_errors.capture_unjoined()

    def check(self) -> None:
        if self.failed:
            raise cuda_errors.capture_failed()

    def _next(self, stream: int) -> int:
        self.check()
        branch = self._branch_of[stream]
        before = self._before[branch]
        before[branch] = before.get(branch, 0) + 1
        return branch

    @property
    def branches(self) -> int:
        return len(self._before)


class CapturedWork:
    """The work of a graph, which can be put into any stream, as often as one likes."""

    def __init__(self, capture: Capture) -> None:
        self.gpu = capture.gpu
        self.read, self.written, self.made = capture.read, capture.written, capture.made
        self._nodes = tuple(capture.nodes)
        numbers = _branches.setdefault(capture.machine, count(_FIRST_BRANCH))
        self._streams = [-1, *(next(numbers) for _ in range(capture.branches - 1))]

    @property
    def is_empty(self) -> bool:
        return all(type(node) is Place for node in self._nodes)

    def launch(self, machine: VirtualMachine) -> None:
        """One launch for the host; kernels follow each other on the GPU without waiting for it."""
        gpu, clock = self.gpu, machine.clock
        streams = [machine.stream_of(gpu), *self._streams[1:]]
        clock.host.spend(gpu.launch_ns)
        marks: dict[EventMarker, EventMarker] = {}
        last: Task | None = None
        for node in self._nodes:
            stream = streams[node.branch]
            if type(node) is Kernel:
                task = launch(machine, gpu, stream, node.name, node.size_bytes, node.cost)
                last = task if node.branch == 0 else last
            elif type(node) is Copy:
                task = put_copy(
                    machine,
                    gpu,
                    stream,
                    node.size_bytes,
                    node.name,
                    node.engine,
                    node.duration,
                    0,
                    asynchronous=True,
                )
                last = task if node.branch == 0 else last
            elif type(node) is Place:
                if node.waits:
                    clock.wait_for(gpu.index, stream, marks[node.mark], 0)
                else:
                    marks[node.mark] = clock.record(gpu.index, stream, 0)
        if last is not None:
            replayed(machine, last, self.read, self.written, self.made)
