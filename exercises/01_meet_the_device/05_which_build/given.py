"""Nothing is given: the function asks the machine."""

from __future__ import annotations


def draw(seed: int, case: int) -> dict[str, object]:
    """No arguments: what differs is the machine."""
    return {}
