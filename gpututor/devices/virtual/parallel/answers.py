"""What other processes say of a collective, over gloo: when they are ready for it, and how long it takes them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch

from gpututor.devices.virtual import private

Ask = Callable[[timedelta | None], "list[tuple[int, int]]"]
"""Waits for the figures of the others, for a limited time where one is given: (when ready, how long it takes) each."""


def aside(call: Callable[[], Any]) -> Any:
    """`call`, unseen by the virtual GPU."""
    with private.host_only(), private.function_modes_aside():
        return call()


def pair(figures: torch.Tensor) -> tuple[int, int]:
    """The two figures of one process, read unseen by the virtual GPU."""
    with private.host_only():
        ready, duration = figures.tolist()
    return ready, duration


class Answers:
    """What the others say, when it is there."""

    def __init__(self, carried: Any, theirs: list[torch.Tensor]) -> None:
        self._carried = carried
        self._theirs = theirs

    def ask(self, limit: timedelta | None) -> list[tuple[int, int]]:
        """See `Ask`; raises `RuntimeError` when they do not come."""
        carried = self._carried
        if carried is not None:
            deadline = time.monotonic() + (0.0 if limit is None else limit.total_seconds())
            while limit is not None and not carried.is_completed():
                if time.monotonic() > deadline:
                    raise RuntimeError("no answer")
                time.sleep(0.001)
            carried.wait()
            self.let_go()
        return [pair(one) for one in self._theirs]

    def let_go(self) -> None:
        """Keep the figures, and no longer what gloo has of them, once they are there."""
        if self._carried is not None and self._carried.is_completed():
            with contextlib.suppress(RuntimeError):  # told to who asks
                self._carried.wait()
                self._carried = None
