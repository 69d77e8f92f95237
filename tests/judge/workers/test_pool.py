"""Pools and sources of workers: each worker starts with its filters, and nothing stays open."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpututor.errors import GradingError, NotGradableHere
from gpututor.judge.isolation import Isolation, Process
from gpututor.judge.isolation.bubblewrap import Bubblewrap
from gpututor.judge.workers import fork_server, pool
from gpututor.judge.workers.fork_server import ForkServer, _Server
from gpututor.judge.workers.pool import SpawnedWorkers
from gpututor.judge.workers.worker import PREFIX, WorkerLost
from gpututor.worker import seccomp

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc/self/fd")
Source = type[SpawnedWorkers | ForkServer]
SOURCES = [SpawnedWorkers, ForkServer]


@pytest.fixture(autouse=True)
def keep_other_children(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the pool from reaping this process's other children."""
    for module in (pool, fork_server):
        monkeypatch.setattr(module, "reap_orphans", lambda keep: None)


class Nowhere(Process):
    """An isolation whose command does not exist."""

    def command(self, module: str, *arguments: str) -> list[str]:
        return ["/nowhere/python", module, *arguments]


class Never(Process):
    """An isolation that does not work here."""

    def command(self, module: str, *arguments: str) -> list[str]:
        raise NotGradableHere("Never.", "")


REFUSE_TWICE = """
import os, sys
from gpututor.worker import fork_server
fork, refuses = os.fork, [False, True, True]  # the first fork describes the devices
def fork_or_refuse():
    if refuses and refuses.pop(0):
        raise OSError(12, "Cannot allocate memory")
    return fork()
os.fork = fork_or_refuse
sys.exit(fork_server.main())
"""


class RefuseTwice(Process):
    """An isolation in which the fork server's first two forks are refused."""

    def command(self, module: str, *arguments: str) -> list[str]:
        return [sys.executable, "-u", "-c", REFUSE_TWICE, *arguments]


def open_resources() -> tuple[list[str], list[str]]:
    """Return the files that this process has open, and its scratch folders."""
    opened = [os.readlink(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd") if is_open(int(name))]
    return sorted(opened), sorted(path.name for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}{os.getpid()}-*"))


def is_open(descriptor: int) -> bool:
    """Return False for the descriptor that listed the others, which is closed."""
    with contextlib.suppress(OSError):
        os.fstat(descriptor)
        return True
    return False


@contextlib.contextmanager
def nothing_stays_open() -> Iterator[None]:
    before = open_resources()
    yield
    assert open_resources() == before


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize(("isolation", "error"), [(Nowhere, GradingError), (Never, NotGradableHere)])
def test_a_failed_start_leaves_nothing_open(
    source: Source, isolation: Callable[[], Isolation], error: type[Exception]
) -> None:
    workers = source(isolation())
    for _ in range(3):
        with nothing_stays_open(), pytest.raises(error):
            workers.start()


@pytest.mark.parametrize("what", ["socketpair", "pipe", "second pipe", "selector"])
def test_a_limit_of_open_files_leaves_nothing_open(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    allowed = ["pipe"] * (what == "second pipe")
    real = os.pipe

    def refuses(*arguments: object) -> tuple[int, int]:
        if allowed:
            allowed.pop()
            return real()
        raise OSError(24, "Too many open files")

    places = {"socketpair": "socket.socketpair", "selector": "selectors.DefaultSelector"}
    monkeypatch.setattr(places.get(what, "os.pipe"), refuses)
    with nothing_stays_open(), pytest.raises(GradingError):
        SpawnedWorkers(Process()).start()


def test_a_lost_fork_server_leaves_nothing_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Server, "is_dead", lambda self: False)  # it ends right after the check
    source = ForkServer(Process())
    with nothing_stays_open():
        source._server = server = _Server(Process())
        server.process.kill()
        server.process.wait()
        for _ in range(2):
            with pytest.raises(WorkerLost):
                source.start()
        monkeypatch.undo()
        server.close()


def test_refused_forks_are_reported_and_leave_nothing_open() -> None:
    source = ForkServer(RefuseTwice())
    with nothing_stays_open():
        refused, spare = source.start(), source.start()
        with pytest.raises(GradingError, match="Cannot allocate memory"):
            refused.wait_until_ready()
        refused.end(set())
        worker = source.start()
        worker.wait_until_ready()
        spare.end(set())  # the server's refusal has arrived meanwhile
        worker.end(set())
        assert source._server is not None
        assert not source._server._children
        source._server.close()


@pytest.mark.isolation
def test_a_worker_whose_namespaces_cannot_be_made_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    source, nowhere = ForkServer(Bubblewrap()), Path("/nowhere")
    with nothing_stays_open():
        monkeypatch.setattr(Bubblewrap, "own_scratch", nowhere)
        worker = source.start()
        with pytest.raises(GradingError, match="could not bind the root: No such file or directory"):
            worker.wait_until_ready()
        worker.end(set())
        assert source._server is not None
        source._server.close()


@pytest.mark.parametrize("source", SOURCES)
def test_a_ready_worker_has_its_filters_and_leaves_nothing_open(source: Source) -> None:
    workers = source(Process())
    with nothing_stays_open():
        worker = workers.start()
        try:
            worker.wait_until_ready()
            accelerated = any(device["kind"] != "cpu" for device in worker.devices)
            assert filters(worker.pid) == filters(os.getpid()) + (1 if accelerated else 2)
        finally:
            worker.end(set())
            if isinstance(workers, ForkServer) and workers._server is not None:
                workers._server.close()


def filters(pid: int) -> int:
    """Return the number of seccomp filters of a process, with inherited ones."""
    if seccomp._processor() is None:
        pytest.skip("no filters on this processor")
    match = re.search(r"^Seccomp_filters:\s*(\d+)", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    if match is None:
        pytest.skip("this kernel does not count filters")
    return int(match[1])


def test_a_dead_worker_keeps_its_id_until_it_is_reaped() -> None:
    """Otherwise a signal to it could reach another process with the same id."""
    worker = SpawnedWorkers(Process()).start()
    worker.kill()
    assert worker.exit_status() == -signal.SIGKILL
    assert Path(f"/proc/{worker.pid}").exists()
    worker.end(set())
    assert not Path(f"/proc/{worker.pid}").exists()
    worker.kill()
