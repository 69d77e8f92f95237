"""What stands between a worker and the machine."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from gpututor.processes import python_module


class Isolation(Protocol):
    """A way to start a Python process."""

    @property
    def name(self) -> str:
        """`process` or `bubblewrap`: what reports say."""

    @property
    def own_scratch(self) -> Path | None:
        """The scratch folder, where each process has one that nobody else sees; None: the judge makes it."""

    @property
    def wrappers(self) -> int:
        """How many processes are between the judge and the one that runs Python."""

    def command(self, module: str, *arguments: str) -> list[str]:
        """What to start. Raises `NotGradableHere` where it cannot work, with the reason."""


class Process:
    """No more than a process of its own: limits, a clean environment and cleanup, no secrecy. Works everywhere."""

    name = "process"
    own_scratch = None
    wrappers = 0

    def command(self, module: str, *arguments: str) -> list[str]:
        return [*python_module(module, "-u"), *arguments]
