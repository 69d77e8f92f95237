"""Verbs called in the test's process."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Said:
    """Exit code and output of a verb."""

    code: int
    out: str
    err: str


Call = Callable[..., Said]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True
