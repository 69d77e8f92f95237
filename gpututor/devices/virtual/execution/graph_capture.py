"""Capture of a CUDA graph: records each stream's work instead of running it, and launches it later."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count
from typing import Any
from weakref import WeakKeyDictionary, WeakSet, ref

import torch

from gpututor.devices.virtual import cuda_errors, torch_private
from gpututor.devices.virtual.clock.timeline import EventMarker, StreamTask
from gpututor.devices.virtual.cost.kernel import Cost
from gpututor.devices.virtual.execution.copies import launch_copy
from gpututor.devices.virtual.execution.graph_memory import GraphMemory, Placed
from gpututor.devices.virtual.execution.launch import launch
from gpututor.devices.virtual.execution.races import record_replay, report
from gpututor.devices.virtual.machine import VirtualGpu, VirtualMachine
from gpututor.devices.virtual.memory.allocator import Allocation
from gpututor.trace.hazards import FREED_BEFORE_REPLAY

_FIRST_BRANCH = 1000
_branches: WeakKeyDictionary[VirtualMachine, count[int]] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class GraphKernel:
    """Kernel of a graph."""

    branch: int
    """Number of the stream: 0 for the stream on which the capture began, then in the order of joining."""
    name: str
    size_bytes: int
    cost: Cost


@dataclass(frozen=True, slots=True)
class Copy:
    """Copy between the host's page-locked memory and the GPU; `duration` in nanoseconds."""

    branch: int
    name: str
    size_bytes: int
    engine: str
    duration: int


@dataclass(frozen=True, slots=True)
class BranchEvent:
    """Event that is recorded in a branch, or that the branch waits for."""

    branch: int
    mark: EventMarker
    waits: bool


class Capture:
    """A graph that is being captured. `failed` is True after work that a graph cannot contain."""

    def __init__(self, machine: VirtualMachine, gpu: VirtualGpu, stream: int, error_mode: str = "global") -> None:
        self.machine = machine
        self.gpu = gpu
        self._error_mode = error_mode
        self._thread = threading.get_ident()
        self.nodes: list[GraphKernel | Copy | BranchEvent] = []
        self.steps: list[Callable[[], None]] = []
        """Functions that compute each operator's values again, in the same memory."""
        self.undo: dict[int, Callable[[], None]] = {}
        """Functions that restore the values from before the capture, by the storage that the capture wrote to."""
        self.own: set[int] = set()
        """Storages created by the capture."""
        self.results: list[torch.Tensor] = []
        """The values of tensors created by the capture."""
        self.generators: dict[Any, Any] = {}
        """`CapturedState` of the GPU's own generator and of registered ones, from which its operators may draw."""
        self.read: WeakSet[Allocation] = WeakSet()
        self.written: WeakSet[Allocation] = WeakSet()
        self.made: WeakSet[Allocation] = WeakSet()
        """Memory that its operators allocated; the two sets above: memory that they read, and that they write."""
        self.outside: dict[ref[Allocation], int] = {}
        """Addresses of the memory that they use and that no graph keeps."""
        self.memory = GraphMemory()
        self.failed = False
        self._kernels: tuple[str, ...] = ()
        self._branch_of = {stream: 0}
        # For each branch, the amount of work of every branch that precedes its next task.
        self._before: list[dict[int, int]] = [{}]
        self._before_mark: dict[EventMarker, dict[int, int]] = {}

    def forbids(self) -> bool:
        """Return True if this thread may not wait or query, even for work outside the capture."""
        if self._error_mode == "thread_local":
            return threading.get_ident() == self._thread
        return self._error_mode == "global"

    def began_on(self, gpu: int, stream: int) -> bool:
        """Return True if the capture began on that stream."""
        return gpu == self.gpu.index and self._branch_of.get(stream) == 0

    def includes(self, gpu: int, stream: int) -> bool:
        """Return True if work on that stream becomes part of the graph."""
        return stream in self._branch_of and gpu == self.gpu.index

    def add(self, step: Callable[[], None], kernels: tuple[str, ...]) -> None:
        """Add a function that computes the next kernels and copies, which have these names."""
        self.check()
        self.steps.append(step)
        self._kernels = kernels

    def kernel(self, stream: int, name: str, size_bytes: int, cost: Cost) -> None:
        """Add a kernel announced by `add`; raise `NotImplementedError` for another kernel."""
        if name not in self._kernels and size_bytes:
            self.failed = True
            raise cuda_errors.unsupported(f"{name} in CUDA graphs")
        self.nodes.append(GraphKernel(self._next(stream), name, size_bytes, replace(cost, host=0)))

    def copy(self, stream: int, name: str, size_bytes: int, engine: str, duration: int) -> None:
        self.nodes.append(Copy(self._next(stream), name, size_bytes, engine, duration))

    def record(self, stream: int) -> EventMarker:
        """Record an event in a captured stream."""
        self.check()
        branch = self._branch_of[stream]
        mark = EventMarker(-1)
        self._before_mark[mark] = dict(self._before[branch])
        self.nodes.append(BranchEvent(branch, mark, waits=False))
        return mark

    def wait(self, gpu: int, stream: int, mark: EventMarker) -> None:
        """Make a stream wait for an event, and so join the graph. Raises CUDA's error if the stream cannot join."""
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
        self.nodes.append(BranchEvent(branch, mark, waits=True))

    def finish(self) -> None:
        """End the capture; raise CUDA's error after a failure, or for branches that were not joined."""
        self.check()
        main = self._before[0]
        if any(main.get(branch, 0) < before.get(branch, 0) for branch, before in enumerate(self._before)):
            raise cuda_errors.capture_unjoined()

    def check(self) -> None:
        if self.failed:
            raise cuda_errors.capture_failed()

    def reads(self, block: Allocation) -> None:
        """Record memory that the next operator reads."""
        self.read.add(block)
        self._use(block)

    def writes(self, block: Allocation) -> None:
        """Record memory that the next operator writes."""
        self.written.add(block)
        self._use(block)

    def _use(self, block: Allocation) -> None:
        if block.address and not block.is_of_graph:
            self.outside.setdefault(ref(block), block.address)

    def makes(self, tensor: Any) -> None:
        """Record the memory of a new tensor of the graph, and its storage on the CPU."""
        block = tensor._block
        self.written.add(block)
        self.made.add(block)
        if block.size_bytes:
            with torch_private.host_only():
                storage = tensor._host.untyped_storage()
            self.memory.placed.append(Placed(block.address, block.address + storage.nbytes(), storage))

    def _next(self, stream: int) -> int:
        self.check()
        branch = self._branch_of[stream]
        before = self._before[branch]
        before[branch] = before.get(branch, 0) + 1
        return branch


class CapturedWork:
    """Work of a captured graph, which can be launched repeatedly into any stream."""

    def __init__(self, capture: Capture) -> None:
        self.gpu = capture.gpu
        self.read, self.written, self.made = capture.read, capture.written, capture.made
        self._outside = capture.outside
        self._nodes = tuple(capture.nodes)
        numbers = _branches.setdefault(capture.machine, count(_FIRST_BRANCH))
        self._streams = [next(numbers) for _ in capture._before[1:]]

    @property
    def is_empty(self) -> bool:
        return all(type(node) is BranchEvent for node in self._nodes)

    def freed(self) -> list[int]:
        """Return the addresses that it uses although their tensors are gone, or have moved."""
        blocks = [(reference(), address) for reference, address in self._outside.items()]
        return [address for block, address in blocks if block is None or block.address != address]

    def as_dot(self) -> str:
        """Describe the graph in DOT, as cudaGraphDebugDotPrint does: kernels and copies are nodes."""
        cluster = "graph_1"
        lines = ["digraph dot {", f'subgraph cluster_1 {{\nlabel="{cluster}" graph[style="dashed"];']
        last: dict[int, set[int]] = {}
        marks: dict[EventMarker, set[int]] = {}
        number = 0
        for node in self._nodes:
            if isinstance(node, BranchEvent):
                if node.waits:
                    last[node.branch] = last.get(node.branch, set()) | marks[node.mark]
                else:
                    marks[node.mark] = last.get(node.branch, set())
                continue
            kind = "KERNEL" if isinstance(node, GraphKernel) else "MEMCPY"
            label = f"{{{kind}\\l| {{ID | {number}}} | {node.name} | {{bytes | {node.size_bytes}}}}}"
            lines.append(f'"{cluster}_node_{number}"[style="solid" shape="record" label="{label}"];')
            before = sorted(last.get(node.branch, set()))
            lines += [f'"{cluster}_node_{earlier}" -> "{cluster}_node_{number}";' for earlier in before]
            last[node.branch] = {number}
            number += 1
        return "\n".join([*lines, "}", "}", ""])

    def launch(self, machine: VirtualMachine) -> StreamTask | None:
        """Launch the whole graph, for the host's cost of one launch; return its last task on the current stream."""
        gpu, clock = self.gpu, machine.clock
        streams = [machine.stream_of(gpu), *self._streams]
        clock.host.spend(gpu.launch_ns)
        marks: dict[EventMarker, EventMarker] = {}
        last: StreamTask | None = None
        for node in self._nodes:
            stream = streams[node.branch]
            if isinstance(node, BranchEvent):
                if node.waits:
                    clock.wait_for(gpu.index, stream, marks[node.mark], 0)
                else:
                    marks[node.mark] = clock.record(gpu.index, stream, 0)
                continue
            if isinstance(node, GraphKernel):
                task = launch(machine, gpu, stream, node.name, node.size_bytes, node.cost)
            else:
                size, engine, duration = node.size_bytes, node.engine, node.duration
                task = launch_copy(machine, gpu, stream, size, node.name, engine, duration, 0, asynchronous=True)
            last = task if node.branch == 0 else last
        if last is not None:
            record_replay(machine, last, self.read, self.written, self.made)
            if self.freed():
                report(machine, FREED_BEFORE_REPLAY, last, last)
        return last
