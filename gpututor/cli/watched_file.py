"""A file that others write: when it changes, when the change rests, when it is gone and when it is back."""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import Enum, auto
from pathlib import Path

REST_S = 0.2
"""How long the file must rest after a change: editors write in several steps."""
GONE_AFTER_S = 0.5
"""How long the file must be away to be called gone: some editors take it away when they save."""

Stamp = tuple[int, int, int]


class Happened(Enum):
    """What became of the file since the last look."""

    CHANGED = auto()
    """It is another one than at the last look."""
    RESTED = auto()
    """It changed, and then rested: now it can be read."""
    GONE = auto()
    BACK = auto()


class WatchedFile:
    """Looked at now and then; each look costs one stat. How the file is at first is no change."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self.path = path
        self._clock = clock
        self._stamp = _stamp(path)
        self._changed_at: float | None = None
        """When it was last seen to change; None where nobody waits for it to rest."""
        self._gone_at: float | None = None
        self._is_gone = False
        """Whether that was told."""

    def look(self) -> tuple[Happened, ...]:
        """What happened, in this order; mostly nothing."""
        now, stamp = self._clock(), _stamp(self.path)
        if stamp is None:
            return self._absent(now)
        happened = [Happened.BACK] if self._is_gone else []
        self._gone_at, self._is_gone = None, False
        if stamp != self._stamp:
            self._stamp, self._changed_at = stamp, now
            happened.append(Happened.CHANGED)
        if self._changed_at is not None and now - self._changed_at >= REST_S:
            self._changed_at = None
            happened.append(Happened.RESTED)
        return tuple(happened)

    def was_read(self) -> None:
        """Somebody read it: a change of before need not rest any more."""
        self._changed_at = None

    def _absent(self, now: float) -> tuple[Happened, ...]:
        self._gone_at = now if self._gone_at is None else self._gone_at
        if self._is_gone or now - self._gone_at < GONE_AFTER_S:
            return ()
        self._is_gone, self._stamp = True, None
        return (Happened.GONE,)


def _stamp(path: Path) -> Stamp | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
