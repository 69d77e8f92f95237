"""Memory that is gathered in huge pages holds what it held; where the kernel has none, nothing happens."""

from __future__ import annotations

import os
import random
import re
import sys
from pathlib import Path

import pytest

from gpututor.worker import fork_server

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of its pages")
ENABLED = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def in_huge_pages() -> int:
    return sum(map(int, re.findall(r"^AnonHugePages:\s+(\d+) kB", Path("/proc/self/smaps").read_text(), re.M)))


def can_gather() -> bool:
    """Linux 6.1 and later, with huge pages that are not switched off."""
    major, minor = map(int, re.findall(r"\d+", os.uname().release)[:2])
    return (major, minor) >= (6, 1) and ENABLED.exists() and "[never]" not in ENABLED.read_text()


def test_what_is_gathered_stays_as_it_is_and_goes_to_children() -> None:
    content = random.Random(0).randbytes(16 << 20)
    copied, before = bytearray(content), in_huge_pages()
    fork_server.collapse_huge_pages()
    assert copied == content
    if can_gather():
        assert in_huge_pages() >= before + (8 << 10)
    child = os.fork()
    if child == 0:
        copied[::4096] = bytes(len(copied[::4096]))
        os._exit(not (copied[1:4096] == content[1:4096] and copied[::4096].count(0) == len(copied[::4096])))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert copied == content


def test_regions_are_whole_huge_pages_of_memory_without_a_file() -> None:
    regions = list(fork_server._private_regions())
    assert regions
    assert all(
        start % fork_server.HUGE_PAGE_BYTES == end % fork_server.HUGE_PAGE_BYTES == 0 < end - start
        for start, end in regions
    )


def test_a_kernel_that_refuses_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fork_server, "_COLLAPSE", 9999)
    fork_server.collapse_huge_pages()
    monkeypatch.setattr(fork_server, "_private_regions", lambda: (_ for _ in ()).throw(OSError("no /proc")))
    fork_server.collapse_huge_pages()
