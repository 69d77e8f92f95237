"""The `FunctionEvent`s of a profile, from which torch makes its tables."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import torch
from torch.autograd.profiler_util import EventList, FunctionEvent

from gpututor.devices.virtual import torch_private
from gpututor.devices.virtual.profiler import nccl, session
from gpututor.devices.virtual.profiler.tree import MEMORY, ProfileNode, ProfileTree, RuntimeCall

_NOT_LEARNERS = ("gpututor", "torch/utils/_python_dispatch.py", "torch/overrides.py")


DeviceType: Any = torch.autograd.DeviceType  # type: ignore[attr-defined]


class Events(EventList):
    """A list of events with their children: torch's own tree by times cannot nest events without length."""

    def build(self) -> None:
        """Run torch's steps for flat lists, except for the nesting."""
        super()._build_tree()  # type: ignore[no-untyped-call]

    def _populate_cpu_children(self) -> None:
        """Do nothing: the events already have their children."""


class Maker:
    """Makes the events of one profile. Times become microseconds since the profile began."""

    def __init__(self, tree: ProfileTree, *, with_cpu: bool, memory: bool, ranges: bool) -> None:
        """`ranges` adds the program's ranges on the device, which only Kineto shows."""
        self._tree = tree
        self._memory = memory
        self._with_cpu = with_cpu
        self._ranges = ranges
        self._numbers = count(1)
        self._made: dict[ProfileNode, Any] = {}

    def events(self) -> list[Any]:
        """Return all events, in the order in which they began."""
        events: list[Any] = []
        for node in self._tree.nodes():
            if not self._with_cpu and node.what != "call":
                continue
            if node.what == "memory" and not self._memory:
                continue
            event = self._made[node] = self._of_host(node)
            events.append(event)
            parent = self._parent_of(node)
            if parent is not None and not event.is_async:
                parent.append_cpu_child(event)
                event.set_cpu_parent(parent)
            if node.what == "call":
                events += self._started(node, parent)
            elif node.what == "range" and self._ranges:
                events += self._on_devices(node)
        events += [self._work(call) for call in self._tree.loose if call.work]
        if self._with_cpu and self._memory:
            freed = {"trace_name": None, "device_type": DeviceType.CPU}
            events += [
                self._event(MEMORY, row.launched, row.launched, device_memory_usage=-row.size_bytes, **freed)
                for row in self._tree.frees
            ]
        return sorted(events, key=lambda event: (event.time_range.start, -event.time_range.end))

    def _parent_of(self, node: ProfileNode) -> Any:
        """Return the event around a node; None without one.

        As in torch, an asynchronous event (`nccl:all_reduce`) has no children and no kernels: its operator has them.
        """
        above = node.parent
        while above is not None and above in self._made and self._made[above].is_async:
            above = above.parent
        return None if above is None else self._made.get(above)

    def _started(self, node: ProfileNode, parent: Any) -> Iterator[Any]:
        for call in node.calls:
            if call.work and call.row is not None:
                if parent is not None:
                    parent.append_kernel(call.work, call.device_index, (call.row.end - call.row.start) / 1000)
                yield self._work(call)

    def _event(self, name: str, begin: int, end: int, **details: Any) -> Any:
        start = self._tree.begin
        return FunctionEvent(
            **{
                "id": next(self._numbers),
                "thread": 1,
                "overload_name": "",
                "stack": [],
                "input_shapes": [],
                "concrete_inputs": [],
                "kwinputs": {},
                "fwd_thread": 0,
                "use_device": "cuda",
                "name": torch_private.profiler_name(name, with_wildcard=True),
                "trace_name": torch_private.profiler_name(name, with_wildcard=False),
                "start_us": (begin - start) / 1000,
                "end_us": (end - start) / 1000,
                **details,
            }
        )

    def _of_host(self, node: ProfileNode) -> Any:
        details: dict[str, Any] = {
            "thread": node.thread,
            "device_type": DeviceType.CPU,
            "device_index": -1,
            "cpu_memory_usage": node.host_bytes if self._memory else 0,
            "device_memory_usage": node.device_bytes if self._memory else 0,
            "is_user_annotation": node.what == "range",
        }
        seen = node.event
        if seen is not None:
            details |= {
                "id": seen.correlation_id(),
                "fwd_thread": seen.fwd_thread_id(),
                "input_shapes": seen.shapes(),
                "concrete_inputs": seen.concrete_inputs(),
                "kwinputs": seen.kwinputs(),
                "stack": stack_of(seen),
                "scope": seen.scope(),
                "sequence_nr": seen.sequence_nr(),
                "flops": seen.flops(),
                "is_async": seen.is_async() or node.name.startswith(nccl.TITLE),
            }
        return self._event(node.name, node.begin, node.end, **details)

    def _work(self, call: RuntimeCall) -> Any:
        row = call.row
        assert row is not None
        return self._on_device(call.work, row.start, row.end, call.device_index, row.stream)

    def _on_device(self, name: str, begin: int, end: int, index: int, stream: int, **details: Any) -> Any:
        place = {"device_index": index, "device_resource_id": session.stream_number(stream)}
        return self._event(name, begin, end, device_type=DeviceType.CUDA, **place, **details)

    def _on_devices(self, node: ProfileNode) -> Iterator[Any]:
        """Yield a range of the program as one range on each stream."""
        for (index, stream), (begin, end) in spread_of(node).items():
            yield self._on_device(node.name, begin, end, index, stream, is_user_annotation=True)


def works_of(node: ProfileNode) -> Iterator[RuntimeCall]:
    """Yield all device work that a node and its children started."""
    if node.what == "call":
        yield from (call for call in node.calls if call.work)
    for child in node.children:
        yield from works_of(child)


def spread_of(node: ProfileNode) -> dict[tuple[int, int], tuple[int, int]]:
    """Return the time in which the work of a node ran, for each (GPU, stream)."""
    spread: dict[tuple[int, int], tuple[int, int]] = {}
    for call in works_of(node):
        row = call.row
        assert row is not None
        key = (call.device_index, row.stream)
        begin, end = spread.get(key, (row.start, row.end))
        spread[key] = min(begin, row.start), max(end, row.end)
    return spread


def stack_of(seen: Any) -> list[str]:
    """Return the program's lines that called an operator, the innermost first, without the virtual GPU's."""
    return [
        entry
        for entry in seen.stack()
        if torch_private.is_stack_entry(entry) and not any(part in entry for part in _NOT_LEARNERS)
    ]
