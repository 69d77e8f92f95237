"""System calls that a worker does without: what they make outlives it, leaves its tree of processes, or hides memory.

They fail as on a kernel that does not know them, here and in all that is started from here. Linux on x86-64 and arm64,
where the kernel has seccomp; nothing is refused elsewhere.
"""

from __future__ import annotations

import ctypes
import errno
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
    prctl: int
    clone: int
    lasting: tuple[int, ...]
    """keyctl, add_key, request_key, semget, msgget, mq_open: the kernel keeps what they make when nobody is left."""
    memory: tuple[int, ...]
    """memfd_create, memfd_secret, shmget: memory that no process need hold, where the watch would see it."""


_MACHINES = {
    "x86_64": _Machine(0xC000003E, 317, 157, 56, (250, 248, 249, 64, 68, 240), (319, 447, 29)),
    "aarch64": _Machine(0xC00000B7, 277, 167, 220, (219, 217, 218, 190, 186, 180), (279, 447, 194)),
}
_X32 = 0x40000000
"""Numbers from here on are those of x86-64's other set of calls."""
_CLONE_3 = 435
"""Its flags cannot be looked at here; the C library takes the older clone instead."""
_CLONE_PARENT = 0x8000
"""Makes a sister instead of a child."""
_SUBREAPER = 36
"""What a worker has said yes to: its orphans stay below it. Nobody may say no."""

_LOAD, _IF_EQUAL, _IF_AT_LEAST, _IF_SET, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _PROCESSOR, _FIRST_ARGUMENT = 0, 4, 16
"""Where a filter finds them."""
_ALLOW, _FAIL = 0x7FFF0000, 0x00050000 | errno.ENOSYS
_TO_FAILURE = -1
"""In place of how many lines a jump skips: on to the last, which fails."""
_NO_NEW_PRIVILEGES, _SET_FILTER, _ALL_THREADS, _NO_SLOWDOWN = 38, 1, 1, 4
_JOIN_SESSION_KEYRING = 1

_Line = tuple[int, int, int, int]
"""What to do, how many lines to skip if it is so and if not, and with what."""


def leave_keys() -> None:
    """A session keyring of its own for this thread, and those to come: the judge's is not inherited any more."""
    if (machine := _machine()) is not None:
        ctypes.CDLL(None).syscall(machine.lasting[0], _JOIN_SESSION_KEYRING, None)


def block_escaping_syscalls() -> bool:
    """What outlives a worker or leaves its tree: for all threads, for good. Whether the kernel did it."""
    machine = _machine()
    if machine is None:
        return False
    lines: list[_Line] = [(_IF_EQUAL, _TO_FAILURE, 0, number) for number in (*machine.lasting, _CLONE_3)]
    for number, test, value in (
        (machine.prctl, _IF_EQUAL, _SUBREAPER),
        (machine.clone, _IF_SET, _CLONE_PARENT),
    ):
        lines += [(_IF_EQUAL, 0, 3, number), (_LOAD, 0, 0, _FIRST_ARGUMENT)]
        lines += [(test, _TO_FAILURE, 0, value), (_RETURN, 0, 0, _ALLOW)]
    return _refuse(machine, lines)


def refuse_memory() -> bool:
    """Where there is no accelerator: its driver may need such memory. Whether the kernel did it."""
    machine = _machine()
    return machine is not None and _refuse(machine, [(_IF_EQUAL, _TO_FAILURE, 0, one) for one in machine.memory])


def _refuse(machine: _Machine, looks: list[_Line]) -> bool:
    """`looks`: lines that see the number of a call, and send on to failure what they know."""
    lines: list[_Line] = [
        (_LOAD, 0, 0, _PROCESSOR),
        (_IF_EQUAL, 0, _TO_FAILURE, machine.name),
        (_LOAD, 0, 0, _NUMBER),
        (_IF_AT_LEAST, _TO_FAILURE, 0, _X32),
        *looks,
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _FAIL),
    ]
    last = len(lines) - 1
    packed = b"".join(
        struct.pack("HBBI", what, *(last - at - 1 if skip == _TO_FAILURE else skip for skip in (so, not_so)), value)
        for at, (what, so, not_so, value) in enumerate(lines)
    )
    program = ctypes.create_string_buffer(packed)
    described = ctypes.create_string_buffer(struct.pack("HP", len(lines), ctypes.addressof(program)))
    libc = ctypes.CDLL(None)
    libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    done: int = libc.syscall(machine.seccomp, _SET_FILTER, _ALL_THREADS | _NO_SLOWDOWN, described)
    return done == 0


def _machine() -> _Machine | None:
    """This one, where its numbers are known and Python is not of 32 bits."""
    return _MACHINES.get(platform.machine()) if sys.platform == "linux" and sys.maxsize > 1 << 32 else None
