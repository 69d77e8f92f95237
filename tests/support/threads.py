"""Helpers for tests of threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from gpututor.devices.virtual.machine import active_machine

S = 1_000_000_000


def started(function: Callable[..., Any], *arguments: Any) -> threading.Thread:
    thread = threading.Thread(target=function, args=arguments, daemon=True)
    thread.start()
    return thread


def slept(seconds: float, then: Callable[..., Any] | None = None, *arguments: Any) -> Any:
    """Sleep, then return the result of `then`."""
    time.sleep(seconds)
    return None if then is None else then(*arguments)


def now() -> int:
    return active_machine().clock.host.now
