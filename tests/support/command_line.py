"""Verbs called in the test's process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Said:
    """How a verb ended, and what it printed."""

    code: int
    out: str
    err: str


Call = Callable[..., Said]
