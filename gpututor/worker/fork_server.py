"""Entry point of the fork server: `python -I -m gpututor.worker.fork_server CONTROL ISOLATION`. Linux only.

The server has imported everything that a run needs, has patched torch for virtual machines, and never computes: after
one matrix product here, a forked child would hang. Each child serves one submission. The judge sends JSON over the
control socket, one message at a time:

- `fork` with a number, a scratch folder, and three descriptors (the child's socket, its output pipe, the pipe for its
  stack): answered with a pidfd of the child;
- `status` of a number: answered with its exit code, minus a signal's number, or null while it runs;
- `end` of a number: answered when the child is gone with everything that it started.

A child is not reaped before its `end`, so its process id stays reserved. When the judge ends, everything here ends.

A forked child cannot enter bubblewrap, which executes a program. So it gets new namespaces of users, mounts, process
ids, IPC and the network. It sees the server's file system read-only, its own scratch folder and /dev/shm. It also sees
a few plain files in /proc, its own processes, and a loopback device. It has no capabilities and can get none.

A fork copies the page tables of all written memory, and an exit frees them. With torch imported that is 200 MiB, and
most of the time of a child that checks a small function. Huge pages make these tables small.
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
import select
import signal
import socket
import struct
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from gpututor.hardware.nvidia_driver import end_driver_sessions
from gpututor.processes import (
    adopt_orphans,
    close_all_but,
    die_with_parent,
    kill_descendants,
    kill_tree,
    reap_orphans,
    run_and_exit,
    status_of_child,
    wake_when_parent_ends,
)
from gpututor.protocol.messages import SCRATCH_BYTES, SCRATCH_FILES
from gpututor.worker.__main__ import begin, warm_up
from gpututor.worker.machine import enter_idle_machine, leave_idle_machine
from gpututor.worker.seccomp import fork_with, leave_session_keyring

HUGE_PAGE_BYTES = 2 << 20
"""Size of a huge page on x86-64, and on arm64 with its usual pages."""
_COLLAPSE = 25  # MADV_COLLAPSE, since Linux 6.1
_PRIVATE_MEMORY = re.compile(r"([0-9a-f]+)-([0-9a-f]+) rw.p [0-9a-f]+ \S+ 0 +(?!\[v)")


def collapse_huge_pages() -> None:
    """Move all private memory of this process to huge pages. Changes nothing if the kernel cannot do it."""
    if sys.platform != "linux":
        return
    with contextlib.suppress(OSError):
        advise = ctypes.CDLL(None, use_errno=True).madvise
        advise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        for start, end in list(_private_regions()):
            advise(start, end - start, _COLLAPSE)


def _private_regions() -> Iterator[tuple[int, int]]:
    """Yield (start, end) of the whole huge pages in each region of memory without a file."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        if match := _PRIVATE_MEMORY.match(line + " "):
            start = -(-int(match[1], 16) // HUGE_PAGE_BYTES) * HUGE_PAGE_BYTES
            end = int(match[2], 16) // HUGE_PAGE_BYTES * HUGE_PAGE_BYTES
            if end > start:
                yield start, end


_NEW = 0x00020000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000  # CLONE_NEWNS, NEWIPC, NEWUSER, NEWPID, NEWNET
_SET_FLAGS, _UP = 0x8914, 1
_READ_ONLY, _NO_SETUID, _NO_DEVICES, _NO_PROGRAMS, _REMOUNT, _BIND, _RECURSIVE = 1, 2, 4, 8, 32, 4096, 16384
_FLAGS = {"nosuid": _NO_SETUID, "nodev": _NO_DEVICES, "noexec": _NO_PROGRAMS, "noatime": 1024, "nodiratime": 2048}
_NO_NEW_PRIVILEGES, _DROP_FROM_BOUNDING_SET, _AMBIENT, _CLEAR_ALL = 38, 24, 47, 4
_CAPABILITIES_VERSION_3 = 0x20080522
_COPIED_FILES = ("cpuinfo", "meminfo", "stat", "version")
"""Files of /proc that torch and the C library read; they say nothing about other processes."""

_USER, _GROUP = os.getuid(), os.getgid()
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mount.argtypes = (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p)


def serve_in_namespaces(scratch: Path, serve: Callable[[], int], statuses: int) -> int:
    """Run as process 1 of new namespaces: set them up, run `serve` in a child, and write its status to `statuses`.

    All processes in the namespaces end with this one. Nothing inside can kill it: without a status, it was killed from
    outside.
    """
    for name, content in (
        ("setgroups", "deny"),
        ("uid_map", f"{_USER} {_USER} 1"),
        ("gid_map", f"{_GROUP} {_GROUP} 1"),
    ):
        Path("/proc/self", name).write_text(content)
    # A signal with its default action does not reach process 1 from inside.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:  # the loopback device, for ranks
        fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sh22x", b"lo", _UP))
    isolate_file_system(scratch)
    die_with_parent()  # again: the new capabilities may have reset it
    served = os.fork()
    if served == 0:
        os.close(statuses)
        run_and_exit(serve)
    close_all_but(0, 1, 2, statuses)
    while True:
        ended, status = os.wait()
        if ended == served:
            os.write(statuses, str(os.waitstatus_to_exitcode(status)).encode())
            return 0


def isolate_file_system(scratch: Path) -> None:
    """Make all read-only but a new scratch folder and /dev/shm; replace /proc. Raises `OSError`."""
    files = {name: Path("/proc", name).read_bytes() for name in _COPIED_FILES}
    # A process in a chroot cannot make a user namespace, in which it could mount a tmpfs without a limit.
    _check_call(_libc.mount(b"/", os.fsencode(scratch), None, _BIND | _RECURSIVE, None), "bind the root")
    os.chroot(scratch)
    os.chdir("/")
    for mount_point, flags in _writable_mounts():
        flags |= _REMOUNT | _BIND | _READ_ONLY
        _check_call(_libc.mount(None, mount_point, None, flags, None), f"remount {mount_point!r}")
    for folder in (os.fsencode(scratch), b"/dev/shm"):
        _mount_own(folder, f"size={SCRATCH_BYTES},nr_inodes={SCRATCH_FILES},mode=700")
    _mount_own(b"/proc", "size=1m,mode=755")
    for name, content in files.items():
        Path("/proc", name).write_bytes(content)
    flags = _REMOUNT | _BIND | _READ_ONLY | _NO_SETUID | _NO_DEVICES
    _check_call(_libc.mount(None, b"/proc", None, flags, None), "remount /proc")
    os.chdir(scratch)
    _drop_capabilities()


def _mount_own(folder: bytes, options: str) -> None:
    flags = _NO_SETUID | _NO_DEVICES
    _check_call(_libc.mount(b"tmpfs", folder, b"tmpfs", flags, options.encode()), f"mount a tmpfs on {folder!r}")


def _writable_mounts() -> list[tuple[bytes, int]]:
    """Return (mount point, flags that must stay) of each writable mount, without /proc, which is replaced."""
    mounts: list[tuple[bytes, int]] = []
    for line in Path("/proc/self/mountinfo").read_bytes().splitlines():
        fields = line.split()
        mount_point, options = fields[4], fields[5].decode().split(",")
        if "rw" in options and mount_point != b"/proc" and not mount_point.startswith(b"/proc/"):
            # Spaces are written as octal numbers.
            path = mount_point.decode("unicode_escape").encode("latin-1") if b"\\" in mount_point else mount_point
            mounts.append((path, sum(_FLAGS.get(option, 0) for option in options)))
    return mounts


def _drop_capabilities() -> None:
    """Drop all capabilities for good: executing a program, even as root of the namespace, restores none."""
    _libc.prctl(_AMBIENT, _CLEAR_ALL, 0, 0, 0)
    for capability in range(64):
        if _libc.prctl(_DROP_FROM_BOUNDING_SET, capability, 0, 0, 0) != 0:
            break  # the last capability of this kernel
    header = (ctypes.c_uint32 * 2)(_CAPABILITIES_VERSION_3, 0)
    _check_call(_libc.capset(header, (ctypes.c_uint32 * 6)()), "drop all capabilities")
    _check_call(_libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0), "set no_new_privs")


def _check_call(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"could not {what}: {os.strerror(number)}")


LONGEST_MESSAGE = 8192
MORE_MODULES = ("torch.export._trace", "torch.utils.benchmark", "gpututor.devices.virtual.compiler.inductor")
"""Imports that take a second and that few submissions need. The first verdicts do not wait for them: see `serve`."""
PAUSE_S = 0.5
"""Seconds without a request after which the judge pauses."""
FIRST_CHILDREN = 4
"""Children that end before the judge has to wait for the imports."""


def main() -> int:
    wake_when_parent_ends()  # a stopped server would not see its control socket close
    adopt_orphans()
    leave_session_keyring()
    control, isolation = socket.socket(fileno=int(sys.argv[1])), sys.argv[2]
    control.set_inheritable(False)
    warm_up()
    end_driver_sessions()
    server = Forker(control, own_namespace=isolation == "bubblewrap")
    prepare_to_fork()
    try:
        server.serve()
    finally:
        kill_descendants()
    return 0


def prepare_to_fork() -> None:
    """Do once what each child would have to do: patch torch, and put what it only reads where a fork is cheap."""
    enter_idle_machine()
    # Children's garbage collectors skip these objects: looking at them would copy the pages.
    gc.collect()
    gc.freeze()
    collapse_huge_pages()


def import_more_modules() -> None:
    leave_idle_machine()  # modules that are imported on a machine could keep its functions
    for name in MORE_MODULES:
        with contextlib.suppress(ImportError):  # another version of torch may not have them
            importlib.import_module(name)
    prepare_to_fork()


class Forker:
    """Forks children, and reports how they ended."""

    def __init__(self, control: socket.socket, *, own_namespace: bool) -> None:
        self._control = control
        self._own_namespace = own_namespace
        self._children: dict[int, _Child] = {}
        """Children by the judge's numbers; not reaped."""
        self._has_more = False
        self._ended = 0
        self._devices = _describe_devices_in_child()

    def serve(self) -> None:
        """Serve until the judge ends.

        Import `MORE_MODULES` once a child has ended and the judge pauses. Without a pause, the judge waits for that
        after the first children. So the imports do not disturb the times of a submission that runs.
        """
        has_ended = False
        while True:
            try:
                if has_ended and not self._has_more and not select.select([self._control], [], [], PAUSE_S)[0]:
                    self._import_more()
                message, descriptors, _, _ = socket.recv_fds(self._control, LONGEST_MESSAGE, 3)
                if not message:
                    return
                request = json.loads(message)
                number, has_ended = request["number"], request["op"] == "end"
                if request["op"] == "fork":
                    self._fork(number, Path(request["scratch"]), descriptors)
                elif request["op"] == "status":
                    self._say({"number": number, "status": self._children[number].status()})
                else:
                    self._end(number)
                    if self._ended == FIRST_CHILDREN and not self._has_more:
                        self._import_more()
                    self._say({"number": number, "ended": True})
            except ConnectionError:
                return

    def _import_more(self) -> None:
        self._has_more = True
        import_more_modules()

    def _say(self, answer: dict[str, Any], descriptors: tuple[int, ...] = ()) -> None:
        socket.send_fds(self._control, [json.dumps(answer).encode()], descriptors)

    def _fork(self, number: int, scratch: Path, descriptors: list[int]) -> None:
        connected, printed, stack = descriptors
        parent = os.getpid()
        reader, writer = os.pipe()

        def serve() -> int:
            return begin(connected, stack, scratch, self._devices, own_namespace=self._own_namespace)

        def run_child() -> int:
            die_with_parent()
            if os.getppid() not in (parent, 0):  # 0: outside this namespace, which ends with bubblewrap's
                return 1
            os.setsid()
            for standard in (1, 2):
                os.dup2(printed, standard)
            close_all_but(0, 1, 2, connected, stack, writer)
            os.environ["HOME"] = os.environ["TMPDIR"] = str(scratch)
            tempfile.tempdir = None
            adopt_orphans()
            leave_session_keyring()
            if self._own_namespace:
                return serve_in_namespaces(scratch, serve, writer)
            os.close(writer)
            return serve()

        pid = -1
        try:
            pid = fork_with(_NEW) if self._own_namespace else os.fork()
        except OSError as error:
            os.close(reader)
            os.write(printed, f"The fork server could not fork: {error}\n".encode())
            self._say({"number": number, "refused": True})
            return
        finally:
            if pid != 0:
                for descriptor in (*descriptors, writer):
                    os.close(descriptor)
        if pid == 0:
            run_and_exit(run_child)
        self._children[number] = _Child(pid, reader, own_namespace=self._own_namespace)
        handle = os.pidfd_open(pid)
        self._say({"number": number, "forked": True}, (handle,))
        os.close(handle)

    def _end(self, number: int) -> None:
        child = self._children[number]
        if status_of_child(child.pid) is None:
            kill_tree(child.pid)
        os.waitpid(child.pid, 0)
        child.close()
        del self._children[number]
        self._ended += 1
        reap_orphans({child.pid for child in self._children.values()})


class _Child:
    """A child of the server: the serving process, or process 1 of its namespaces."""

    def __init__(self, pid: int, statuses: int, *, own_namespace: bool) -> None:
        self.pid = pid
        self._statuses, self._own_namespace = statuses, own_namespace
        self._status: int | None = None

    def status(self) -> int | None:
        """Return the exit code of the serving process, or minus a signal's number; None while it runs."""
        if self._status is None and (status := status_of_child(self.pid)) is not None:
            written = os.read(self._statuses, 16) if self._own_namespace else b""
            self._status = int(written) if written else status
        return self._status

    def close(self) -> None:
        os.close(self._statuses)


def _describe_devices_in_child() -> list[dict[str, Any]]:
    """Describe the machine's devices in a child: that initializes them, which a forking process must not do."""
    from gpututor.devices.probe import describe_devices

    reader, writer = os.pipe()

    def run() -> int:
        os.write(writer, json.dumps(describe_devices()).encode())
        return 0

    if (pid := os.fork()) == 0:
        run_and_exit(run)
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        message = stream.read()
    os.waitpid(pid, 0)
    devices: list[dict[str, Any]] = json.loads(message)
    return devices


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(main())
