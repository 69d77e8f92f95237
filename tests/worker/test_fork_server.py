"""A warm worker, and huge pages for the memory of a fork server."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpututor.judge.workers.pool import worker_environment
from gpututor.worker import fork_server

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/smaps")
ENABLED = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def huge_page_kib() -> int:
    return sum(map(int, re.findall(r"^AnonHugePages:\s+(\d+) kB", Path("/proc/self/smaps").read_text(), re.M)))


def has_huge_pages() -> bool:
    """Return true on Linux 6.1 and later with huge pages enabled."""
    major, minor = map(int, re.findall(r"\d+", os.uname().release)[:2])
    return (major, minor) >= (6, 1) and ENABLED.exists() and "[never]" not in ENABLED.read_text()


def test_huge_pages_keep_their_content_across_a_fork() -> None:
    content = random.Random(0).randbytes(16 << 20)
    copied, before = bytearray(content), huge_page_kib()
    fork_server.collapse_huge_pages()
    assert copied == content
    if has_huge_pages():
        assert huge_page_kib() >= before + (8 << 10)
    child = os.fork()
    if child == 0:
        copied[::4096] = bytes(len(copied[::4096]))
        os._exit(not (copied[1:4096] == content[1:4096] and copied[::4096].count(0) == len(copied[::4096])))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert copied == content


def test_regions_are_whole_huge_pages() -> None:
    regions = list(fork_server._private_regions())
    assert regions
    assert all(
        start % fork_server.HUGE_PAGE_BYTES == end % fork_server.HUGE_PAGE_BYTES == 0 < end - start
        for start, end in regions
    )


def test_a_kernel_without_huge_pages_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fork_server, "_COLLAPSE", 9999)
    fork_server.collapse_huge_pages()
    monkeypatch.setattr(fork_server, "_private_regions", lambda: (_ for _ in ()).throw(OSError("no /proc")))
    fork_server.collapse_huge_pages()


class ServedForker:
    """A server without children, in a thread; `events` are its answers and `imported`, in their order."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.events: list[object] = []
        self._imported = threading.Event()
        patch.setattr(fork_server, "_describe_devices_in_child", list)
        patch.setattr(fork_server, "import_more_modules", self._import)
        self._judge, control = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        forker = fork_server.Forker(control, own_namespace=False)
        patch.setattr(forker, "_end", lambda number: patch.setattr(forker, "_ended", forker._ended + 1))
        patch.setattr(forker, "_fork", lambda *_: forker._say({"forked": True}))
        self._thread = threading.Thread(target=forker.serve)
        self._thread.start()

    def ask(self, op: str) -> None:
        self._judge.sendall(json.dumps({"op": op, "number": 0, "scratch": ""}).encode())
        self.events.append(json.loads(self._judge.recv(1000)))

    def wait_for_import(self, seconds: float) -> bool:
        return self._imported.wait(seconds)

    def close(self) -> None:
        self._judge.close()
        self._thread.join()

    def _import(self) -> None:
        self.events.append("imported")
        self._imported.set()


@pytest.fixture
def forker(monkeypatch: pytest.MonkeyPatch) -> Iterator[ServedForker]:
    served = ServedForker(monkeypatch)
    yield served
    served.close()


def test_more_modules_are_imported_in_a_pause_after_a_child(
    forker: ServedForker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fork_server, "PAUSE_S", 0.01)
    forker.ask("fork")
    assert not forker.wait_for_import(0.2)  # the child may be running
    forker.ask("end")
    assert forker.wait_for_import(20)
    for _ in range(2 * fork_server.FIRST_CHILDREN):
        forker.ask("end")
    assert forker.events.count("imported") == 1


def test_without_a_pause_the_judge_waits_for_more_modules(
    forker: ServedForker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fork_server, "PAUSE_S", 60)
    for _ in range(fork_server.FIRST_CHILDREN - 1):
        forker.ask("end")
    assert "imported" not in forker.events
    forker.ask("end")
    assert forker.events[-2] == "imported"


@pytest.mark.parametrize(
    ("written", "code", "status"),
    [(b"3", 0, 3), (b"-11", 0, -11), (b"", 1, 1), (b"", -signal.SIGKILL, -signal.SIGKILL)],
)
def test_without_a_status_of_the_served_process_that_of_process_1_counts(
    written: bytes, code: int, status: int
) -> None:
    reader, writer = os.pipe()
    child = fork_server._Child(os.fork(), reader, own_namespace=True)
    if child.pid == 0:
        os.write(writer, written)
        if code < 0:
            os.kill(os.getpid(), -code)
        os._exit(code)
    os.close(writer)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert [child.status(), child.status()] == [status, status]
    os.waitpid(child.pid, 0)
    child.close()


WARM = "import os; from gpututor.worker.__main__ import warm_up; warm_up(); print(len(os.listdir('/proc/self/task')))"


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_a_warm_worker_has_one_thread_so_that_it_may_fork(tmp_path: Path) -> None:
    environment = worker_environment(tmp_path)
    done = subprocess.run([sys.executable, "-c", WARM], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "1\n"


def test_an_untested_torch_writes_nothing_into_a_learners_output() -> None:
    code = (
        "from gpututor.devices.virtual import options, virtual_gpu\n"
        "from gpututor.hardware.packages import Package\n"
        "from gpututor.worker.__main__ import warm_up\n"
        "options.TORCH = Package('PyTorch', '1.0', '1.1')\n"
        "warm_up()\n"
        "with virtual_gpu():\n    print('entered')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("entered\n", "")
