"""System calls that a worker may not make, each tried in a fresh process."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from typing import Any

import pytest

from gpututor.worker import seccomp

pytestmark = pytest.mark.skipif(seccomp._processor() is None, reason="no filter for this processor")

TRIES = """
import ctypes, json, os, signal, subprocess, sys, threading
libc = ctypes.CDLL(None, use_errno=True)
X86 = os.uname().machine == "x86_64"
def tried(number, *arguments):
    ctypes.set_errno(0)
    return "done" if libc.syscall(number, *arguments) >= 0 else os.strerror(ctypes.get_errno())
results = {
    "keyctl": tried(250 if X86 else 219, 0, -3, 0),
    "add_key": tried(248 if X86 else 217, b"user", b"gpututor-test", b"1", 1, -2),
    "subreaper": tried(157 if X86 else 167, 36, 1, 0, 0, 0),
    "name of the thread": tried(157 if X86 else 167, 15, b"named", 0, 0, 0),
    "clone3": tried(435, None, 0),
    "semget": tried(64 if X86 else 190, 0, 0, 0),
    "mq_open": tried(240 if X86 else 180, None, 0, 0, None),
    "shmget": tried(29 if X86 else 194, 0, 0, 0),
    "memfd_create": tried(319 if X86 else 279, b"test", 0),
}
sister = libc.syscall(56 if X86 else 220, 0x8000 | signal.SIGCHLD, 0, 0, 0, 0)
if sister == 0:
    os._exit(0)
results["a sister"] = "done" if sister > 0 else os.strerror(ctypes.get_errno())
child = os.fork()
if child == 0:
    os._exit(7)
results["a child"] = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
said = []
thread = threading.Thread(target=said.append, args=(tried(29 if X86 else 194, 0, 0, 0),))
thread.start(), thread.join()
results["shmget in a thread"] = said[0]
words = "import ctypes; print(ctypes.CDLL(None).prctl(36, 0, 0, 0, 0))"
results["subreaper in a program"] = subprocess.check_output([sys.executable, "-IS", "-c", words]).decode()
print(json.dumps(results))
"""
NO = "Function not implemented"
LASTING = ("keyctl", "add_key", "subreaper", "clone3", "semget", "mq_open", "a sister")
MEMORY = ("shmget", "memfd_create", "shmget in a thread")


def results_after(*calls: str) -> dict[str, Any]:
    """Return the result of each attempt, after `calls` of the module."""
    begin = "from gpututor.worker import seccomp\n" + "".join(f"assert seccomp.{call}()\n" for call in calls)
    done = subprocess.run([sys.executable, "-c", begin + TRIES], capture_output=True, text=True, check=True)
    results: dict[str, Any] = json.loads(done.stdout)
    return results


def test_escaping_system_calls_are_refused() -> None:
    results = results_after("block_escaping_syscalls")

    assert {results[name] for name in LASTING} == {NO}
    assert results["subreaper in a program"] == "-1\n"
    assert results["name of the thread"] == results["memfd_create"] == "done"
    assert results["a child"] == 7


def test_shared_memory_is_refused_as_well() -> None:
    results = results_after("block_hidden_memory", "block_escaping_syscalls")

    assert {results[name] for name in (*LASTING, *MEMORY)} == {NO}
    assert results["a child"] == 7


def test_refusing_memory_allows_other_calls() -> None:
    results = results_after("block_hidden_memory")

    assert {results[name] for name in MEMORY} == {NO}
    assert results["subreaper"] == "done"


@pytest.mark.parametrize("processor", ["riscv64", "i686"])
def test_unsupported_processors_refuse_nothing(monkeypatch: pytest.MonkeyPatch, processor: str) -> None:
    monkeypatch.setattr(platform, "machine", lambda: processor)

    seccomp.leave_session_keyring()
    assert seccomp.block_escaping_syscalls() is seccomp.block_hidden_memory() is False
