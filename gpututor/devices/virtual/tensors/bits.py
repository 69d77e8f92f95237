"""Conjugate and negative views: a bit says that the values are to be conjugated or negated when they are read.

As on CUDA the wrapper has the bit, so that C++ above the modes resolves it, and so has its CPU tensor, which shares
the memory of what it is a view of. Few programs make such views: until the first one nobody looks for bits.
"""

from __future__ import annotations

seen = False
"""Whether a CPU tensor behind a virtual one may have a bit; for the life of the process."""


def expect() -> None:
    """From now on, bits are looked for."""
    global seen
    seen = True
