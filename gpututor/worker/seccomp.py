"""System calls by their numbers: a fork with flags, and calls that a worker must not use.

The effects of the latter outlive it, leave its process tree, or hide memory. They fail as on a kernel that lacks them,
here and in all child processes. Needs seccomp of Linux on x86-64 or arm64; elsewhere nothing is blocked.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import signal
import struct
import sys
from dataclasses import dataclass


@dataclass(frozen=True)
class _Processor:
    """System call numbers of one processor architecture."""

    name: int
    """Audit number of the architecture: programs of other architectures have other numbers, so they fail."""
    seccomp: int
    prctl: int
    clone: int
    lasting: tuple[int, ...]
    """keyctl, add_key, request_key, semget, msgget, mq_open: what they make outlives all processes."""
    memory: tuple[int, ...]
    """memfd_create, memfd_secret, shmget: memory that the resource monitor cannot see."""


_PROCESSORS = {
    "x86_64": _Processor(0xC000003E, 317, 157, 56, (250, 248, 249, 64, 68, 240), (319, 447, 29)),
    "aarch64": _Processor(0xC00000B7, 277, 167, 220, (219, 217, 218, 190, 186, 180), (279, 447, 194)),
}
_X32 = 0x40000000
"""First system call number of the x32 ABI."""
_CLONE_3 = 435
"""clone3, whose flags a filter cannot read; the C library falls back to clone."""
_CLONE_PARENT = 0x8000
"""Flag of clone that makes a sibling instead of a child."""
_SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER: the worker adopts the orphans below it, and its children must not change that."""

_LOAD, _IF_EQUAL, _IF_AT_LEAST, _IF_SET, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
"""Offsets in the data of a filter."""
_ALLOW, _FAIL = 0x7FFF0000, 0x00050000 | errno.ENOSYS
_TO_FAILURE = -1
"""Placeholder for a jump to the last instruction, which fails the call."""
_NO_NEW_PRIVILEGES, _SET_FILTER, _ALL_THREADS, _NO_SLOWDOWN = 38, 1, 1, 4
_JOIN_SESSION_KEYRING = 1

_Instruction = tuple[int, int, int, int]
"""Operation, instructions to skip if true and if false, operand."""


def leave_session_keyring() -> None:
    """Join a new session keyring, so that this thread and its children do not inherit the judge's."""
    if (processor := _processor()) is not None:
        ctypes.CDLL(None).syscall(processor.lasting[0], _JOIN_SESSION_KEYRING, None)


def fork_with(flags: int) -> int:
    """Fork with flags of clone; return the child's id, or 0 in the child. Raises `OSError`.

    No handler of forks runs, neither Python's nor a library's. So the caller must be the only thread, and the child may
    do little before its own `os.fork`.
    """
    if (processor := _processor()) is None:
        raise OSError(errno.ENOSYS, "this kind of processor has no known number of the system call clone")
    pid: int = ctypes.PyDLL(None, use_errno=True).syscall(
        processor.clone, flags | signal.SIGCHLD, None, None, None, None
    )
    if pid < 0:
        raise OSError(ctypes.get_errno(), f"could not fork: {os.strerror(ctypes.get_errno())}")
    return pid


def block_escaping_syscalls() -> bool:
    """Block calls that outlive a worker or leave its tree, in all threads; return True if the kernel did it."""
    processor = _processor()
    if processor is None:
        return False
    instructions = _fail_for(*processor.lasting, _CLONE_3)
    for number, test, value in (
        (processor.prctl, _IF_EQUAL, _SUBREAPER),
        (processor.clone, _IF_SET, _CLONE_PARENT),
    ):
        instructions += [(_IF_EQUAL, 0, 3, number), (_LOAD, 0, 0, _FIRST_ARGUMENT)]
        instructions += [(test, _TO_FAILURE, 0, value), (_RETURN, 0, 0, _ALLOW)]
    return _install_filter(processor, instructions)


def block_hidden_memory() -> bool:
    """Block memory that the resource monitor cannot see; return True if the kernel did it.

    An accelerator's driver may need that memory.
    """
    processor = _processor()
    return processor is not None and _install_filter(processor, _fail_for(*processor.memory))


def _fail_for(*numbers: int) -> list[_Instruction]:
    return [(_IF_EQUAL, _TO_FAILURE, 0, number) for number in numbers]


def _install_filter(processor: _Processor, rules: list[_Instruction]) -> bool:
    """Install a filter; return False if the kernel refuses it.

    `rules` read the number of a system call, and jump to the failure for blocked calls.
    """
    instructions: list[_Instruction] = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_IF_EQUAL, 0, _TO_FAILURE, processor.name),
        (_LOAD, 0, 0, _NUMBER),
        (_IF_AT_LEAST, _TO_FAILURE, 0, _X32),
        *rules,
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _FAIL),
    ]
    last = len(instructions) - 1
    packed = b"".join(
        struct.pack("HBBI", operation, *(last - at - 1 if skip == _TO_FAILURE else skip for skip in skips), value)
        for at, (operation, *skips, value) in enumerate(instructions)
    )
    program = ctypes.create_string_buffer(packed)
    described = ctypes.create_string_buffer(struct.pack("HP", len(instructions), ctypes.addressof(program)))
    libc = ctypes.CDLL(None)
    libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    done: int = libc.syscall(processor.seccomp, _SET_FILTER, _ALL_THREADS | _NO_SLOWDOWN, described)
    return done == 0


def _processor() -> _Processor | None:
    """Return the numbers of this machine; None if they are unknown or Python has 32 bits."""
    return _PROCESSORS.get(platform.machine()) if sys.platform == "linux" and sys.maxsize > 1 << 32 else None
