"""Memory that graphs share: a pool gives memory that one capture freed to the next capture.

A replay writes to the same addresses as its capture, so graphs that share a pool may overwrite each other's memory.
Their results are right only if they are replayed in the order of their captures, one after another. Source: "Sharing
memory across captures" in PyTorch's notes. Here each captured tensor has its own storage on the CPU. So after a replay,
the written bytes are copied to the tensors of other graphs at the same addresses. Concurrent replays are a hazard.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from typing import Any

import torch

from gpututor.devices.virtual import torch_private
from gpututor.devices.virtual.clock.timeline import StreamTask
from gpututor.devices.virtual.execution import races
from gpututor.devices.virtual.machine import VirtualMachine

SHARED_POOL = "graphs share a pool"
"""The hazard of two graphs that share memory and are replayed at the same time."""


@dataclass(frozen=True, slots=True)
class Placed:
    """The memory of a captured tensor: addresses from `start` up to, but not including, `end`."""

    start: int
    end: int
    storage: torch.UntypedStorage
    """The values on the CPU."""


@dataclass(frozen=True, slots=True)
class _Overlap:
    """Bytes that tensors of two graphs share."""

    source: torch.UntypedStorage
    target: torch.UntypedStorage
    source_start: int
    target_start: int
    length: int

    def copy(self) -> None:
        """Copy the shared bytes from the source to the target."""
        source = self.source[self.source_start : self.source_start + self.length]
        self.target[self.target_start : self.target_start + self.length].copy_(source)


@dataclass(eq=False, slots=True)
class GraphMemory:
    """The memory that a graph writes to."""

    placed: list[Placed] = field(default_factory=list)
    """Placements in the order of the writes."""
    replay: StreamTask | None = None
    """The last task of its last replay."""

    def overlaps(self, other: GraphMemory) -> list[_Overlap]:
        shared = []
        for mine in self.placed:
            for theirs in other.placed:
                start, end = max(mine.start, theirs.start), min(mine.end, theirs.end)
                if start < end:
                    places = start - mine.start, start - theirs.start
                    shared.append(_Overlap(mine.storage, theirs.storage, *places, end - start))
        return shared


class SharedPools:
    """The graphs of each private pool of a machine."""

    def __init__(self) -> None:
        self._graphs: dict[Any, list[GraphMemory]] = {}
        self._overlaps: dict[tuple[GraphMemory, GraphMemory], list[_Overlap]] = {}
        """The bytes that two graphs share, by (writer, other graph)."""

    def add(self, pool: Any, graph: GraphMemory) -> None:
        """Add a graph that has been captured into a pool."""
        others = self._graphs.setdefault(pool, [])
        for other in others:
            self._overlaps[graph, other] = graph.overlaps(other)
            self._overlaps[other, graph] = other.overlaps(graph)
        others.append(graph)

    def remove(self, pool: Any, graph: GraphMemory) -> None:
        """Remove a graph. Called by its destructor."""
        others = self._graphs.get(pool, [])
        if graph in others:
            others.remove(graph)
        for other in others:
            self._overlaps.pop((graph, other), None)
            self._overlaps.pop((other, graph), None)
        if not others:
            self._graphs.pop(pool, None)

    def replayed(self, machine: VirtualMachine, pool: Any, graph: GraphMemory, last: StreamTask | None) -> None:
        """Copy the bytes that a replay has written to all other graphs; report graphs that may run at the same time."""
        order = machine.clock.order
        for other in self._graphs.get(pool, ()):
            overlaps = self._overlaps.get((graph, other), ()) if other is not graph else ()
            if not overlaps:
                continue
            earlier = other.replay
            if last is not None and earlier is not None and not order.is_before(earlier, *last.key):
                races.report(machine, SHARED_POOL, earlier, last)
            if machine.values:
                with torch_private.host_only(), torch.no_grad():
                    for overlap in overlaps:
                        overlap.copy()
        graph.replay = last


_of_machines: weakref.WeakKeyDictionary[VirtualMachine, SharedPools] = weakref.WeakKeyDictionary()


def shared_pools(machine: VirtualMachine) -> SharedPools:
    return _of_machines.setdefault(machine, SharedPools())
