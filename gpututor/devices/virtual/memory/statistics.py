"""The figures of `torch.cuda.memory_stats`: now, at most, and ever, for both pools and each."""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np
import numpy.typing as npt

from gpututor.devices.virtual.memory.pool import Pool

Numbers = npt.NDArray[np.int64]
_COLUMNS = 5
_FOLD_AT = 50_000 * _COLUMNS


class Quantity:
    """One figure that goes up and down."""

    __slots__ = ("_forgotten", "_forgotten_freed", "current", "earlier_peak", "ever", "peak")

    def __init__(self) -> None:
        self.current = 0
        self.peak = 0
        self.earlier_peak = 0
        """The peak that the program's meter still shows from before `peak` began anew."""
        self.ever = 0
        """All that was ever added."""
        self._forgotten = self._forgotten_freed = 0

    def follow(self, changes: Numbers) -> None:
        """Add up changes in their order."""
        if changes.size:
            course = np.cumsum(changes)
            self.peak = max(self.peak, self.current + int(course.max()))
            self.current += int(course[-1])
            self.ever += int(changes[changes > 0].sum())

    def change(self, by: int) -> None:
        self.follow(np.array([by], dtype=np.int64))

    @property
    def meter(self) -> int:
        """The peak that the program sees."""
        return max(self.peak, self.earlier_peak)

    @property
    def freed(self) -> int:
        """All that was ever taken away."""
        return self.ever - self.current

    def begin_anew(self) -> None:
        """Start `peak` from what is held now; the program's meter keeps the earlier peak."""
        self.earlier_peak, self.peak = max(self.earlier_peak, self.peak), self.current

    def reset_peak(self) -> None:
        """Forget every earlier peak (`reset_peak_stat`)."""
        self.earlier_peak, self.peak = 0, self.current

    def forget(self) -> None:
        """What was added and freed until now counts no more (`reset_accumulated_stat`)."""
        self._forgotten, self._forgotten_freed = self.ever, self.freed

    def as_dict(self) -> dict[str, int]:
        """As C++ gives it (`statToDict`)."""
        return {
            "current": self.current,
            "peak": self.meter,
            "allocated": self.ever - self._forgotten,
            "freed": self.freed - self._forgotten_freed,
        }


class _Figures:
    """What is counted for one pool, or for both together."""

    __slots__ = ("bytes", "count", "requested", "reserved", "segments", "split_bytes", "splits")

    def __init__(self) -> None:
        self.count, self.bytes, self.requested = Quantity(), Quantity(), Quantity()
        self.segments, self.reserved = Quantity(), Quantity()
        self.splits, self.split_bytes = Quantity(), Quantity()

    def named(self) -> dict[str, Quantity]:
        """By CUDA's names; without other streams, what is active is what is allocated."""
        return {
            "allocation": self.count,
            "segment": self.segments,
            "active": self.count,
            "inactive_split": self.splits,
            "allocated_bytes": self.bytes,
            "reserved_bytes": self.reserved,
            "active_bytes": self.bytes,
            "inactive_split_bytes": self.split_bytes,
            "requested_bytes": self.requested,
        }

    def all(self) -> list[Quantity]:
        return [
            *(self.count, self.bytes, self.requested, self.segments, self.reserved),
            *(self.splits, self.split_bytes),
        ]


class Statistics:
    """The figures of one GPU's allocator.

    An allocation only writes one row into a log; the figures are worked out of it when somebody asks.
    """

    __slots__ = ("_all", "_large", "_log", "_small", "out_of_memories", "retries")

    def __init__(self) -> None:
        self._all, self._small, self._large = _Figures(), _Figures(), _Figures()
        # Rows of: bytes, requested bytes (both negative for what is freed), small pool or not, the pool's split blocks
        # and their bytes from then on.
        self._log = array("q")
        self.retries = 0
        """Times that the cache was emptied to make room."""
        self.out_of_memories = 0

    def note(self, pool: Pool, size: int, requested: int) -> None:
        """A storage of `size` bytes came, or went where that is negative."""
        log = self._log
        log.extend(
            (
                size,
                requested,
                pool.is_small,
                len(pool.free) - pool.idle,
                pool.reserved - pool.allocated - pool.idle_bytes,
            )
        )
        if len(log) >= _FOLD_AT:
            self._fold()

    def segments_changed(self, pool: Pool, count: int, size: int) -> None:
        """The driver gave `count` segments, `size` bytes in all; negative where it got them back."""
        self._fold()
        for figures in (self._all, self._of(pool)):
            figures.segments.change(count)
            figures.reserved.change(size)

    def begin_peaks(self) -> None:
        """Start `peak_of_call` from what is held now; the program's meters do not change."""
        for quantity in self._quantities():
            quantity.begin_anew()

    def reset_peaks(self) -> None:
        for quantity in self._quantities():
            quantity.reset_peak()

    def reset_accumulated(self) -> None:
        """Forget what was ever added and freed."""
        for quantity in self._quantities():
            quantity.forget()
        self.retries = self.out_of_memories = 0

    @property
    def peak_allocated(self) -> int:
        self._fold()
        return self._all.bytes.meter

    @property
    def peak_of_call(self) -> int:
        """The most allocated since `begin_peaks`, or since the program reset its meters."""
        self._fold()
        return self._all.bytes.peak

    @property
    def peak_reserved(self) -> int:
        return self._all.reserved.meter

    def as_nested_dict(self) -> dict[str, Any]:
        """As `torch._C._cuda_memoryStats` nests them: figure, pool, metric."""
        self._fold()
        pools = {"all": self._all.named(), "small_pool": self._small.named(), "large_pool": self._large.named()}
        nested: dict[str, Any] = {
            name: {pool: figures[name].as_dict() for pool, figures in pools.items()} for name in self._all.named()
        }
        nothing = Quantity()
        return {
            **nested,
            # No block is oversize: there is no limit to the size that may be split (max_split_size).
            "oversize_allocations": nothing.as_dict(),
            "oversize_segments": nothing.as_dict(),
            "max_split_size": -1,
            "num_alloc_retries": self.retries,
            "num_ooms": self.out_of_memories,
            "num_sync_all_streams": 0,
            "num_device_alloc": self._all.segments.ever,
            "num_device_free": self._all.segments.freed,
        }

    def _of(self, pool: Pool) -> _Figures:
        return self._small if pool.is_small else self._large

    def _quantities(self) -> list[Quantity]:
        self._fold()
        return [*self._all.all(), *self._small.all(), *self._large.all()]

    def _fold(self) -> None:
        """Work the log into the figures."""
        if not self._log:
            return
        rows: Numbers = np.array(self._log, dtype=np.int64).reshape(-1, _COLUMNS)
        del self._log[:]
        small = rows[:, 2] == 1
        changes = np.zeros((2, 2, len(rows)), dtype=np.int64)
        for at, (figures, mine) in enumerate(((self._small, small), (self._large, ~small))):
            self._follow(figures, rows[mine])
            for of, (quantity, column) in enumerate(((figures.splits, 3), (figures.split_bytes, 4))):
                course = rows[mine, column]
                changes[at, of, mine] = np.diff(course, prepend=quantity.current)
                quantity.follow(changes[at, of, mine])
        self._follow(self._all, rows)
        self._all.splits.follow(changes[0, 0] + changes[1, 0])
        self._all.split_bytes.follow(changes[0, 1] + changes[1, 1])

    @staticmethod
    def _follow(figures: _Figures, rows: Numbers) -> None:
        figures.count.follow(np.sign(rows[:, 0]))
        figures.bytes.follow(rows[:, 0])
        figures.requested.follow(rows[:, 1])
