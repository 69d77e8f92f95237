"""`torch.cuda.nvtx`: ranges nest and are counted; no profiler listens to their names."""

from __future__ import annotations

import itertools
import threading
from typing import Any


class _Ranges(threading.local):
    depth = 0


_open = _Ranges()
_identities = itertools.count(1)


def range_push(msg: Any) -> int:
    """Open a range in this thread; returns its depth, 0 for the outermost."""
    _open.depth += 1
    return _open.depth - 1


def range_pop() -> int:
    """Close the innermost range of this thread; returns its depth, or NVTX's -2 where none is open."""
    if _open.depth == 0:
        return -2
    _open.depth -= 1
    return _open.depth


def range_start(msg: Any) -> int:
    """Open a range that need not nest; returns its identity for `range_end`."""
    return next(_identities)


def range_end(range_id: Any) -> None:
    """Close a range of `range_start`."""


def mark(msg: Any) -> None:
    """A moment with a name."""
