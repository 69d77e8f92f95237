"""Children of a fork server in bubblewrap have no rights and meet nobody, each other least of all."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from gpututor.grading.client import GradingClient
from gpututor.grading.events import GradeRequest, GradingFinished
from gpututor.grading.report import Outcome
from gpututor.judge.isolation.bubblewrap import Bubblewrap
from gpututor.judge.workers import WorkerPool
from gpututor.judge.workers.fork_server import ForkServer
from gpututor.processes import children
from tests.support import rank_exercise as ranks
from tests.support.gradings import asked
from tests.support.tiny_course import RIGHT

LOOKS = """
import ctypes, json, os, signal
def refused(what, *arguments):
    try:
        what(*arguments)
    except OSError as error:
        return type(error).__name__
    return "allowed"
libc = ctypes.CDLL(None, use_errno=True)
def unshare(flags):
    if libc.unshare(flags):
        raise OSError(ctypes.get_errno(), "unshare")
def capabilities():
    sets = (ctypes.c_uint32 * 6)()
    assert libc.capget((ctypes.c_uint32 * 2)(0x20080522, 0), sets) == 0
    return list(sets)
found = {
    "user namespace": refused(unshare, 0x10000000),
    "mount namespace": refused(unshare, 0x00020000),
    "other processes": refused(os.kill, -1, signal.SIGKILL),
    "capabilities": sum(capabilities()),
    "bounding set": sum(libc.prctl(23, number, 0, 0, 0) == 1 for number in range(64)),
    "no new privileges": libc.prctl(39, 0, 0, 0, 0),
    "shared memory": os.listdir("/dev/shm"),
    "root": refused(open, "/x", "w"),
    "tmp": refused(open, "/dev/x", "w"),
    "proc": sorted(os.listdir("/proc")),
    "write to proc": refused(open, "/proc/x", "w"),
    "descriptors": [at for at in range(3, 64) if refused(os.fstat, at) == "allowed"],
}
open("/dev/shm/left", "w"), open("left", "w")
print(json.dumps(found))
"""


@pytest.mark.isolation
def test_inside_bubblewrap_a_child_has_no_rights_and_meets_nobody(exercise_folder: Path) -> None:
    source = ForkServer(Bubblewrap())
    pool = WorkerPool(source)
    pool.warm(2)
    for _ in range(2):
        worker, bystander = pool.take(), pool.take()
        found = json.loads(asked(worker, exercise_folder, LOOKS + RIGHT).splitlines()[0])

        bystander.check()
        assert found["user namespace"] == found["mount namespace"] == "PermissionError"
        assert found["other processes"] == "ProcessLookupError"
        assert found["capabilities"] == found["bounding set"] == 0
        assert found["no new privileges"] == 1
        assert found["shared memory"] == []
        assert found["root"] == found["tmp"] == found["write to proc"] == "OSError"
        assert found["proc"] == ["cpuinfo", "meminfo", "stat", "version"]
        assert len(found["descriptors"]) == 2
        pool.release(worker)
        pool.release(bystander)
    assert source._server is not None
    source._server.close()


LISTENS = """
import socket
listener = socket.create_server(("127.0.0.1", 0))
socket.create_connection(listener.getsockname(), 5.0).close()
print(listener.getsockname()[1])
"""
CONNECTS = """
import socket
try:
    socket.create_connection(("127.0.0.1", @port@), 5.0)
    print("there is somebody")
except ConnectionRefusedError:
    print("nobody is there")
"""


@pytest.mark.long
@pytest.mark.isolation
def test_inside_bubblewrap_each_child_has_a_loopback_of_its_own(exercise_folder: Path) -> None:
    source = ForkServer(Bubblewrap())
    pool = WorkerPool(source)
    pool.warm(2)
    one, other = pool.take(), pool.take()

    port = asked(one, exercise_folder, LISTENS + RIGHT).splitlines()[0]
    said = asked(other, exercise_folder, CONNECTS.replace("@port@", port) + RIGHT)

    assert said.splitlines()[0] == "nobody is there"
    pool.release(one)
    pool.release(other)
    assert source._server is not None
    source._server.close()


@pytest.mark.long
@pytest.mark.isolation
def test_inside_bubblewrap_ranks_talk_over_that_loopback(exercise_folder: Path) -> None:
    for name, text in {"exercise.toml": ranks.MANIFEST, "given.py": ranks.GIVEN, "checks.py": ranks.CHECKS}.items():
        (exercise_folder / name).write_text(text)
    client = GradingClient("bubblewrap", workers="fork server")
    try:
        *_, end = client.grade(GradeRequest(str(exercise_folder), ranks.RIGHT, "a.py"))
    finally:
        client.close()

    assert isinstance(end, GradingFinished)
    assert end.report.outcome is Outcome.PASSED, end.report.first_failure


@pytest.mark.long
@pytest.mark.isolation
def test_a_child_whose_first_process_is_killed_from_outside_was_killed() -> None:
    """From inside nobody can: process 1 of a namespace hears no signal of its own."""
    source = ForkServer(Bubblewrap())
    pool = WorkerPool(source)
    worker = pool.take()
    (first,) = children(worker.pid)
    os.kill(first, signal.SIGKILL)
    try:
        assert worker.exit_status() == -signal.SIGKILL
    finally:
        pool.kill_all()
