"""Elements that nothing has written since `torch.empty`, from one launch to the next."""

from __future__ import annotations

import weakref

import numpy as np

from gpututor.devices.virtual.clock.timeline import Task
from gpututor.devices.virtual.memory.allocator import Allocation
from gpututor.devices.virtual.triton_kernels.accesses import Mask

_partly: weakref.WeakKeyDictionary[Allocation, tuple[Task, int, Mask]] = weakref.WeakKeyDictionary()
"""The launch that wrote last, bytes of a cell, and the cells that are still unwritten."""


def unwritten_cells(block: Allocation, cell: int) -> Mask | None:
    """Return True for each cell that nothing has written; None if something else than a Triton kernel wrote."""
    if block.written is None:
        return np.ones(-(-block.size_bytes // cell) + 1, dtype=bool)
    known = _partly.get(block)
    if known is None or known[0] is not block.written:
        _partly.pop(block, None)
        return None
    _, before, cells = known
    if before == cell:
        return cells
    by_byte = np.repeat(cells, before)
    return by_byte[: by_byte.size - by_byte.size % cell].reshape(-1, cell).any(axis=1)


def remember_unwritten(block: Allocation, cells: Mask | None, cell: int) -> None:
    """Keep the cells for later launches; `block` was written by a launch, or not at all."""
    if cells is None or block.written is None or not cells.any():
        _partly.pop(block, None)
        return
    _partly[block] = (block.written, cell, cells)
