"""Memory of CUDA graphs: what a capture allocates is taken from segments of its own, and stays the graph's.

As c10/cuda/CUDACachingAllocator.cpp keeps private pools: a replay writes where the capture did, so nobody else may get
that memory while the graph lives. Within the capture, what was freed is used again.
"""

from __future__ import annotations

from collections.abc import Callable

from gpututor.devices.virtual.memory.pool import Pool

PoolId = tuple[int, int]


class GraphPool:
    """The segments of one graph, or of several that share them."""

    __slots__ = ("graphs", "large", "small")

    def __init__(self) -> None:
        self.small, self.large = Pool(is_small=True), Pool(is_small=False)
        self.graphs = 0
        """How many graphs hold it; with none left, its idle segments can go back to the driver."""


class GraphPools:
    """All of one GPU, and which of them takes what is allocated now."""

    __slots__ = ("_taken_by", "by_id", "capturing")

    def __init__(self) -> None:
        self.by_id: dict[PoolId, GraphPool] = {}
        self.capturing: GraphPool | None = None
        self._taken_by: Callable[[], bool] = bool

    def begin(self, pool_id: PoolId, taken_by: Callable[[], bool]) -> None:
        """From now on that pool takes what is allocated, where `taken_by` says that a capture does."""
        pool = self.by_id.setdefault(pool_id, GraphPool())
        pool.graphs += 1
        self.capturing, self._taken_by = pool, taken_by

    def end(self) -> None:
        self.capturing, self._taken_by = None, bool

    def chosen(self) -> GraphPool | None:
        """The pool for what is allocated now by this thread; None for that of all."""
        return self.capturing if self.capturing is not None and self._taken_by() else None

    def leave(self, pool_id: PoolId) -> None:
        """A graph is gone. Takes no lock: destructors call it."""
        pool = self.by_id.get(pool_id)
        if pool is not None:
            pool.graphs -= 1

    def all(self) -> list[Pool]:
        return [part for pool in self.by_id.values() for part in (pool.small, pool.large)]

    def left(self) -> list[Pool]:
        """The pools that no graph holds; those without memory are forgotten."""
        for key, pool in list(self.by_id.items()):
            if pool.graphs <= 0 and not pool.small.reserved + pool.large.reserved:
                del self.by_id[key]
        return [part for pool in self.by_id.values() if pool.graphs <= 0 for part in (pool.small, pool.large)]
