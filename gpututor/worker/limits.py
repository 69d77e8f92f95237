"""What a worker may use of the machine."""

from __future__ import annotations

import resource

FILE_BYTES = 256 << 20
DATA_BYTES = 8 << 30
"""Of private memory; RLIMIT_DATA, because RLIMIT_AS breaks CUDA builds of torch."""


def apply_limits() -> None:
    """No core dumps, no huge files, no endless memory. For this process and all that it starts."""
    _at_most(resource.RLIMIT_CORE, 0)
    _at_most(resource.RLIMIT_FSIZE, FILE_BYTES)
    _at_most(resource.RLIMIT_DATA, DATA_BYTES)


def _at_most(what: int, wanted: int) -> None:
    _, hard = resource.getrlimit(what)
    value = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(what, (value, value))
