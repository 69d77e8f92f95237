"""System calls that a worker does without: keys outlive it, and some memory is nobody's. Linux, x86-64 and arm64.

They fail as on a kernel that does not know them, here and in all that is started from here.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import platform
import struct
import sys
from dataclasses import dataclass


@dataclass(frozen=True)
class _Machine:
    """Numbers of one kind of processor."""

    name: int
    """As the kernel's audit calls it: a program of another kind has other numbers, so it may call nothing."""
    seccomp: int
    keyctl: int
    keys: tuple[int, ...]
    """add_key, request_key, keyctl."""
    memory: tuple[int, ...]
    """memfd_create, memfd_secret, shmget."""


_MACHINES = {
    "x86_64": _Machine(0xC000003E, 317, 250, (248, 249, 250), (319, 447, 29)),
    "aarch64": _Machine(0xC00000B7, 277, 219, (217, 218, 219), (279, 447, 194)),
}
_X32 = 0x40000000
"""Numbers from here on are those of x86-64's other set of calls."""
_LOAD, _IF_EQUAL, _IF_AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_NUMBER, _PROCESSOR = 0, 4
"""Where a filter finds them."""
_ALLOW, _FAIL = 0x7FFF0000, 0x00050000 | errno.ENOSYS
_NO_NEW_PRIVILEGES, _SET_FILTER, _ALL_THREADS, _NO_SLOWDOWN = 38, 1, 1, 4
_JOIN_SESSION_KEYRING = 1


def leave_keys() -> None:
    """A session keyring of its own for this thread, and those to come: the judge's is not inherited any more."""
    if (machine := _machine()) is not None:
        ctypes.CDLL(None).syscall(machine.keyctl, _JOIN_SESSION_KEYRING, None)


def refuse_keys() -> bool:
    """For all threads, for good, as what follows; whether the kernel did it."""
    machine = _machine()
    return machine is not None and _refuse(machine.seccomp, machine.name, machine.keys)


@functools.cache
def refuse_memory() -> bool:
    """Where no accelerator is used: its driver may need such memory. Once in a process's life."""
    machine = _machine()
    return machine is not None and _refuse(machine.seccomp, machine.name, machine.memory)


def _refuse(seccomp: int, processor: int, refused: tuple[int, ...]) -> bool:
    # Each jump says how many lines it skips; the last line is the failure, the one before lets the call pass.
    lines = [(_LOAD, 0, 0, _PROCESSOR), (_IF_EQUAL, 0, len(refused) + 3, processor), (_LOAD, 0, 0, _NUMBER)]
    lines += [(_IF_AT_LEAST, len(refused) + 1, 0, _X32)]
    lines += [(_IF_EQUAL, len(refused) - at, 0, number) for at, number in enumerate(refused)]
    lines += [(_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _FAIL)]
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in lines))
    described = ctypes.create_string_buffer(struct.pack("HP", len(lines), ctypes.addressof(program)))
    libc = ctypes.CDLL(None)
    libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    done: int = libc.syscall(seccomp, _SET_FILTER, _ALL_THREADS | _NO_SLOWDOWN, described)
    return done == 0


def _machine() -> _Machine | None:
    """This one, where its numbers are known and Python is not of 32 bits."""
    return _MACHINES.get(platform.machine()) if sys.platform == "linux" and sys.maxsize > 1 << 32 else None
