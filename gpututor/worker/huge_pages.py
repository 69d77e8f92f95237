"""Gathers what a process holds in huge pages, so that a fork of it copies hundreds of entries, not tens of thousands.

A fork copies the tables of all pages that were written to, and an exit takes them down again. With torch imported these
are 200 MiB, and most of the time of a child that only checks a small function.
"""

from __future__ import annotations

import contextlib
import ctypes
import re
import sys
from collections.abc import Iterator
from pathlib import Path

SIZE = 2 << 20
"""Bytes of a huge page, on x86-64 and on arm64 with its usual pages."""
_COLLAPSE = 25  # MADV_COLLAPSE, since Linux 6.1
_PRIVATE_MEMORY = re.compile(r"([0-9a-f]+)-([0-9a-f]+) rw.p [0-9a-f]+ \S+ 0 +(?!\[v)")


def gather() -> None:
    """Do it for all private memory of this process. Where the kernel cannot, all stays as it was."""
    if sys.platform != "linux":
        return
    with contextlib.suppress(OSError):
        advise = ctypes.CDLL(None, use_errno=True).madvise
        advise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        for start, end in list(_regions()):
            advise(start, end - start, _COLLAPSE)


def _regions() -> Iterator[tuple[int, int]]:
    """(start, end) of the whole huge pages in each region of memory that belongs to no file."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        if found := _PRIVATE_MEMORY.match(line + " "):
            start = -(-int(found[1], 16) // SIZE) * SIZE
            end = int(found[2], 16) // SIZE * SIZE
            if end > start:
                yield start, end
