"""Keeping a submission's processes still while something else is timed: it cannot slow what it is compared with."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from gpututor.processes import descendants

MOST_LOOKS = 20


def family(pid: int) -> set[int]:
    """`pid` and every living process that descends from it."""
    try:
        return _family_by_threads(pid)
    except OSError:
        return {pid, *descendants(pid)}


class Stillness:
    """Stops processes of this one's tree, and lets them go on.

    An orphan that a submission left is this process's own child by now, so whoever is not trusted is taken to be its.
    """

    def __init__(self, judge: int, trusted: Iterable[int], standing_still: Callable[[], Iterable[int]] = tuple) -> None:
        """`trusted` are process ids of workers that hold nothing of the submission; their families are left alone.

        So are those of `standing_still`: they must not go on when the others do.
        """
        self._judge = judge
        self._trusted = tuple(trusted)
        self._standing_still = standing_still

    def others(self) -> set[int]:
        """All that descends from the judge, without what is trusted or stands still already."""
        found = family(self._judge) - {self._judge}
        for pid in (*self._trusted, *self._standing_still()):
            found -= family(pid)
        return found

    @contextlib.contextmanager
    def still(self) -> Iterator[None]:
        """All others are stopped for the time of the block. Looked at again until nobody new is there, or `MOST_LOOKS`.

        A submission whose processes are born faster than that disturbs, and the guard against contention sees it.
        """
        stopped: set[int] = set()
        try:
            for _ in range(MOST_LOOKS):
                new = self.others() - stopped
                if not new:
                    break
                _signal_all(new, signal.SIGSTOP)
                stopped |= new
            yield
        finally:
            _signal_all(stopped, signal.SIGCONT)


def _family_by_threads(pid: int) -> set[int]:
    """By the lists of children that Linux keeps for each thread. Raises `OSError` where it does not."""
    if not Path(f"/proc/self/task/{os.getpid()}/children").exists():
        raise OSError("this system lists no children")
    found: set[int] = set()
    waiting = [pid]
    while waiting:
        one = waiting.pop()
        if one in found:
            continue
        found.add(one)
        with contextlib.suppress(OSError):  # it ended meanwhile
            for thread in os.listdir(f"/proc/{one}/task"):
                with contextlib.suppress(OSError):
                    waiting += map(int, Path(f"/proc/{one}/task/{thread}/children").read_text().split())
    return found


def _signal_all(pids: set[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
