"""No inputs: the function asks the machine."""

from __future__ import annotations


def draw(seed: int, case: int) -> dict[str, object]:
    """Return no arguments: only the machine differs."""
    return {}
