"""The tree of operators: calls nested by time and thread.

Torch's profiler sees each operator twice: when the program calls it, and when the CPU computes its values inside a
marker. The second event is left out, because a GPU would not cause it. Views stay: CUDA creates them in the same steps.
Some operators have no marker of their own (`aten::linear`, a step of the backward pass). They last from the first
marker in them to the last.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from gpututor.devices.virtual.machine import VirtualMachine
from gpututor.devices.virtual.profiler import nccl, session
from gpututor.devices.virtual.profiler.session import MARKER, ProfileRow, ProfileSpan, Session
from gpututor.trace.events import Kind

_CALL_SHARE = 2
"""Divisor: the call of the runtime takes the second half of the host's launch cost. A convention, not a measurement."""
_ON_DEVICE = (Kind.KERNEL, Kind.TRANSFER, Kind.COLLECTIVE)


@dataclass(slots=True)
class RuntimeCall:
    """A call of the CUDA runtime. Times are nanoseconds on the machine's clock."""

    name: str
    begin: int
    end: int
    work: str = ""
    """The name of the work that it started on a device; empty for a wait."""
    row: ProfileRow | None = None
    device_index: int = 0


def calls_of(
    rows: Sequence[ProfileRow], span: ProfileSpan | None, machine: VirtualMachine, end: int
) -> list[RuntimeCall]:
    """Return the runtime calls behind the events `rows` of an operator that ended at `end`, or of a single event."""
    calls: list[RuntimeCall] = []
    for place, row in enumerate(rows):
        if row.kind is Kind.SYNCHRONISE:
            calls.append(RuntimeCall(session.runtime_call_name(row, ""), row.start, row.end))
        elif row.kind in _ON_DEVICE and row.device != "cpu":
            after = rows[place + 1] if place + 1 < len(rows) else None
            until = end if after is None else after.start if after.kind is Kind.SYNCHRONISE else after.recorded
            calls += _launch(row, span, machine, until, waits_later=_waits(after))
    return calls


def _launch(
    row: ProfileRow, span: ProfileSpan | None, machine: VirtualMachine, until: int, *, waits_later: bool
) -> list[RuntimeCall]:
    gpu = machine.gpus[int(row.device.removeprefix("cuda:"))]
    work = session.device_work_name(row, span, gpu.spec)
    name = session.runtime_call_name(row, work)
    if span is None and row.launched == row.recorded:
        # The host's time for the launch of a whole graph is already on the clock.
        return [RuntimeCall(session.GRAPH_LAUNCH, row.launched - gpu.launch_ns, row.launched, work, row, gpu.index)]
    begin = row.launched - (row.launched - row.recorded) // _CALL_SHARE
    blocks = session.is_copy(work) and not row.asynchronous and not waits_later and until > row.launched
    # A call ends late if the launch queue is full.
    done = row.launched if session.is_copy(work) else max(row.launched, until)
    calls = [RuntimeCall(name, begin, done, work, row, gpu.index)]
    if blocks:
        # `memcpy_and_sync`, which is what torch calls for every copy that blocks.
        calls.append(RuntimeCall("cudaStreamSynchronize", row.launched, until))
    return calls


def _waits(row: ProfileRow | None) -> bool:
    return row is not None and row.kind is Kind.SYNCHRONISE


_HIDDEN = frozenset({"PythonDispatchMode"})
_PYTHON = re.compile(r"\(\d+\): |^<built-in |^nn\.Module: ")
MEMORY = "[memory]"
OUT_OF_MEMORY = "[OutOfMemory]"


@dataclass(slots=True, eq=False)
class Seen:
    """An event of torch's profile, as it nests there."""

    event: Any
    name: str
    end_ns: int
    span: ProfileSpan | None
    """The marker's span, if it is a marker."""
    children: list[Seen] = field(default_factory=list)
    marked: bool = False
    """True if a marker is nested in it."""
    taken: int = 0
    """Bytes of host memory that were allocated in it and not freed, not counting its children."""


@dataclass(slots=True, eq=False)
class ProfileNode:
    """An operator, range or call on the host. Times are nanoseconds on the machine's clock."""

    name: str
    what: str
    """`operator`, `range`, `memory`, or `call` for the CUDA runtime. A `piece` is part of the surrounding node."""
    thread: int
    event: Any = None
    """Torch's own event of an operator; None for others."""
    begin: int = -1
    end: int = -1
    parent: ProfileNode | None = None
    children: list[ProfileNode] = field(default_factory=list)
    calls: list[RuntimeCall] = field(default_factory=list)
    """The call itself, once for each kernel that it started; empty for other kinds of nodes."""
    device_bytes: int = 0
    """Bytes of GPU memory that were allocated in it, minus the bytes that were freed; children included."""
    host_bytes: int = 0
    """The same for host memory."""


class ProfileTree:
    def __init__(self, session: Session, events: list[Any]) -> None:
        self._session = session
        self.roots: list[ProfileNode] = []
        self.begin, self.end = session.begin, session.end
        for thread, seen in _nested(_counted(events), session.spans).items():
            children = self._visible(seen, thread, within=False)
            _fill_missing_times(children, session.begin)
            for child in children:
                _add_up(child)
            self.roots += _without_pieces(children, None)
        self.loose: list[RuntimeCall] = [
            call for row in session.loose for call in calls_of([row], None, session.machine, -1)
        ]
        """Launches in threads that torch's profiler does not record."""
        self.frees: list[ProfileRow] = [row for row in session.frees if not self._freed_within(row)]
        """Memory that was freed outside of any operator or range."""

    def nodes(self) -> list[ProfileNode]:
        """Return all nodes, each before its children."""
        nodes, waiting = [], list(reversed(self.roots))
        while waiting:
            node = waiting.pop()
            nodes.append(node)
            waiting += reversed(node.children)
        return nodes

    def _visible(self, seen: list[Seen], thread: int, *, within: bool, as_is: bool = False) -> list[ProfileNode]:
        """Return the nodes for torch's events. `within` the machine's work for an operator, events need a marker."""
        nodes: list[ProfileNode] = []
        for event in seen:
            span = event.span
            if span is None:
                if event.marked or as_is or not within:
                    nodes.append(self._operator(event, thread, as_is))
            elif span.what == "range":
                node = ProfileNode(span.name, "range", thread, begin=span.begin, end=span.end)
                nodes.append(_with(node, self._visible(event.children, thread, within=False)))
            elif span.what == "event":
                nodes += self._outside(event, thread)
            else:
                nodes.append(self._piece(event, span, thread))
        return _join_graphs(nodes)

    def _operator(self, seen: Seen, thread: int, as_is: bool) -> ProfileNode:
        """Return the node of an operator or range that torch saw."""
        # TorchScript has its own `record_function`, which makes no markers.
        what = "range" if seen.event.is_user_annotation() else "operator"
        node = ProfileNode(seen.name, what, thread, event=seen.event)
        return _with(node, self._visible(seen.children, thread, within=False, as_is=as_is))

    def _piece(self, marker: Seen, span: ProfileSpan, thread: int) -> ProfileNode:
        """Return the node of the machine's work for an operator."""
        node = ProfileNode(span.name, "piece", thread, begin=span.begin, end=span.end)
        inner = [child for child in marker.children if not child.name.startswith(nccl.TITLE)]
        titles = [child for child in marker.children if child.name.startswith(nccl.TITLE)]
        if span.is_view and len(inner) == 1 and inner[0].name == span.name:
            _with(node, self._visible(inner[0].children, thread, within=True, as_is=True))
        else:
            _with(node, self._visible(inner, thread, within=True))
        calls = calls_of(span.rows, span, self._session.machine, span.end)
        launched = [_node_of(call, thread) for call in calls]
        for title in titles:
            node_of_title = ProfileNode(title.name, "range", thread, title.event, begin=span.begin, end=span.end)
            launched = [_with(node_of_title, launched)]
        _with(node, launched)
        node.children.sort(key=lambda child: child.begin if child.begin >= 0 else span.begin)
        node.device_bytes += sum(row.size_bytes for row in span.rows if row.kind is Kind.ALLOCATE)
        if all(row.device == "cpu" or row.target == "cpu" for row in span.rows):
            node.host_bytes += _taken(marker)
        return node

    def _outside(self, marker: Seen, thread: int) -> list[ProfileNode]:
        """Return the nodes of an event outside of any operator, such as a wait."""
        span = marker.span
        assert span is not None
        if not span.rows:
            return [ProfileNode(span.name, "piece", thread, begin=span.begin, end=span.end)]
        row = span.rows[0]
        if row.kind is Kind.ALLOCATE or row.kind is Kind.OUT_OF_MEMORY:
            is_taken = row.kind is Kind.ALLOCATE
            node = ProfileNode(
                MEMORY if is_taken else OUT_OF_MEMORY, "memory", thread, begin=row.launched, end=row.launched
            )
            node.device_bytes = row.size_bytes if is_taken else 0
            return [node]
        return [_node_of(call, thread) for call in calls_of(span.rows, None, self._session.machine, span.end)]

    def _freed_within(self, row: ProfileRow) -> bool:
        """Subtract freed memory from the operators and ranges that were running; return True if there were any."""
        within = False
        nodes = self.roots
        while True:
            inner = next((node for node in nodes if node.begin < row.launched < node.end and node.what != "call"), None)
            if inner is None:
                return within
            inner.device_bytes -= row.size_bytes
            within, nodes = True, inner.children


def looks_like_python(name: str) -> bool:
    """Return True for names that torch's profiler gives to Python calls, which `with_stack` records."""
    return _PYTHON.search(name) is not None


def _is_python(event: Any, name: str) -> bool:
    """Return True for a Python call; torch 2.9 does not mark them."""
    known = getattr(event, "is_python_function", None)
    return looks_like_python(name) if known is None else bool(known())


def _counted(events: list[Any]) -> list[Any]:
    """Return torch's events without Python's."""
    return [event for event in events if (name := event.name()) not in _HIDDEN and not _is_python(event, name)]


def _nested(events: list[Any], spans: list[ProfileSpan]) -> dict[int, list[Seen]]:
    """Return torch's events of each thread, nested."""
    roots: dict[int, list[Seen]] = {}
    open_of: dict[int, list[Seen]] = {}
    # If an event and its child start and end together, the parent has the smaller correlation id.
    for event in sorted(events, key=lambda event: (event.start_ns(), -event.end_ns(), event.correlation_id())):
        name = event.name()
        thread = event.start_thread_id()
        outer = open_of.setdefault(thread, [])
        while outer and (event.start_ns() >= outer[-1].end_ns or event.end_ns() > outer[-1].end_ns):
            outer.pop()
        if name in (MEMORY, OUT_OF_MEMORY):
            if outer and name == MEMORY:
                outer[-1].taken += event.nbytes()
            continue
        span = spans[int(name.removeprefix(MARKER))] if name.startswith(MARKER) else None
        seen = Seen(event, name, event.end_ns(), span)
        (outer[-1].children if outer else roots.setdefault(thread, [])).append(seen)
        outer.append(seen)
        if span is not None:
            for parent in outer:
                parent.marked = True
    return roots


def _taken(seen: Seen) -> int:
    return seen.taken + sum(_taken(child) for child in seen.children)


def _with(node: ProfileNode, children: list[ProfileNode]) -> ProfileNode:
    node.children += children
    for child in children:
        child.parent = node
    return node


def _node_of(call: RuntimeCall, thread: int) -> ProfileNode:
    return ProfileNode(call.name, "call", thread, begin=call.begin, end=call.end, calls=[call])


def _join_graphs(nodes: list[ProfileNode]) -> list[ProfileNode]:
    """Join the kernels of one graph, which one call launched."""
    joined: list[ProfileNode] = []
    for node in nodes:
        last = joined[-1] if joined else None
        if last is not None and last.name == node.name == session.GRAPH_LAUNCH and last.end == node.end:
            last.calls += node.calls
        else:
            joined.append(node)
    return joined


def _fill_missing_times(nodes: list[ProfileNode], now: int) -> int:
    """Let nodes without times last from their first to their last child; return the end of the last node."""
    for node in nodes:
        known = node.begin >= 0
        after = _fill_missing_times(node.children, node.begin if known else now)
        if not known:
            node.begin = min((child.begin for child in node.children), default=now)
            node.end = after if node.children else node.begin
        node.end = max([node.end, *(child.end for child in node.children)])
        now = max(now, node.end)
    return now


def _without_pieces(nodes: list[ProfileNode], parent: ProfileNode | None) -> list[ProfileNode]:
    """Merge pieces into `parent`. Without a parent, a piece with calls becomes an operator that torch did not see."""
    merged: list[ProfileNode] = []
    for node in nodes:
        if node.what != "piece":
            node.parent = parent
            node.children = _without_pieces(node.children, node)
            merged.append(node)
        elif parent is None and any(child.what == "call" for child in node.children):
            node.what = "operator"
            merged += _without_pieces([node], None)
        else:
            merged += _without_pieces(node.children, parent)
    return merged


def _add_up(node: ProfileNode) -> None:
    for child in node.children:
        _add_up(child)
        node.device_bytes += child.device_bytes
        node.host_bytes += child.host_bytes
