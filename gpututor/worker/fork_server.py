"""The fork server: `python -I -m gpututor.worker.fork_server CONTROL ISOLATION`. Linux only.

A fork copies the tables of all pages that were written to, and an exit takes them down again. With torch imported these
are 200 MiB, and most of the time of a child that only checks a small function.

A forked child cannot enter bubblewrap, which executes a program. So it unshares once more: users, mounts, process ids,
IPC and the network. What it sees then: the file system of the server, all of it read-only, a scratch folder and a
/dev/shm that nobody else has, no /proc but a few plain files, no process but its own, no network but a loopback of its
own. It holds no capability and can get none.

It has imported all that a run needs and never computes: after one matrix product here, a forked child would hang for
ever. Each child serves one submission. The judge asks over the control socket, in JSON, one message at a time:

- `fork` with a number, a scratch folder, and three descriptors (the child's socket, the pipe that it prints to, the
  pipe for its stack): answered with a descriptor that stands for the child;
- `status` of a number: answered with its exit code, minus a signal's number, or nothing while it lives;
- `end` of a number: answered when it is gone with all that it started.

A child is not reaped before its `end`, so that its process id cannot become another process's meanwhile. When the judge
goes, however it went, everything here ends.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import gc
import importlib
import json
import os
import re
import signal
import socket
import struct
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

from gpututor.processes import (
    adopt_orphans,
    die_with_parent,
    kill_descendants,
    kill_tree,
    reap_orphans,
    status_of_child,
    wake_when_parent_ends,
)
from gpututor.protocol.messages import SCRATCH_BYTES, SCRATCH_FILES
from gpututor.worker.__main__ import begin, warm_up
from gpututor.worker.seccomp import leave_keys

SIZE = 2 << 20
"""Bytes of a huge page, on x86-64 and on arm64 with its usual pages."""
_COLLAPSE = 25  # MADV_COLLAPSE, since Linux 6.1
_PRIVATE_MEMORY = re.compile(r"([0-9a-f]+)-([0-9a-f]+) rw.p [0-9a-f]+ \S+ 0 +(?!\[v)")


def gather() -> None:
    """Do it for all private memory of this process. Where the kernel cannot, all stays as it was."""
    if sys.platform != "linux":
        return
    with contextlib.suppress(OSError):
        advise = ctypes.CDLL(None, use_errno=True).madvise
        advise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        for start, end in list(_regions()):
            advise(start, end - start, _COLLAPSE)


def _regions() -> Iterator[tuple[int, int]]:
    """(start, end) of the whole huge pages in each region of memory that belongs to no file."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        if found := _PRIVATE_MEMORY.match(line + " "):
            start = -(-int(found[1], 16) // SIZE) * SIZE
            end = int(found[2], 16) // SIZE * SIZE
            if end > start:
                yield start, end


_NEW = 0x00020000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000  # CLONE_NEWNS, NEWIPC, NEWUSER, NEWPID, NEWNET
_SET_FLAGS, _UP = 0x8914, 1
_READ_ONLY, _NO_SETUID, _NO_DEVICES, _NO_PROGRAMS, _REMOUNT, _BIND, _RECURSIVE = 1, 2, 4, 8, 32, 4096, 16384
_FLAGS = {"nosuid": _NO_SETUID, "nodev": _NO_DEVICES, "noexec": _NO_PROGRAMS, "noatime": 1024, "nodiratime": 2048}
_NO_NEW_PRIVILEGES, _DROP_FROM_BOUNDING_SET, _AMBIENT, _CLEAR_ALL = 38, 24, 47, 4
_CAPABILITIES_VERSION_3 = 0x20080522
_PLAIN = ("cpuinfo", "meminfo", "stat", "version")
"""Of /proc: what torch and the C library read; nothing of other processes is in it."""

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mount.argtypes = (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p)


def in_namespaces_of_its_own(scratch: Path, serve: Callable[[], int]) -> int:
    """Run `serve` two processes below this one, in namespaces of its own; this one ends as that one did.

    Between them is process 1 of the new namespace, with which everything in it ends, and which ends with this process.
    """
    user, group = os.getuid(), os.getgid()
    _must(_libc.unshare(_NEW), "unshare")
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    parent = os.getppid()
    die_with_parent()  # once more: who gets new rights by unsharing may have lost it
    if os.getppid() != parent:
        return 1
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.close(reader)
        _be_first_process(scratch, serve, writer)
    close_all_but(0, 1, 2, reader)
    with os.fdopen(reader, "rb") as stream:
        said = stream.read()
    # Nothing reaches process 1 from inside: where it told nothing, somebody outside killed it.
    status = int(said) if said else -signal.SIGKILL
    if status < 0:
        if status != -signal.SIGKILL:
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    return status


def _be_first_process(scratch: Path, serve: Callable[[], int], statuses: int) -> None:
    """Process 1: sets all up, starts the one that serves, tells how that one ended. Never returns."""
    try:
        # A signal with its default action does not reach process 1 from inside.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        raise_loopback()
        close_off(scratch)
        die_with_parent()
        served = os.fork()
        if served == 0:
            os.close(statuses)
            run_and_exit(serve)
        close_all_but(0, 1, 2, statuses)
        while True:
            ended, status = os.wait()
            if ended == served:
                os.write(statuses, str(os.waitstatus_to_exitcode(status)).encode())
                os._exit(0)
    except BaseException as error:
        os.write(2, f"{type(error).__name__}: {error}\n".encode())
    finally:
        os._exit(1)


def run_and_exit(run: Callable[[], int]) -> NoReturn:
    """End this forked process with what `run` returns, or with 1 and a traceback; what it printed is kept."""
    code = 1
    try:
        code = run()
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        os._exit(code)


def raise_loopback() -> None:
    """Ranks of one submission talk over it. Raises `OSError`."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sh22x", b"lo", _UP))


def close_off(scratch: Path) -> None:
    """All that can be written to becomes read-only; scratch, /dev/shm and /proc become this namespace's own.

    Raises `OSError` when any of it is refused.
    """
    plain = {name: Path("/proc", name).read_bytes() for name in _PLAIN}
    # Who is in a chroot can make no user namespace, in which a tmpfs without a limit could be mounted.
    _must(_libc.mount(b"/", os.fsencode(scratch), None, _BIND | _RECURSIVE, None), "bind the root")
    os.chroot(scratch)
    os.chdir("/")
    for where, flags in _writable_mounts():
        _must(_libc.mount(None, where, None, _REMOUNT | _BIND | _READ_ONLY | flags, None), f"remount {where!r}")
    for folder in (os.fsencode(scratch), b"/dev/shm"):
        _mount_own(folder, f"size={SCRATCH_BYTES},nr_inodes={SCRATCH_FILES},mode=700")
    _mount_own(b"/proc", "size=1m,mode=755")
    for name, content in plain.items():
        Path("/proc", name).write_bytes(content)
    flags = _REMOUNT | _BIND | _READ_ONLY | _NO_SETUID | _NO_DEVICES
    _must(_libc.mount(None, b"/proc", None, flags, None), "remount /proc")
    os.chdir(scratch)
    _drop_capabilities()


def _mount_own(folder: bytes, options: str) -> None:
    flags = _NO_SETUID | _NO_DEVICES
    _must(_libc.mount(b"tmpfs", folder, b"tmpfs", flags, options.encode()), f"mount a tmpfs on {folder!r}")


def _writable_mounts() -> list[tuple[bytes, int]]:
    """(where, flags that must stay) of each mount that can be written to, but for /proc, which gets covered."""
    found: list[tuple[bytes, int]] = []
    for line in Path("/proc/self/mountinfo").read_bytes().splitlines():
        fields = line.split()
        where, options = fields[4], fields[5].decode().split(",")
        if "rw" in options and where != b"/proc" and not where.startswith(b"/proc/"):
            # Spaces and the like are written as octal numbers.
            path = where.decode("unicode_escape").encode("latin-1") if b"\\" in where else where
            found.append((path, sum(_FLAGS.get(option, 0) for option in options)))
    return found


def _drop_capabilities() -> None:
    """From every set, for good: executing a program, also as the namespace's root, brings none back."""
    _libc.prctl(_AMBIENT, _CLEAR_ALL, 0, 0, 0)
    for capability in range(64):
        if _libc.prctl(_DROP_FROM_BOUNDING_SET, capability, 0, 0, 0) != 0:
            break  # the kernel knows no more
    header = (ctypes.c_uint32 * 2)(_CAPABILITIES_VERSION_3, 0)
    _must(_libc.capset(header, (ctypes.c_uint32 * 6)()), "drop all capabilities")
    _must(_libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0), "set no_new_privs")


def close_all_but(*kept: int) -> None:
    """Close every descriptor that is not `kept`."""
    ends = sorted({-1, *kept})
    for end, after in zip(ends, [*ends[1:], 1 << 20], strict=True):
        if end + 1 < after:  # an empty range would mean all
            os.closerange(end + 1, after)


def _must(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"could not {what}: {os.strerror(number)}")


LONGEST_MESSAGE = 8192
FOR_MANY = ("torch.export._trace", "torch.utils.benchmark")
"""Half a second of imports for few submissions: paid once here, and by a spare worker only when it comes to it."""


def main() -> int:
    wake_when_parent_ends()  # else it would not see its control socket close while it is stopped
    adopt_orphans()
    leave_keys()
    control, isolation = socket.socket(fileno=int(sys.argv[1])), sys.argv[2]
    control.set_inheritable(False)
    warm_up()
    for name in FOR_MANY:
        with contextlib.suppress(ImportError):  # another torch may keep them elsewhere
            importlib.import_module(name)
    server = Server(control, own_namespace=isolation == "bubblewrap")
    # What is here now is never looked at by a child's garbage collector, which would copy the pages.
    gc.collect()
    gc.freeze()
    gather()
    try:
        server.serve()
    finally:
        kill_descendants()
    return 0


class Server:
    """Forks children, and tells how they ended."""

    def __init__(self, control: socket.socket, *, own_namespace: bool) -> None:
        self._control = control
        self._own_namespace = own_namespace
        self._children: dict[int, int] = {}
        """Process ids by the judge's numbers; not reaped."""
        self._devices = _described_in_a_child()

    def serve(self) -> None:
        """Until the judge is gone."""
        while True:
            try:
                message, descriptors, _, _ = socket.recv_fds(self._control, LONGEST_MESSAGE, 3)
            except ConnectionError:
                return
            if not message:
                return
            asked = json.loads(message)
            try:
                if asked["op"] == "fork":
                    self._fork(asked["number"], Path(asked["scratch"]), descriptors)
                elif asked["op"] == "status":
                    self._say({"number": asked["number"], "status": self._status(asked["number"])})
                else:
                    self._end(asked["number"])
                    self._say({"number": asked["number"], "ended": True})
            except ConnectionError:
                return

    def _say(self, answer: dict[str, Any], descriptors: tuple[int, ...] = ()) -> None:
        socket.send_fds(self._control, [json.dumps(answer).encode()], descriptors)

    def _fork(self, number: int, scratch: Path, descriptors: list[int]) -> None:
        connected, printed, stack = descriptors

        def serve() -> int:
            return begin(connected, stack, scratch, self._devices, own_namespace=self._own_namespace)

        parent = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            self._say({"number": number, "refused": str(error)})
            return
        finally:
            if os.getpid() == parent:
                for descriptor in descriptors:
                    os.close(descriptor)
        if pid == 0:
            _be_child(parent, (connected, stack), printed, scratch, serve, self._own_namespace)
        self._children[number] = pid
        handle = os.pidfd_open(pid)
        self._say({"number": number, "forked": True}, (handle,))
        os.close(handle)

    def _status(self, number: int) -> int | None:
        return status_of_child(self._children[number])

    def _end(self, number: int) -> None:
        pid = self._children[number]
        if self._status(number) is None:
            kill_tree(pid)
        os.waitpid(pid, 0)
        del self._children[number]
        reap_orphans(set(self._children.values()))


def _be_child(
    parent: int, kept: tuple[int, ...], printed: int, scratch: Path, serve: Callable[[], int], own_namespace: bool
) -> NoReturn:
    """Only what is the child's own stays open. Never returns to the server's loop."""

    def run() -> int:
        die_with_parent()
        if os.getppid() != parent:
            return 1
        os.setsid()
        for standard in (1, 2):
            os.dup2(printed, standard)
        close_all_but(0, 1, 2, *kept)
        os.environ["HOME"] = os.environ["TMPDIR"] = str(scratch)
        tempfile.tempdir = None
        adopt_orphans()
        leave_keys()
        return in_namespaces_of_its_own(scratch, serve) if own_namespace else serve()

    run_and_exit(run)


def _described_in_a_child() -> list[dict[str, Any]]:
    """The machine's devices. To ask a device initialises it, and that must not happen in a process that forks."""
    from gpututor.devices.probe import describe_devices

    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(writer, json.dumps(describe_devices()).encode())
            os._exit(0)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        said = stream.read()
    os.waitpid(pid, 0)
    devices: list[dict[str, Any]] = json.loads(said)
    return devices


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(main())
