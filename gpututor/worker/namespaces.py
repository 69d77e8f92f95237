"""Namespaces of its own for each child of a fork server that lives inside bubblewrap.

A forked child cannot enter bubblewrap, which executes a program. So it unshares once more: users, mounts, process ids,
IPC and the network. What it sees then: the file system of the server, all of it read-only, a scratch folder and a
/dev/shm that nobody else has, no /proc but a few plain files, no process but its own, no network but a loopback of its
own. It holds no capability and can get none.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import signal
import socket
import struct
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from gpututor.processes import die_with_parent
from gpututor.worker.limits import SCRATCH_BYTES, SCRATCH_FILES

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
