"""The judge's keeper: `python -I -m gpututor.grading.keeper --isolation NAME --workers NAME [--once]`.

The keeper starts the judge with its own stdin and stdout. It ends when the judge ends, when stdin is closed at the
other end, or on SIGTERM. However the judge ends, a `kill -9` included, the keeper adopts the judge's descendants and
kills them. If the keeper dies, the judge ends everything that it started.
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
"""Seconds for the judge to end by itself after the end of its requests."""


def main() -> int:
    """Return the judge's exit status; end by SIGKILL if a signal ended the judge."""
    hide_from_others()
    adopt_orphans()
    waker = _wakeup_pipe(signal.SIGCHLD, signal.SIGTERM)
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


def _wakeup_pipe(*signals: signal.Signals) -> int:
    """Return a descriptor from which the numbers of these signals can be read."""
    waker, woken = os.pipe()
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    for number in signals:
        signal.signal(number, lambda *_: None)
    return waker


def _follow(judge: subprocess.Popen[bytes], waker: int) -> None:
    """Return when the judge has ended, or must be ended."""
    waiting = select.poll()
    waiting.register(waker, select.POLLIN)
    waiting.register(0, 0)  # reports only that the other end was closed
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
