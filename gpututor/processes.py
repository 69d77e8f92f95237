"""Ending processes: a process and everything that it ever started."""

from __future__ import annotations

import contextlib
import os
import signal
import site
import subprocess
import sys
import time
from pathlib import Path

from gpututor.paths import PACKAGE


def python_module(name: str, *options: str) -> list[str]:
    """The command that runs one of our modules in a Python of its own, apart from the learner's settings.

    `-I` leaves out the user's own site-packages; where gpututor itself is installed there, they stay.
    """
    in_user_site = PACKAGE.is_relative_to(site.getusersitepackages())
    return [sys.executable, *(["-E", "-P"] if in_user_site else ["-I"]), *options, "-m", name]


def descendants(pid: int) -> list[int]:
    """The process ids of all living children of `pid`, and of theirs, nearest first."""
    children: dict[int, list[int]] = {}
    for child, parent in _parents():
        children.setdefault(parent, []).append(child)
    found: list[int] = []
    waiting = [pid]
    while waiting:
        for child in children.get(waiting.pop(), ()):
            found.append(child)
            waiting.append(child)
    return found


def tree(pid: int, at_most: int) -> list[int]:
    """`pid` and its descendants, found by walking down where the system lists each process's children.

    Much cheaper than `descendants` on a machine with many processes, but one that is just being born may be missed.
    The walk ends when `at_most` are found: a tree that doubles while it is walked would have no end.
    """
    if not _LISTS_CHILDREN:
        return [pid, *descendants(pid)][:at_most]
    found = [pid]
    for member in found:
        if len(found) >= at_most:
            break
        found += children(member)
    return found[:at_most]


def children(pid: int) -> list[int]:
    """The process ids of the living children of `pid`, zombies included; the eldest first where the system tells."""
    if not _LISTS_CHILDREN:
        return [child for child, parent in _parents() if parent == pid]
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError):
                found += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_text().split())
    return found


_LISTS_CHILDREN = Path("/proc/thread-self/children").exists()


def is_alive(pid: int) -> bool:
    """A process of that id exists, whoever owns it."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def kill_tree(pid: int) -> None:
    """SIGKILL `pid`, its process group when it leads one, and every process that descends from it.

    The root and its group are stopped first, so that they cannot start another child; then what is not of the group is
    looked for until nothing new is there.
    """
    leads = False
    with contextlib.suppress(ProcessLookupError, PermissionError):
        leads = os.getpgid(pid) == pid
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if leads:
            os.killpg(pid, signal.SIGSTOP)
    _signal(pid, signal.SIGSTOP)
    family = _stopped_descendants(pid)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if leads:
            os.killpg(pid, signal.SIGKILL)
    for member in (*family, pid):
        _signal(member, signal.SIGKILL)


def kill_descendants() -> None:
    """SIGKILL every process that descends from this one, the orphans that it adopted included."""
    for member in _stopped_descendants(os.getpid()):
        _signal(member, signal.SIGKILL)


def _stopped_descendants(pid: int) -> set[int]:
    seen: set[int] = set()
    while new := [child for child in descendants(pid) if child not in seen]:
        for child in new:
            _signal(child, signal.SIGSTOP)
        seen.update(new)
    return seen


def reap_orphans(keep: set[int]) -> None:
    """End this process's children that are not in `keep`: orphans that a dead worker left (see `adopt_orphans`)."""
    deadline = time.monotonic() + 5.0
    while time.monotonic() < deadline:
        orphans = [child for child in children(os.getpid()) if child not in keep]
        if not orphans:
            return
        for orphan in orphans:
            with contextlib.suppress(ChildProcessError):
                # Most are dead already: looking for the descendants of each would cost seconds after a fork bomb.
                if os.waitpid(orphan, os.WNOHANG)[0] == 0:
                    kill_tree(orphan)
                    os.waitpid(orphan, 0)


def adopt_orphans() -> None:
    """Linux: grandchildren whose parent dies become this process's children, so that none can escape."""
    _prctl(36, 1)  # PR_SET_CHILD_SUBREAPER


def die_with_parent() -> None:
    """Linux: this process gets SIGKILL when the thread that started it ends."""
    _prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _parents() -> list[tuple[int, int]]:
    """(process id, its parent's) of every process that can be seen."""
    if sys.platform != "linux":
        listing = subprocess.run(["ps", "-axo", "pid=,ppid="], capture_output=True, text=True, check=False).stdout
        return [(int(pid), int(parent)) for pid, parent in (line.split() for line in listing.splitlines())]
    pairs: list[tuple[int, int]] = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                # The command's name is in parentheses and may hold anything, so fields are counted from its end.
                fields = Path("/proc", name, "stat").read_text(errors="replace").rpartition(")")[2].split()
                pairs.append((int(name), int(fields[1])))
    return pairs
