"""The judge's keeper: `python -I -m gpututor.grading.keeper --isolation NAME --workers NAME [--once]`.

It starts the judge with its own stdin and stdout, and ends when the judge does, when stdin is closed at the other end,
or on SIGTERM. However the judge ends, a `kill -9` included, what descends from it becomes the keeper's, which ends all
of it. The judge in turn ends all that it started when the keeper is gone.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time

from gpututor.processes import adopt_orphans, end_descendants, hide_from_others, python_module

GRACE_S = 2.0
"""Seconds that the judge has to end by itself once its requests have ended."""


def main() -> int:
    """Return the status with which the judge ended itself; end by a signal otherwise."""
    hide_from_others()
    adopt_orphans()
    waker = _wakes_on(signal.SIGCHLD, signal.SIGTERM)
    judges_end, ours = os.pipe()
    judge = subprocess.Popen(
        [*python_module("gpututor.judge"), "--keeper", str(judges_end), *sys.argv[1:]],
        pass_fds=[judges_end],
        start_new_session=True,
    )
    os.close(judges_end)
    os.dup2(2, 1)  # the client sees the end of the judge's answers when the judge ends
    try:
        _follow(judge, waker)
    finally:
        status = judge.poll()
        end_descendants()
        os.close(ours)
    if status is None or status < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return status or 0


def _wakes_on(*signals: signal.Signals) -> int:
    """A descriptor from which the numbers of these signals can be read."""
    waker, woken = os.pipe()
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    for number in signals:
        signal.signal(number, lambda *_: None)
    return waker


def _follow(judge: subprocess.Popen[bytes], waker: int) -> None:
    """Return when the judge has ended, or is to be ended."""
    waiting = select.poll()
    waiting.register(waker, select.POLLIN)
    waiting.register(0, 0)  # no event but that the other end was closed
    deadline: float | None = None
    while judge.poll() is None:
        left_s = None if deadline is None else deadline - time.monotonic()
        if left_s is not None and left_s <= 0:
            return
        ready = dict(waiting.poll(None if left_s is None else 1000 * left_s))
        if waker in ready and signal.SIGTERM in os.read(waker, 512):
            return
        if 0 in ready:
            waiting.unregister(0)
            deadline = time.monotonic() + GRACE_S


if __name__ == "__main__":
    sys.exit(main())
