"""Ending processes: a process and everything that it ever started.

A process's id can become another's once it has ended and its parent has let it go. So what is signalled here is either
this process's own child, which nobody else lets go, or is looked at again (`_signal_child`), or stands still below a
parent that stands still.
"""

from __future__ import annotations

import contextlib
import os
import signal
import site
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
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
    return list(_below(pid))


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
                found += map(int, read_of_kernel(f"/proc/{pid}/task/{thread}/children").split())
    return found


def read_of_kernel(path: str) -> bytes:
    """A file of /proc: a judge reads thousands of them in a minute, and file objects cost more than the reading.

    Raises `OSError`.
    """
    parts = []
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        while part := os.read(descriptor, 1 << 16):
            parts.append(part)
    finally:
        os.close(descriptor)
    return b"".join(parts)


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


def exit_status(child: int, within_s: float = 0.3) -> int | None:
    """Return the status with which a child ended itself; None if a signal ended it, or if it still runs.

    The child stays known to the system: its parent still has to wait for it.
    """
    ends = time.monotonic() + within_s
    while True:
        try:
            state = os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return None
        if state is not None:
            return state.si_status if state.si_code == os.CLD_EXITED else None
        if time.monotonic() > ends:
            return None
        time.sleep(0.01)


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
    family = _stopped(lambda: _below(pid))
    # The youngest first: the parent of each still stands there, and keeps its id.
    for member in reversed(family):
        _signal(member, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if leads:
            os.killpg(pid, signal.SIGKILL)
    _signal(pid, signal.SIGKILL)


def kill_descendants() -> None:
    """SIGKILL every process that descends from this one, the orphans that it adopted included."""
    for member in reversed(_stopped(lambda: _below(os.getpid()))):
        _signal(member, signal.SIGKILL)


def end_descendants(within_s: float = 10.0) -> None:
    """Kill and collect every process that descends from this one, until it has no child.

    A process that is killed while it starts a child leaves that child to this process, which must `adopt_orphans`.
    """
    deadline = time.monotonic() + within_s
    while children(os.getpid()) and time.monotonic() < deadline:
        kill_descendants()
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.002)


def status_of_child(pid: int) -> int | None:
    """The exit code of this process's own child, or minus a signal's number; None while it lives. It keeps its id."""
    found = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
    if found is None:
        return None
    return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status


def signal_below(pid: int, generations: int, number: int) -> None:
    """Signal the eldest child of the eldest child … of `pid`, which nobody lets go; `pid` itself for no generation."""
    if generations == 0:
        _signal(pid, number)
        return
    for _ in range(generations):
        parent, pid = pid, next(iter(children(pid)), 0)
    if pid:
        _signal_child(pid, parent, number)


def stop_tree(pid: int) -> list[int]:
    """SIGSTOP `pid`, a child of this process, and all that descends from it; who stands still then."""
    _signal(pid, signal.SIGSTOP)
    return [pid, *_stopped(lambda: _below_by_lists(pid))]


def let_go_on(stopped: Iterable[int]) -> None:
    """SIGCONT all that `stop_tree` stopped."""
    for member in stopped:
        _signal(member, signal.SIGCONT)


def _stopped(look: Callable[[], dict[int, int]]) -> list[int]:
    """Stop those whom `look` finds, and look again until nobody new is there; the eldest first."""
    known: dict[int, int] = {}
    while True:
        found = look()
        # Who lost its parent meanwhile was passed over, and shows with another one.
        new = {child: parent for child, parent in found.items() if known.get(child) != parent}
        if not new:
            return list(found)
        for child, parent in new.items():
            _signal_child(child, parent, signal.SIGSTOP)
        known |= new


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


def wake_when_parent_ends() -> None:
    """Linux: this process gets SIGCONT when the thread that started it ends: who is stopped then goes on."""
    _prctl(1, signal.SIGCONT)


def hide_from_others() -> None:
    """Linux: other processes of the same user, but root's, read neither memory nor descriptors nor environment."""
    _prctl(4, 0)  # PR_SET_DUMPABLE


def hide_environment() -> None:
    """Linux: empty this process's /proc/PID/environ. `os.environ`, and what children inherit, stay as they are."""
    if sys.platform != "linux":
        return
    import ctypes

    with contextlib.suppress(OSError, ValueError, IndexError):
        fields = Path("/proc/self/stat").read_text(errors="replace").rpartition(")")[2].split()
        start, end = int(fields[47]), int(fields[48])
        for name, value in os.environ.items():
            os.putenv(name, value)  # the C library keeps a copy elsewhere
        if 0 < start < end:
            ctypes.memset(start, 0, end - start)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _signal_child(pid: int, parent: int, number: int) -> None:
    """Signal `pid` if it is a child of `parent`: if that id is somebody else's by now, nothing happens."""
    handle = _handle_of(pid)
    try:
        if sys.platform != "linux" or _parent_of(pid) == parent:
            # Linux: who was there first is behind the handle, and is that child, or gone.
            _signal(pid, number) if handle is None else signal.pidfd_send_signal(handle, number)
    except (ProcessLookupError, PermissionError):
        pass
    finally:
        if handle is not None:
            os.close(handle)


def _handle_of(pid: int) -> int | None:
    """What stands for this process and no other, where the system knows such a thing and there is room for one."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            return os.pidfd_open(pid)
    return None


def _below(pid: int) -> dict[int, int]:
    """Each living descendant of `pid` with its parent, the eldest first: among all processes that can be seen."""
    families: dict[int, list[int]] = {}
    for child, parent in _parents():
        families.setdefault(parent, []).append(child)
    return _walked(pid, lambda parent: families.get(parent, []))


def _below_by_lists(pid: int) -> dict[int, int]:
    """The same in a hundredth of the time, where the system lists children; it may miss one that is being born."""
    return _walked(pid, children) if _LISTS_CHILDREN else _below(pid)


def _walked(pid: int, children_of: Callable[[int], list[int]]) -> dict[int, int]:
    found: dict[int, int] = {}
    waiting = [pid]
    for parent in waiting:
        new = [child for child in children_of(parent) if child not in found]
        found |= dict.fromkeys(new, parent)
        waiting += new
    return found


def _parent_of(pid: int) -> int | None:
    with contextlib.suppress(OSError):
        # The command's name is in parentheses and may hold anything, so fields are counted from its end.
        return int(Path("/proc", str(pid), "stat").read_text(errors="replace").rpartition(")")[2].split()[1])
    return None


def _parents() -> list[tuple[int, int]]:
    """(process id, its parent's) of every process that can be seen."""
    if sys.platform != "linux":
        with subprocess.Popen(["ps", "-axo", "pid=,ppid="], stdout=subprocess.PIPE, text=True) as lister:
            listing = lister.communicate()[0]
        found = [(int(pid), int(parent)) for pid, parent in (line.split() for line in listing.splitlines())]
        # Who lists is this process's child too, and another one each time.
        return [pair for pair in found if pair[0] != lister.pid]
    pairs: list[tuple[int, int]] = []
    for name in os.listdir("/proc"):
        if name.isdigit() and (parent := _parent_of(int(name))) is not None:
            pairs.append((int(name), parent))
    return pairs
