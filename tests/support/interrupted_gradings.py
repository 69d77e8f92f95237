"""A program that interrupts gradings in all ways, and counts surviving processes: ISOLATION TRIES FOLDER.

Orphans become children of this process, so what others run on the machine is never counted.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time

from gpututor.grading.client import GradingClient
from gpututor.grading.events import GradeRequest
from gpututor.processes import adopt_orphans, children, end_descendants

WAYS = ("judge killed", "keeper killed", "both killed", "client killed", "client stops listening", "graded")
MOST_S = 2.0
"""Longest time before an interruption; a grading ends later than that."""
SETTLES_WITHIN_S = 30.0
RIGHT = "def twice(number):\n    return 2 * number\n"


def grade(isolation: str, folder: str, way: str) -> None:
    """Grade as a client does, with a worker that starts right before the interruption."""
    client = GradingClient(isolation)  # type: ignore[arg-type]
    client.warm()
    if way == "client stops listening":
        time.sleep(random.uniform(0.0, MOST_S))
    else:
        with contextlib.suppress(Exception):
            list(client.grade(GradeRequest(folder, RIGHT, "a.py")))
    client.close()


def interrupt(client: int, way: str) -> None:
    """Kill the processes that `way` names, if they exist."""
    keepers = children(client)
    judges = [judge for keeper in keepers for judge in children(keeper)]
    victims = {
        "judge killed": judges,
        "keeper killed": keepers,
        "both killed": [*judges, *keepers],
        "client killed": [client],
    }
    for victim in victims.get(way, ()):
        with contextlib.suppress(ProcessLookupError):
            os.kill(victim, signal.SIGKILL)


def left_over() -> int:
    """Return the number of children that are left after `SETTLES_WITHIN_S`."""
    deadline = time.monotonic() + SETTLES_WITHIN_S
    while (left := children(os.getpid())) and time.monotonic() < deadline:
        for child in left:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(child, os.WNOHANG)
        time.sleep(0.02)
    end_descendants()
    return len(left)


def main() -> None:
    isolation, tries, folder, *only = sys.argv[1:]
    if only:
        grade(isolation, folder, *only)
        return
    adopt_orphans()
    for number in range(int(tries)):
        way = WAYS[number % len(WAYS)]
        client = subprocess.Popen([sys.executable, __file__, isolation, "0", folder, way])
        if "killed" in way:
            time.sleep(random.uniform(0.2, 0.2 + MOST_S))
            interrupt(client.pid, way)
        client.wait()
        print(way, left_over(), flush=True)


if __name__ == "__main__":
    main()
