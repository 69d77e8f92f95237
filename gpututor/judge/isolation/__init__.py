"""Isolation of workers from the machine."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from gpututor.processes import python_module


class Isolation(Protocol):
    """A way to start a Python process."""

    @property
    def name(self) -> str:
        """`process` or `bubblewrap`, as in reports."""

    @property
    def own_scratch(self) -> Path | None:
        """Scratch folder that only the process sees; None if the judge makes one."""

    @property
    def wrappers(self) -> int:
        """Number of processes between the judge and the Python process."""

    def command(self, module: str, *arguments: str) -> list[str]:
        """Return the command to start. Raises `NotGradableHere` with the reason if it cannot work."""


class Process:
    """A separate process with limits, a clean environment and cleanup, but no secrecy. Works everywhere."""

    name = "process"
    own_scratch = None
    wrappers = 0

    def command(self, module: str, *arguments: str) -> list[str]:
        return [*python_module(module, "-u"), *arguments]
