"""Killing processes with all their descendants, and other facts about processes.

A process's id can be reused once the process has ended and its parent has waited for it. Three kinds of processes are
therefore safe to signal:

- a child of this process that no other code waits for;
- a process that was checked again (`_signal_child`);
- a stopped child of a stopped parent.
"""

from __future__ import annotations

import contextlib
import os
import signal
import site
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NoReturn

from gpututor.paths import PACKAGE


def python_module(name: str, *options: str) -> list[str]:
    """Return the command that runs one of our modules, without the user's variables and, if possible, user packages."""
    in_user_site = PACKAGE.is_relative_to(site.getusersitepackages())
    return [sys.executable, *(["-E", "-P"] if in_user_site else ["-I"]), *options, "-m", name]


def has_graphical_browser() -> bool:
    """Return False if `webbrowser` could only start a browser for terminals, which would draw over this one."""
    variables = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER", "WSL_DISTRO_NAME")
    return sys.platform in ("darwin", "win32") or any(os.environ.get(name) for name in variables)


def descendants(pid: int) -> list[int]:
    """Return the ids of all living descendants of `pid`, nearest first."""
    return list(_below(pid))


def tree(pid: int, at_most: int) -> list[int]:
    """Return up to `at_most` of `pid` and its descendants, from the system's lists of children.

    Much cheaper than `descendants` on a machine with many processes, but can miss a process that is just being created.
    Without a limit, a tree that doubles meanwhile would have no end.
    """
    if not _LISTS_CHILDREN:
        return [pid, *descendants(pid)][:at_most]
    members = [pid]
    for member in members:
        if len(members) >= at_most:
            break
        members += children(member)
    return members[:at_most]


def children(pid: int) -> list[int]:
    """Return the ids of the children of `pid`, with zombies; on Linux the oldest first."""
    if not _LISTS_CHILDREN:
        return [child for child, parent in _parents() if parent == pid]
    pids: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError):
                pids += map(int, read_proc(f"/proc/{pid}/task/{thread}/children").split())
    return pids


def read_proc(path: str) -> bytes:
    """Read a file of /proc without a file object: a judge reads thousands a minute. Raises `OSError`."""
    content = b""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        while part := os.read(descriptor, 1 << 16):
            content += part
    finally:
        os.close(descriptor)
    return content


_LISTS_CHILDREN = Path("/proc/thread-self/children").exists()


def is_alive(pid: int) -> bool:
    """Return True if a process with that id exists, of any user."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # it exists, and belongs to another user
    return True


def exit_status(child: int, within_s: float = 0.3) -> int | None:
    """Return a child's exit status; None for a signal, or if it still runs. The parent still has to wait for it."""
    ends = time.monotonic() + within_s
    with contextlib.suppress(ChildProcessError):
        while (status := status_of_child(child)) is None and time.monotonic() < ends:
            time.sleep(0.01)
        return None if status is None or status < 0 else status
    return None


def kill_tree(pid: int) -> None:
    """SIGKILL `pid`, its process group if it leads one, and all its descendants.

    The root and its group are stopped first, so that they cannot start another child. Then further descendants are
    stopped until there are no new ones.
    """
    leads = False
    with contextlib.suppress(ProcessLookupError, PermissionError):
        leads = os.getpgid(pid) == pid
    if leads:
        _signal(pid, signal.SIGSTOP, os.killpg)
    _signal(pid, signal.SIGSTOP)
    # The youngest first: while its parent is stopped, no other process gets its id.
    for member in reversed(_stopped(lambda: _below(pid))):
        _signal(member, signal.SIGKILL)
    if leads:
        _signal(pid, signal.SIGKILL, os.killpg)
    _signal(pid, signal.SIGKILL)


def kill_descendants() -> None:
    """SIGKILL all descendants of this process, with adopted orphans."""
    for member in reversed(_stopped(lambda: _below(os.getpid()))):
        _signal(member, signal.SIGKILL)


def end_descendants(within_s: float = 10.0) -> None:
    """Kill all descendants of this process and wait for them, until it has no child.

    This process must `adopt_orphans`: a process that is killed while it starts a child leaves that child to it.
    """
    deadline = time.monotonic() + within_s
    while children(os.getpid()) and time.monotonic() < deadline:
        kill_descendants()
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.002)


def status_of_child(pid: int) -> int | None:
    """Return the exit code of a child, or minus a signal's number; None while it runs. The child keeps its id."""
    state = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
    if state is None:
        return None
    return state.si_status if state.si_code == os.CLD_EXITED else -state.si_status


def signal_below(pid: int, generations: int, number: int) -> None:
    """Signal the oldest child of the oldest child … of `pid`, this process's child; `pid` itself for 0 generations."""
    if generations == 0:
        _signal(pid, number)
        return
    for _ in range(generations):
        parent, pid = pid, next(iter(children(pid)), 0)
    if pid:
        _signal_child(pid, parent, number)


def stop_tree(pid: int) -> list[int]:
    """SIGSTOP `pid`, a child of this process, and its descendants; return the stopped processes."""
    _signal(pid, signal.SIGSTOP)
    # By the lists of children in a hundredth of the time; they can miss a process that is just being created.
    return [pid, *_stopped(lambda: _walked(pid, children) if _LISTS_CHILDREN else _below(pid))]


def resume(stopped: Iterable[int]) -> None:
    """SIGCONT the processes that `stop_tree` stopped."""
    for member in stopped:
        _signal(member, signal.SIGCONT)


def _stopped(look: Callable[[], dict[int, int]]) -> list[int]:
    """Stop the processes that `look` returns, until it returns no new ones; return them, the oldest first."""
    known: dict[int, int] = {}
    while True:
        current = look()
        # A process that lost its parent was not signalled, and appears again with another parent.
        new = {child: parent for child, parent in current.items() if known.get(child) != parent}
        if not new:
            return list(current)
        for child, parent in new.items():
            _signal_child(child, parent, signal.SIGSTOP)
        known |= new


def reap_orphans(keep: set[int]) -> None:
    """Kill this process's children that are not in `keep`: orphans of a dead worker (see `adopt_orphans`)."""
    deadline = time.monotonic() + 5.0
    while time.monotonic() < deadline:
        orphans = [child for child in children(os.getpid()) if child not in keep]
        if not orphans:
            return
        for orphan in orphans:
            with contextlib.suppress(ChildProcessError):
                # Most are dead already: after a fork bomb, searching the descendants of each would take seconds.
                if os.waitpid(orphan, os.WNOHANG)[0] == 0:
                    kill_tree(orphan)
                    os.waitpid(orphan, 0)


def run_and_exit(run: Callable[[], int]) -> NoReturn:
    """End this forked process with the result of `run`, or with 1 and a traceback; flushes its output."""
    code = 1
    try:
        code = run()
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        os._exit(code)


def close_all_but(*descriptors: int) -> None:
    """Close all descriptors except `descriptors`."""
    ends = sorted({-1, *descriptors})
    for end, after in zip(ends, [*ends[1:], 1 << 20], strict=True):
        if end + 1 < after:  # an empty range would close everything
            os.closerange(end + 1, after)


def adopt_orphans() -> None:
    """Become the parent of descendants whose parent dies, so that none can escape. For Linux only."""
    _prctl(36, 1)  # PR_SET_CHILD_SUBREAPER


def die_with_parent() -> None:
    """Let this process get SIGKILL when the thread that started it ends. For Linux only."""
    _prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def wake_when_parent_ends() -> None:
    """Let this process get SIGCONT, which resumes it, when the thread that started it ends. For Linux only."""
    _prctl(1, signal.SIGCONT)


def hide_from_others() -> None:
    """Hide memory, descriptors and environment from other processes of the same user, except root's. For Linux only."""
    _prctl(4, 0)  # PR_SET_DUMPABLE


def hide_environment() -> None:
    """Empty this process's /proc/PID/environ; `os.environ` and the environment of children stay. For Linux only."""
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


def _signal(pid: int, number: int, send: Callable[[int, int], None] = os.kill) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):  # it has ended, or its id has another owner now
        send(pid, number)


def _signal_child(pid: int, parent: int, number: int) -> None:
    """Signal `pid` if it is a child of `parent`, and not another process with the same id."""
    handle = _handle_of(pid)
    if sys.platform != "linux" or _parent_of(pid) == parent:
        # On Linux, the handle still refers to that child, or to none.
        _signal(pid, number) if handle is None else _signal(handle, number, signal.pidfd_send_signal)
    if handle is not None:
        os.close(handle)


def _handle_of(pid: int) -> int | None:
    """Return a descriptor for this process and no later one; None on other systems or without free descriptors."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            return os.pidfd_open(pid)
    return None


def _below(pid: int) -> dict[int, int]:
    """Return each living descendant of `pid` with its parent, the oldest first, from the list of all processes."""
    families: dict[int, list[int]] = {}
    for child, parent in _parents():
        families.setdefault(parent, []).append(child)
    return _walked(pid, lambda parent: families.get(parent, []))


def _walked(pid: int, children_of: Callable[[int], list[int]]) -> dict[int, int]:
    parents: dict[int, int] = {}
    queue = [pid]
    for parent in queue:
        new = [child for child in children_of(parent) if child not in parents]
        parents |= dict.fromkeys(new, parent)
        queue += new
    return parents


def _parent_of(pid: int) -> int | None:
    with contextlib.suppress(OSError):
        # The command's name is in parentheses and may contain anything: count fields from its end.
        return int(read_proc(f"/proc/{pid}/stat").rpartition(b")")[2].split(None, 2)[1])
    return None


def _parents() -> list[tuple[int, int]]:
    """Return (process id, its parent's id) of all visible processes."""
    if sys.platform != "linux":
        import subprocess  # 2 ms, and Linux does without

        with subprocess.Popen(["ps", "-axo", "pid=,ppid="], stdout=subprocess.PIPE, text=True) as lister:
            lines = lister.communicate()[0].splitlines()
        # `ps` itself is a child, too, and a new one each time.
        return [(pid, parent) for pid, parent in (map(int, line.split()) for line in lines) if pid != lister.pid]
    pairs: list[tuple[int, int]] = []
    for name in os.listdir("/proc"):
        if name.isdigit() and (parent := _parent_of(int(name))) is not None:
            pairs.append((int(name), parent))
    return pairs
