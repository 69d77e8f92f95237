"""Memory accesses of one kernel launch: traffic, coalescing, and mistakes that a GPU does not report.

Each tensor argument gets its own address range, far from all others. So an address alone identifies the argument, even
for a pointer that is far out of bounds. `Memory.access` checks each load and store before it happens, and returns the
host's addresses.

Three mistakes end the launch with `TritonMemoryError`. On a GPU each would be silent, or an illegal memory access:

- an access outside of the tensor's own elements;
- a read of an element that nothing has written since `torch.empty`;
- a plain store to an element that another program of the launch uses. Two accesses are allowed under a lock: between a
  successful `tl.atomic_cas` and the `tl.atomic_xchg` that releases it. They are also allowed if the first program did
  an atomic operation after its access, and the second program before. So with a counter, the last program can sum all
  results.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from gpututor.trace.hazards import OUT_OF_BOUNDS, SAME_ELEMENT, UNWRITTEN

Addresses = NDArray[np.uint64]
Mask = NDArray[np.bool_]
Codes = NDArray[np.int64]
AccessKind = Literal["load", "store", "atomic"]

SECTOR = 32
"""Smallest transfer of a GPU's caches, in bytes."""
WARP = 32
_REGION_BITS = 48
"""Bits of an address within a region: no process on x86-64 or AArch64 uses longer addresses."""
_MARGIN = 1 << 40
"""Bytes before a region's tensor: a pointer may be out of bounds in both directions."""
_PENDING_LANES = 1 << 18
"""Lanes that are counted together."""
_BITS = 24
"""Low bits of an access's code: its program's atomic operations so far. The high bits are the program's number."""
_RACES_WITH: dict[AccessKind, tuple[AccessKind, ...]] = {
    "store": ("store", "load", "atomic"), "load": ("store",), "atomic": ("store",)
}  # fmt: skip
"""Kinds of accesses of another program that race with an access, by its kind."""


class TritonMemoryError(RuntimeError):
    """A mistake of a Triton kernel that a GPU does not report, or reports as an illegal memory access."""

    def __init__(self, kind: str, message: str, place: tuple[str, int | None]) -> None:
        super().__init__(message)
        self.kind = kind
        self.place = place
        """File and line in the kernel."""


@dataclass
class Storage:
    """Memory that several tensor arguments may share, in cells of the smallest argument's element size."""

    first: int
    """The host's address."""
    size_bytes: int
    cell: int
    unwritten: Mask | None
    """True for each cell that is unwritten; None if all cells are written."""
    users: dict[AccessKind, tuple[Codes, Codes]] = field(default_factory=dict)
    """Codes of the first and the last access of each kind, by cell; -1 for none."""
    seen: NDArray[np.int64] | None = None
    """Bytes moved by the launch up to the last use of a sector, by sector; -1 if unused."""
    atomics: NDArray[np.int64] | None = None
    """Number of atomic operations by cell."""


@dataclass(frozen=True)
class Region:
    """A tensor argument, with its range of addresses in the kernel."""

    name: str
    address: int
    """Address of the first element as the kernel sees it."""
    host_address: int
    element_bytes: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    storage: Storage
    tensor: Any = None

    @cached_property
    def end(self) -> int:
        return self.address + self.span * self.element_bytes

    @property
    def span(self) -> int:
        """Number of elements in memory from the tensor's first to its last."""
        if not all(self.shape):
            return 0
        return 1 + sum((size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True))

    @property
    def is_dense(self) -> bool:
        """True if every element from the first to the last belongs to the tensor."""
        return self.span <= int(np.prod(self.shape, dtype=np.int64))

    def own_elements(self) -> Mask:
        """Return True for each element of the span that belongs to the tensor."""
        own = np.zeros(self.span, dtype=bool)
        if self.span:
            # A bool has one byte: strides in elements are strides in bytes.
            np.lib.stride_tricks.as_strided(own, self.shape, self.strides)[...] = True
        return own


def kernel_address(number: int, host_address: int) -> int:
    """Return the address of argument `number` in the kernel, aligned as the host's address is."""
    return ((number + 1) << _REGION_BITS) + _MARGIN + host_address % 512


@dataclass
class Traffic:
    """Bytes and sectors that the loads, stores and atomics of a launch moved."""

    requested_bytes: int = 0
    sectors: int = 0
    """32-byte sectors that all warps touched."""
    dram_sectors: int = 0
    """Sectors that moved between the L2 cache and memory."""
    distinct_sectors: int = 0
    atomics: int = 0
    accesses: int = 0
    """Load and store instructions of all programs."""
    least_bytes: int = 0
    """Bytes of the tensors that were used: each input once, each output once."""
    read: set[int] = field(default_factory=set)
    """Numbers of the regions that were read; `written` has those that were written."""
    written: set[int] = field(default_factory=set)


class Memory:
    """The regions of a launch, and the traffic of its programs."""

    def __init__(self, kernel: str, regions: list[Region], l2_bytes: int) -> None:
        self.kernel = kernel
        self.regions = regions
        self.traffic = Traffic()
        self.program = 0
        """Number of the program that runs, to distinguish the stores of two programs."""
        self.grid = (1, 1, 1)
        self.locks: set[int] = set()
        """Addresses of the locks that the program holds."""
        self._l2_bytes = l2_bytes
        self._moved = 0
        self._own: dict[int, Mask] = {}
        self._dense = {number for number, region in enumerate(regions) if region.is_dense}
        self._pending: list[tuple[AccessKind, int, Addresses, Addresses, int, bool, tuple[str, int | None]]] = []
        self._atomics: NDArray[np.int64] | None = None
        """Number of atomic operations by program; None before the first."""
        self._lanes = 0
        self._offsets = np.array(
            [(region.host_address - region.address) % (1 << 64) for region in regions], dtype=np.uint64
        )

    def access(
        self, kind: AccessKind, addresses: Addresses, mask: Mask, place: tuple[str, int | None], element_bytes: int
    ) -> Addresses:
        """Check and count an access; return the host's addresses. Raise `TritonMemoryError` for a mistake."""
        if mask.shape != addresses.shape:
            mask = np.broadcast_to(mask, addresses.shape)
        whole = bool(mask.all())
        active = addresses if whole else addresses[mask]
        if not active.size:
            return addresses
        lowest, highest = int(active.min()), int(active.max())
        number = (lowest >> _REGION_BITS) - 1
        if not (0 <= number < len(self.regions)) or (highest >> _REGION_BITS) - 1 != number:
            return self._mixed(kind, addresses, mask, active, place, element_bytes)
        region = self.regions[number]
        if lowest < region.address or highest + element_bytes > region.end or number not in self._dense:
            self._check_bounds(kind, number, active, place, element_bytes)
        if region.storage.unwritten is not None:
            self._check_written(kind, region, active, place, element_bytes)
        lanes = addresses if whole else np.where(mask, addresses, np.uint64(0))
        before = 0 if self._atomics is None else int(self._atomics[self.program])
        code = (self.program << _BITS) + min(before, (1 << _BITS) - 1)
        self._pending.append((kind, number, _in_lane_order(lanes, addresses), active, code, bool(self.locks), place))
        if kind == "atomic":
            if self._atomics is None:
                self._atomics = np.zeros(int(np.prod(self.grid)), dtype=np.int64)
            self._atomics[self.program] += 1
        self._lanes += lanes.size
        if self._lanes >= _PENDING_LANES:
            self.count()
        host: Addresses = addresses + self._offsets[number]
        return host

    def _mixed(
        self,
        kind: AccessKind,
        addresses: Addresses,
        mask: Mask,
        active: Addresses,
        place: tuple[str, int | None],
        element_bytes: int,
    ) -> Addresses:
        """Split an access whose lanes point into several tensors."""
        numbers = (active >> np.uint64(_REGION_BITS)).astype(np.int64) - 1
        unknown = (numbers < 0) | (numbers >= len(self.regions))
        if unknown.any():
            raise self._error(
                OUT_OF_BOUNDS,
                place,
                f"{_ACTIONS[kind]} goes to address {int(active[unknown][0]):#x}, which is in no tensor argument"
                " of the launch",
            )
        host = addresses.copy()
        for number in np.unique(numbers):
            of_region = mask & ((addresses >> np.uint64(_REGION_BITS)).astype(np.int64) - 1 == number)
            host[of_region] = self.access(kind, addresses, of_region, place, element_bytes)[of_region]
        return host

    def _check_bounds(
        self, kind: AccessKind, number: int, active: Addresses, place: tuple[str, int | None], element_bytes: int
    ) -> None:
        region = self.regions[number]
        first = region.address
        outside = (active < np.uint64(first)) | (active + np.uint64(element_bytes) > np.uint64(region.end))
        if outside.any():
            address = int(active[outside][0])
            raise self._error(
                OUT_OF_BOUNDS,
                place,
                f"{_ACTIONS[kind]} goes to {self._element(region, address)}, but the tensor has"
                f" {_elements_of(region)}. {int(outside.sum())} of {active.size} lanes are outside",
            )
        if number not in self._dense:
            if number not in self._own:
                self._own[number] = region.own_elements()
            own = self._own[number]
            strays = ~own[((active - np.uint64(first)) // np.uint64(region.element_bytes)).astype(np.int64)]
            if strays.any():
                raise self._error(
                    OUT_OF_BOUNDS,
                    place,
                    f"{_ACTIONS[kind]} goes to {self._element(region, int(active[strays][0]))}, which lies between"
                    f" the elements of the tensor: its shape is {region.shape}, its strides are {region.strides}",
                )

    def _check_written(
        self, kind: AccessKind, region: Region, active: Addresses, place: tuple[str, int | None], element_bytes: int
    ) -> None:
        storage = region.storage
        assert storage.unwritten is not None
        cells = _cells(region, active, element_bytes)
        if kind != "store":
            unwritten = storage.unwritten[cells]
            if unwritten.any():
                lane = int(np.flatnonzero(unwritten)[0]) % active.size
                raise self._error(
                    UNWRITTEN,
                    place,
                    f"{_ACTIONS[kind]} reads {self._element(region, int(active[lane]))}, which nothing has written"
                    " since the tensor was made, as by torch.empty",
                )
        storage.unwritten[cells] = False

    def _element(self, region: Region, address: int) -> str:
        offset = address - region.address
        index, rest = divmod(offset, region.element_bytes)
        words = f"{region.name}[{index}]" if not rest else f"byte {offset} of {region.name}"
        if region.is_dense and len(region.shape) > 1 and 0 <= index < region.span and _is_contiguous(region):
            place = ", ".join(str(int(place_in_row)) for place_in_row in np.unravel_index(index, region.shape))
            words = f"{region.name}[{place}]"
        return words

    def program_words(self, number: int) -> str:
        """Return text like `program 3` or `program (1, 2)`."""
        x, y, z = np.unravel_index(number, self.grid)
        ids = [int(x), int(y), int(z)][: max(1, max((axis + 1 for axis in range(3) if self.grid[axis] > 1), default=1))]
        return f"program {ids[0]}" if len(ids) == 1 else f"program ({', '.join(map(str, ids))})"

    def _error(
        self, kind: str, place: tuple[str, int | None], words: str, program: int | None = None
    ) -> TritonMemoryError:
        line = "" if place[1] is None else f", line {place[1]}"
        program_text = self.program_words(self.program if program is None else program)
        return TritonMemoryError(kind, f"Triton kernel {self.kernel}{line}, {program_text}: {words}.", place)

    def count(self) -> None:
        """Count the accesses since the last call, and look for races between programs."""
        pending, self._pending, self._lanes = self._pending, [], 0
        by_region: dict[tuple[int, AccessKind], list[Any]] = {}
        for access in pending:
            by_region.setdefault((access[1], access[0]), []).append(access)
        for (number, kind), accesses in by_region.items():
            self._count_region(self.regions[number], number, kind, accesses)

    def _count_region(self, region: Region, number: int, kind: AccessKind, accesses: list[Any]) -> None:
        traffic, storage = self.traffic, region.storage
        active = np.concatenate([access[3].reshape(-1) for access in accesses])
        traffic.requested_bytes += active.size * region.element_bytes
        traffic.accesses += len(accesses)
        sectors = _warp_sectors([access[2] for access in accesses])
        traffic.sectors += sectors * (2 if kind == "atomic" else 1)
        if kind != "store":
            traffic.read.add(number)
        if kind != "load":
            traffic.written.add(number)
        self._count_misses(region, storage, active)
        if kind == "atomic":
            traffic.atomics += active.size
            if storage.atomics is None:
                storage.atomics = np.zeros(storage.size_bytes // storage.cell + 1, dtype=np.int64)
            cells = _cells(region, active, storage.cell)
            storage.atomics += np.bincount(cells, minlength=storage.atomics.size)
        self._find_races(region, storage, kind, accesses)

    def _count_misses(self, region: Region, storage: Storage, active: Addresses) -> None:
        """Count L2 misses: the first use of a sector, and each use after more bytes than the cache holds."""
        base = storage.first - storage.first % SECTOR
        offset = np.uint64((region.host_address - region.address - base) % (1 << 64))
        sectors = ((active + offset) // np.uint64(SECTOR)).astype(np.int64)
        if storage.seen is None:
            storage.seen = np.full((storage.size_bytes + 2 * SECTOR) // SECTOR + 1, -1, dtype=np.int64)
        low, high = int(sectors.min()), int(sectors.max()) + 1
        touched = np.zeros(high - low, dtype=bool)
        touched[sectors - low] = True
        window = storage.seen[low:high]
        before = window[touched]
        first = int((before < 0).sum())
        missed = int(((before >= 0) & (self._moved - before > self._l2_bytes)).sum())
        self.traffic.distinct_sectors += first
        self.traffic.dram_sectors += first + missed
        self._moved += before.size * SECTOR
        window[touched] = self._moved

    def _find_races(self, region: Region, storage: Storage, kind: AccessKind, accesses: list[Any]) -> None:
        free = [access for access in accesses if not access[5]]
        if not free:
            return
        active = np.concatenate([access[3].reshape(-1) for access in free])
        lengths = [access[3].size for access in free]
        codes = np.repeat(np.array([access[4] for access in free], dtype=np.int64), lengths)
        cells = _cells(region, active, region.element_bytes)
        codes = np.tile(codes, cells.size // codes.size)
        if kind not in storage.users:
            size = storage.size_bytes // storage.cell + 1
            storage.users[kind] = (np.full(size, -1, dtype=np.int64), np.full(size, -1, dtype=np.int64))
        first, last = storage.users[kind]
        new = np.flatnonzero(first[cells] < 0)[::-1]
        first[cells[new]] = codes[new]
        last[cells] = codes
        for other in _RACES_WITH[kind]:
            for users in storage.users.get(other, ()):
                theirs = users[cells]
                wrong = (theirs >= 0) & (theirs >> _BITS != codes >> _BITS) & ~self._in_order(codes, theirs)
                if wrong.any():
                    lane = int(np.flatnonzero(wrong)[0])
                    place = free[int(np.searchsorted(np.cumsum(lengths), lane % active.size, side="right"))][6]
                    does, too = _WORDS[kind], "so does {}" if other == kind else "{} " + _WORDS[other].format("it")
                    raise self._error(
                        SAME_ELEMENT,
                        place,
                        f"it {does.format(self._element(region, int(active[lane % active.size])))}, and"
                        f" {too.format(self.program_words(int(theirs[lane]) >> _BITS))}. Which of them comes last is"
                        " not defined: give each program elements of its own, or use tl.atomic_add and the like",
                        int(codes[lane]) >> _BITS,
                    )

    def _in_order(self, codes: Codes, others: Codes) -> Mask:
        """Return True for pairs with an atomic operation after the earlier access, and before the later access."""
        if self._atomics is None:
            return np.zeros(codes.size, dtype=bool)
        # Programs run here in the order of their numbers.
        earlier, later, low = np.minimum(codes, others), np.maximum(codes, others), (1 << _BITS) - 1
        ordered: Mask = (self._atomics[earlier >> _BITS] > earlier & low) & (later & low > 0)
        return ordered

    def finish(self) -> Traffic:
        self.count()
        traffic = self.traffic
        used: dict[tuple[int, int, bool], int] = {}
        for numbers in (traffic.read, traffic.written):
            for number in numbers:
                region = self.regions[number]
                elements = int(np.prod(region.shape, dtype=np.int64))
                key = (id(region.storage), region.host_address, numbers is traffic.written)
                used[key] = max(used.get(key, 0), min(elements, region.span) * region.element_bytes)
        traffic.least_bytes = sum(used.values())
        return traffic

    @property
    def most_atomics_at_one(self) -> int:
        """Atomic operations on the element that gets the most."""
        counts = [region.storage.atomics for region in self.regions]
        return max((int(count.max()) for count in counts if count is not None), default=0)


_ACTIONS: dict[AccessKind, str] = {"load": "a load", "store": "a store", "atomic": "an atomic operation"}
_WORDS: dict[AccessKind, str] = {"load": "loads {}", "store": "stores to {}", "atomic": "changes {} atomically"}


def _elements_of(region: Region) -> str:
    elements = int(np.prod(region.shape, dtype=np.int64))
    words = f"{elements:,} element{'' if elements == 1 else 's'}"
    return words if len(region.shape) == 1 else f"{words}, shape {region.shape}"


def _is_contiguous(region: Region) -> bool:
    expected = 1
    for size, stride in zip(reversed(region.shape), reversed(region.strides), strict=True):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True


def _cells(region: Region, active: Addresses, element_bytes: int) -> NDArray[np.int64]:
    """Return the cells of the storage that elements at these addresses cover."""
    storage = region.storage
    offset = np.uint64((region.host_address - region.address - storage.first) % (1 << 64))
    cells = ((active.reshape(-1) + offset) // np.uint64(storage.cell)).astype(np.int64)
    ratio = max(1, element_bytes // storage.cell)
    return cells if ratio == 1 else np.concatenate([cells + number for number in range(ratio)])


def _in_lane_order(lanes: Addresses, addresses: Addresses) -> Addresses:
    """Return a block's addresses in lane order: Triton puts lanes along the axis whose addresses are closest."""
    if lanes.ndim < 2 or lanes.size < 2:
        return lanes.reshape(-1)
    first = addresses.reshape(-1)[0]
    steps = []
    for axis, size in enumerate(addresses.shape):
        if size > 1:
            index = tuple(int(axis == other) for other in range(addresses.ndim))
            step = abs(int(addresses[index]) - int(first))
            steps.append((step or 1 << 62, -axis))
    fastest = -min(steps)[1] if steps else lanes.ndim - 1
    return np.moveaxis(lanes, fastest, -1).reshape(-1)


def _warp_sectors(blocks: list[Addresses]) -> int:
    """Return the sum over all warps of the sectors that a warp touches. Address 0 marks an inactive lane."""
    padded = []
    for block in blocks:
        rest = -block.size % WARP
        padded.append(np.concatenate([block, np.zeros(rest, dtype=np.uint64)]) if rest else block)
    sectors = np.concatenate(padded).reshape(-1, WARP) // np.uint64(SECTOR)
    ordered = bool((sectors[:, 1:] >= sectors[:, :-1]).all())
    if not ordered:
        sectors = np.sort(sectors, axis=1)
    changes = (sectors[:, 1:] != sectors[:, :-1]) & (sectors[:, 1:] != 0)
    return int(changes.sum()) + int((sectors[:, 0] != 0).sum())
