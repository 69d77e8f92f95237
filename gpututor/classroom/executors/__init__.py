"""Who grades: each takes attempts from `gpututor.classroom.work.Work` until there are no more, and says what became."""

from __future__ import annotations

from typing import Protocol

from gpututor.classroom.work import Work


class Executor(Protocol):
    """A way to get gradings done. The journal holds the results, whoever does them."""

    def run(self, work: Work) -> None:
        """Returns when `work` is over, or stopped. Ctrl-C raises `KeyboardInterrupt`, with nothing left running."""
