"""Devices and streams of a backward pass: each node runs on those of its forward operator, as in CUDA's engine.

The engine makes a node's stream current before its hooks and its kernels. A node's stream waits for the streams of the
nodes whose gradients it gets. At the end the caller's stream waits for the streams of all leaves. Sources: "Stream
semantics of backward passes" in PyTorch's CUDA notes, and torch/csrc/autograd/engine.cpp, Note [Streaming backwards].

C++ runs the nodes; Python can only ask which node is running. So `Backward` analyzes the graph before the pass begins,
and switches streams at a node's first call that needs the current stream. A node without such a call is skipped, and
its waits are added when a later node needs them. A pass on one stream costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from gpututor.devices.virtual import torch_private
from gpututor.devices.virtual.api.function_mode import DeviceFunctionMode
from gpututor.devices.virtual.api.streams import CudaEvent, CudaStream
from gpututor.devices.virtual.clock.machine_clock import Key
from gpututor.devices.virtual.machine import VirtualMachine, active_machine, is_on

_LAST = 2**63
"""Sequence numbers from here on belong to gradient accumulators, whose creation order is unknown."""


def run_backward(outputs: Any, *args: Any, **kwargs: Any) -> Any:
    """Run the autograd engine with device names rewritten, and on the devices and streams of the forward pass."""
    with DeviceFunctionMode(), _on_forward_devices(), _on_forward_streams(outputs, args, kwargs):
        return torch_private.run_engine(outputs, *args, **kwargs)


@contextmanager
def _on_forward_devices() -> Iterator[None]:
    machine = active_machine() if is_on() else None
    if machine is None or len(machine.gpus) < 2:
        yield
        return
    thread = machine.per_thread
    outer, thread.nodes = thread.nodes, _NodeDevices()
    try:
        yield
    finally:
        thread.nodes = outer


class _NodeDevices:
    """The current device of each node: its own GPU, until its code chooses another.

    The engine runs the nodes of a GPU in a thread where this GPU is current. Other nodes run in the caller's thread.
    """

    def __init__(self) -> None:
        self._node: Any = None
        self._index: int | None = None

    @property
    def index(self) -> int | None:
        node = torch_private.current_node()
        if node is not self._node:
            device = None if node is None else torch_private.device_of_node(node)
            self._node, self._index = node, device.index if device is not None and device.type == "meta" else None
        return self._index

    @index.setter
    def index(self, index: int | None) -> None:
        self._index = index


@contextmanager
def _on_forward_streams(outputs: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[None]:
    machine = active_machine() if is_on() else None
    if machine is None or not any(machine.per_thread.chosen.values()):
        yield
        return
    thread = machine.per_thread
    inputs = args[3] if len(args) > 3 else kwargs.get("inputs", ())
    outer = thread.backward
    backward = Backward(machine, outputs, inputs)
    thread.backward = backward if backward.switches else None
    try:
        yield
        if backward.switches:
            backward.finish()
    finally:
        backward.leave()
        thread.backward = outer


@dataclass(slots=True, eq=False)
class _Step:
    """A node of the autograd graph."""

    node: Any
    """The node. The reference keeps its Python object alive, so that its identity does not change."""
    place: Key | None = None
    """The GPU and stream on which it runs; None on the CPU."""
    before: list[_Step] = field(default_factory=list)
    """The nodes whose gradients it gets."""
    is_sink: bool = False
    is_done: bool = False
    event: Any = None
    """The event after its work; None if no other stream waits for it."""
    is_awaited: bool = False
    """True if a node on another stream, or the caller, waits for it."""


class Backward:
    """A backward pass of one thread whose nodes were made on more than one stream."""

    def __init__(self, machine: VirtualMachine, outputs: Any, inputs: Any) -> None:
        self._machine = machine
        self._thread = machine.per_thread
        self._callers = [self._thread.stream(gpu.index) for gpu in machine.gpus]
        self._steps: dict[Any, _Step] = {}
        self._now: Any = None
        """The node whose stream is current; None between nodes."""
        self._outer: tuple[int, int] | None = None
        """The GPU of that stream, and the stream that was current there before."""
        self._began = False
        self._first = torch_private.next_sequence_number()
        """The next sequence number at the last call of `follow`. Later nodes belong to a second backward pass."""
        roots = [node for node in map(_node_of, outputs) if node is not None]
        self._analyze(roots)
        sinks = {node for node in map(_node_of, inputs or ()) if node is not None}
        for node, step in self._steps.items():
            step.is_sink = node in sinks if sinks else not any(after for after, _ in node.next_functions)
        places = {step.place for step in self._steps.values()}
        self.switches = any(place is not None and not self._is_callers(place) for place in places)
        """True if any node runs on a stream other than the caller's."""
        if self.switches:
            self._find_awaited(roots)

    def follow(self) -> None:
        """Make the stream of the node that runs now the current stream, once per node."""
        node = torch_private.current_node()
        first, self._first = self._first, torch_private.next_sequence_number()
        if node is self._now:
            return
        self.leave(first)
        step = self._steps.get(node)
        if step is not None:
            self._enter(step, first)
        elif node is None and self._began:
            # A callback at the end of the pass: all leaves are done.
            self.finish()

    def leave(self, first: int | None = None) -> None:
        """Leave the current node. Nodes created from number `first` on get the stream that was current before it."""
        step, self._now = self._steps.get(self._now), None
        if step is not None:
            self._record_event(step)
        if self._outer is not None:
            outer, self._outer = self._outer, None
            self._choose(*outer, first)

    def finish(self) -> None:
        """Make the caller's streams wait for the streams of all leaves."""
        self.leave()
        for step in self._steps.values():
            if step.is_sink and step.place is not None:
                self._wait_for_skipped(step)
                if step.event is not None and not self._is_callers(step.place):
                    _stream(step.place[0], self._callers[step.place[0]]).wait_event(step.event)
                step.is_sink = False

    def _analyze(self, roots: list[Any]) -> None:
        """Find all nodes, the nodes that send each a gradient, and their streams."""
        waiting = list(roots)
        for root in roots:
            self._steps.setdefault(root, _Step(root))
        seen = set(roots)
        while waiting:
            node = waiting.pop()
            for after, _ in node.next_functions:
                if after is None:
                    continue
                step = self._steps.setdefault(after, _Step(after))
                step.before.append(self._steps[node])
                if after not in seen:
                    seen.add(after)
                    waiting.append(after)
        for node, step in self._steps.items():
            device = torch_private.device_of_node(node)
            if device is None or device.type != "meta" or device.index is None:
                continue
            number = torch_private.sequence_number(node)
            if number >= _LAST:
                # An accumulator is created when its leaf is first used.
                users = [torch_private.sequence_number(user.node) for user in step.before]
                number = min(users, default=torch_private.next_sequence_number())
            step.place = (device.index, self._thread.stream_of_node(device.index, number))

    def _find_awaited(self, roots: list[Any]) -> None:
        """Mark the nodes that another stream waits for, and make the roots wait for the caller's stream."""
        for step in self._steps.values():
            for before in step.before:
                if before.place is not None and before.place != step.place:
                    before.is_awaited = True
            if step.is_sink and step.place is not None and not self._is_callers(step.place):
                step.is_awaited = True
        for root in {*roots}:
            place = self._steps[root].place
            if place is not None and not self._is_callers(place):
                callers = (place[0], self._callers[place[0]])
                event = _stream(*callers).record_event(CudaEvent())
                self._steps[root].before.append(_Step(None, callers, is_done=True, event=event))

    def _is_callers(self, place: Key) -> bool:
        return self._callers[place[0]] == place[1]

    def _enter(self, step: _Step, first: int) -> None:
        for before in step.before:
            self._wait_for_skipped(before)
        self._now = step.node
        self._began = step.is_done = True
        if step.place is not None:
            gpu, stream = step.place
            self._outer = (gpu, self._thread.streams.get(gpu, 0))
            self._choose(gpu, stream, first)
            self._wait(step)

    def _wait_for_skipped(self, last: _Step) -> None:
        """Add the missing waits of a node that was skipped, and of the skipped nodes before it."""
        waiting = [last]
        while waiting:
            step = waiting[-1]
            open_ = [] if step.is_done else [before for before in step.before if not before.is_done]
            if open_:
                waiting.extend(open_)
                continue
            waiting.pop()
            if not step.is_done:
                step.is_done = True
                self._wait(step)
                self._record_event(step)

    def _wait(self, step: _Step) -> None:
        """Make a node's stream wait for the nodes whose gradients it gets."""
        if step.place is not None:
            stream = _stream(*step.place)
            for before in step.before:
                if before.event is not None and before.place != step.place:
                    stream.wait_event(before.event)

    def _record_event(self, step: _Step) -> None:
        if step.is_awaited and step.place is not None and step.event is None:
            step.event = _stream(*step.place).record_event(CudaEvent())

    def _choose(self, gpu: int, stream: int, first: int | None) -> None:
        thread = self._thread
        # `choose_stream` must not look up the running node again.
        thread.backward = None
        try:
            thread.choose_stream(gpu, stream, first)
        finally:
            thread.backward = self


def _stream(gpu: int, number: int) -> Any:
    return CudaStream._numbered(active_machine().gpus[gpu], number)


def _node_of(output: Any) -> Any:
    """Return the node that gets the gradient of a tensor, or of an edge of the graph."""
    node = getattr(output, "node", None)
    if node is not None:
        return node
    if not output.requires_grad or (output.grad_fn is None and torch_private.is_of_functorch(output)):
        return None
    return torch_private.gradient_edge(output).node
