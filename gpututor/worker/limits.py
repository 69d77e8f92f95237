"""What a worker may use of the machine. Every such number is here."""

from __future__ import annotations

import os
import resource

FILE_BYTES = 256 << 20
"""Of one file; `RLIMIT_FSIZE`."""
DATA_BYTES = 8 << 30
"""Of one process's private memory; `RLIMIT_DATA`, because `RLIMIT_AS` breaks CUDA builds of torch."""
OPEN_FILES = 1024
"""`RLIMIT_NOFILE`."""
RESIDENT_BYTES = 4 << 30
"""Of all processes of a worker together, beyond what a fresh one has: looked at by the judge."""
PROCESSES = 64
"""Of a worker at one time, itself included: looked at by the judge."""
THREADS = 512
"""Of all processes of a worker together: looked at by the judge."""
TASKS = 1024
"""`RLIMIT_NPROC`, where a worker has a user namespace of its own: elsewhere it would count the user's whole desktop.

Above `THREADS`, so that who comes near it is told in the judge's words.
"""
SCRATCH_BYTES = 512 << 20
"""Of a worker's scratch folder, and once more of its /dev/shm."""
SCRATCH_FILES = 10_000
"""Files and folders in the scratch folder."""


def resident_limit_bytes() -> int:
    """`RESIDENT_BYTES`, or half of the memory of a machine that has less than twice that."""
    return min(RESIDENT_BYTES, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2)


def apply_limits(own_namespace: bool = False) -> None:
    """No core dumps, no huge files, no endless memory. For this process and all that it starts."""
    _at_most(resource.RLIMIT_CORE, 0)
    _at_most(resource.RLIMIT_FSIZE, FILE_BYTES)
    _at_most(resource.RLIMIT_DATA, DATA_BYTES)
    _at_most(resource.RLIMIT_NOFILE, OPEN_FILES)
    if own_namespace and _counts_by_namespace():
        _at_most(resource.RLIMIT_NPROC, TASKS)


def _counts_by_namespace() -> bool:
    """Linux 5.14 began to count a user's processes by user namespace; before, all of the user's were counted."""
    release = os.uname().release.split(".")
    return tuple(int(part) for part in release[:2] if part.isdigit()) >= (5, 14)


def _at_most(what: int, wanted: int) -> None:
    _, hard = resource.getrlimit(what)
    value = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(what, (value, value))
