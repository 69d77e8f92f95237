"""Time limits for tests that wait or could hang."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Iterator

PATIENCE_S = 60.0
"""Seconds until a test gives up waiting."""


def wait_for(condition: Callable[[], object], seconds: float = PATIENCE_S, what: str = "the condition") -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.005)


@contextlib.contextmanager
def no_waiting() -> Iterator[None]:
    """Fail a block that takes longer than `PATIENCE_S`; main thread only. The code in it may catch `OSError`."""

    def give_up(number: int, frame: object) -> None:
        raise AssertionError(f"still waiting after {PATIENCE_S} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
