"""Both sources of workers: each comes with its filters; none leaves anything open, whether it comes to be or not."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpututor.errors import GradingError, NotGradableHere
from gpututor.judge.isolation import Isolation, Process
from gpututor.judge.workers import fork_server, pool
from gpututor.judge.workers.fork_server import ForkServer, _Server
from gpututor.judge.workers.pool import SpawnedWorkers
from gpututor.judge.workers.worker import PREFIX, WorkerLost
from gpututor.worker import seccomp

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts what is open in /proc")

Source = type[SpawnedWorkers | ForkServer]
SOURCES = [SpawnedWorkers, ForkServer]


@pytest.fixture(autouse=True)
def _other_children_live_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """A judge takes all its children for its workers'; this process has others."""
    for module in (pool, fork_server):
        monkeypatch.setattr(module, "reap_orphans", lambda keep: None)


class Nowhere(Process):
    """Where nothing can be started."""

    def command(self, module: str, *arguments: str) -> list[str]:
        return ["/nowhere/python", module, *arguments]


class Never(Process):
    """Where nothing is to be started."""

    def command(self, module: str, *arguments: str) -> list[str]:
        raise NotGradableHere("Never.", "")


def held() -> tuple[list[str], list[str]]:
    """What this process has open, and the scratch folders that it made."""
    opened = [os.readlink(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd") if is_open(int(name))]
    return sorted(opened), sorted(path.name for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}{os.getpid()}-*"))


def is_open(descriptor: int) -> bool:
    """The one that lists them is not, any more."""
    with contextlib.suppress(OSError):
        os.fstat(descriptor)
        return True
    return False


@contextlib.contextmanager
def nothing_more_held() -> Iterator[None]:
    before = held()
    yield
    assert held() == before


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize(("isolation", "error"), [(Nowhere, GradingError), (Never, NotGradableHere)])
def test_what_cannot_be_started_leaves_nothing_open(
    source: Source, isolation: Callable[[], Isolation], error: type[Exception]
) -> None:
    workers = source(isolation())
    for _ in range(3):
        with nothing_more_held(), pytest.raises(error):
            workers.start()


@pytest.mark.parametrize("what", ["socketpair", "pipe", "second pipe", "selector"])
def test_where_no_more_can_be_opened_nothing_stays_open(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    allowed = ["pipe"] * (what == "second pipe")
    real = os.pipe

    def refuses(*arguments: object) -> tuple[int, int]:
        if allowed:
            allowed.pop()
            return real()
        raise OSError(24, "Too many open files")

    places = {"socketpair": "socket.socketpair", "selector": "selectors.DefaultSelector"}
    monkeypatch.setattr(places.get(what, "os.pipe"), refuses)

    with nothing_more_held(), pytest.raises(GradingError, match="Too many open files"):
        SpawnedWorkers(Process()).start()


def test_a_fork_server_that_is_gone_leaves_nothing_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Server, "is_dead", lambda self: False)  # it goes just after it was looked at
    source = ForkServer(Process())
    with nothing_more_held():
        source._server = server = _Server(Process())
        server.process.kill()
        server.process.wait()
        for _ in range(2):
            with pytest.raises(WorkerLost):
                source.start()
        monkeypatch.undo()
        server.close()


@pytest.mark.parametrize("source", SOURCES)
def test_a_worker_has_its_filters_when_it_is_ready_and_leaves_nothing_open(source: Source) -> None:
    workers = source(Process())
    with nothing_more_held():
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
    """How many programs look at the system calls of a process; who is born to it inherits them."""
    if seccomp._processor() is None:
        pytest.skip("nothing is refused on this kind of machine")
    found = re.search(r"^Seccomp_filters:\s*(\d+)", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    if found is None:
        pytest.skip("this kernel does not count them")
    return int(found[1])


def test_a_worker_that_died_keeps_its_id_until_it_is_collected() -> None:
    """Else the signals that end it could reach who has that id by then."""
    worker = SpawnedWorkers(Process()).start()
    worker.kill()

    assert worker.exit_status() == -signal.SIGKILL
    assert Path(f"/proc/{worker.pid}").exists()
    worker.end(set())

    assert not Path(f"/proc/{worker.pid}").exists()
    worker.kill()
