"""Workers forked from a server: the same verdicts, apart from each other, and nothing is left."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import tempfile
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gpututor.grading.client import GradingClient
from gpututor.grading.events import GradeRequest, GradingCancelled, GradingFinished, ScenarioStarted
from gpututor.grading.report import Outcome
from gpututor.judge.isolation import Isolation, Process
from gpututor.judge.isolation.bubblewrap import Bubblewrap
from gpututor.judge.workers import WorkerPool
from gpututor.judge.workers.fork_server import ForkServer
from gpututor.processes import children, descendants
from tests.support import rank_exercise as ranks
from tests.support.gradings import QUIET_FORKS, Grade, asked, failure, gone, grade_in, judge_of, time_limit
from tests.support.timeouts import wait_for
from tests.support.tiny_course import RIGHT, append, write_files

BOTH = (pytest.param("process", marks=pytest.mark.long), pytest.param("bubblewrap", marks=pytest.mark.isolation))
ISOLATIONS: dict[str, type[Isolation]] = {"process": Process, "bubblewrap": Bubblewrap}
KILLING = (signal.SIGSEGV, signal.SIGABRT, signal.SIGKILL, signal.SIGTERM)


@pytest.fixture(scope="module", params=BOTH)
def client(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GradingClient]:
    """Return a judge for each isolation."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GPUTUTOR_HOME", str(tmp_path_factory.mktemp("home")))
        client = GradingClient(isolation=request.param, workers="fork server")
        yield client
        client.close()


@pytest.fixture(scope="module", params=BOTH)
def pool(request: pytest.FixtureRequest) -> Iterator[WorkerPool]:
    """Return a pool in this process, without a judge."""
    source = ForkServer(ISOLATIONS[request.param]())
    yield WorkerPool(source)
    if source._server is not None:
        source._server.close()


def enclosed(test: Any) -> Any:
    """Run a test with a pool in bubblewrap only."""
    return pytest.mark.isolation(pytest.mark.parametrize("pool", ["bubblewrap"], indirect=True)(test))


def another(client: GradingClient) -> contextlib.closing[GradingClient]:
    """Return a new client with the same options."""
    isolation, workers = client._arguments[1::2]
    return contextlib.closing(GradingClient(isolation, workers))


def server_of(client: GradingClient) -> int:
    """Return the process id of the fork server: the judge's only child, or below bubblewrap's two."""
    (at,) = (child for child in children(judge_of(client)) if "fork_server" in command(child))
    while "bwrap" in Path(f"/proc/{at}/comm").read_text():
        at = children(at)[0]
    return at


def command(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()


def test_only_a_right_solution_passes_and_endless_loops_are_stopped(grade: Grade, exercise_folder: Path) -> None:
    report = grade(RIGHT)
    assert report.outcome is Outcome.PASSED
    assert report.environment.workers == "fork server"
    assert grade("def twice(number):\n    return 3 * number\n").outcome is Outcome.FAILED
    time_limit(exercise_folder, 1.0)
    report = grade("def twice(number):\n    while True:\n        pass\n")
    assert report.outcome is Outcome.TIMEOUT
    assert failure(report)[2] in (2, 3)


@pytest.mark.parametrize(
    ("end", "outcome", "words"),
    [
        *((f"os.kill(os.getpid(), {number})", Outcome.CRASHED, number.name) for number in KILLING),
        ("os._exit(139)", Outcome.ERROR, "exit status 139"),
    ],
)
def test_an_end_of_the_process_has_its_cause(grade: Grade, end: str, outcome: Outcome, words: str) -> None:
    report = grade(f"import os\n\ndef twice(number):\n    {end}\n")
    assert report.outcome is outcome
    assert words in failure(report)[1]


DAEMON = (
    "import os, signal\n\n\ndef twice(number):\n    if os.fork() == 0:\n        os.setsid()\n"
    "        if os.fork() == 0:\n            signal.pause()\n        os._exit(0)\n    return 2 * number\n"
)


@pytest.mark.parametrize(
    ("source", "outcome"), [(DAEMON, Outcome.PASSED), (QUIET_FORKS, Outcome.ERROR)], ids=["a daemon", "a fork bomb"]
)
def test_nothing_that_a_submission_started_is_left(
    grade: Grade, client: GradingClient, source: str, outcome: Outcome
) -> None:
    assert grade(source).outcome is outcome
    server = server_of(client)
    wait_for(lambda: len(children(server)) == 1)  # the next worker
    wait_for(lambda: len(list(Path(tempfile.gettempdir()).glob(f"gpututor-{judge_of(client)}-*"))) <= 1)


LEAVES_A_CHILD = """
import ctypes, os, time

def twice(number):
    if os.fork() == 0:
        ctypes.CDLL(None).prctl(15, b"left_over", 0, 0, 0)
        while True:
            time.sleep(0.001)
    return 2 * number
"""
LOOKS_AT_IT = """
import os, time
from pathlib import Path
from typing import Any
from gpututor.checks import value
from gpututor.processes import descendants

def states():
    stats = [Path(f"/proc/{pid}/stat").read_text() for pid in descendants(os.getpid())]
    return {stat.rpartition(")")[2].split()[0] for stat in stats if "(left_over)" in stat}

def expected(drawn, machine):
    until = time.monotonic() + 5
    while states() != {"T"} and time.monotonic() < until:
        time.sleep(0.01)
    return 2 * drawn["number"] if states() == {"T"} else f"they run: {states()}"

checks = [value(expected)]
"""
TWO_SCENARIOS = '[[scenario]]\nname = "one GPU"\ngpus = 1\n[[scenario]]\nname = "two GPUs"\ngpus = 2\n'


def test_left_processes_are_suspended_while_the_judge_computes(grade: Grade, exercise_folder: Path) -> None:
    (exercise_folder / "checks.py").write_text(LOOKS_AT_IT)
    append(exercise_folder / "exercise.toml", TWO_SCENARIOS)
    report = grade(LEAVES_A_CHILD)
    assert report.outcome is Outcome.PASSED, report.verdicts
    assert len(report.runs) == 2


@pytest.mark.long
def test_a_server_that_is_killed_is_started_anew(grade: Grade, client: GradingClient) -> None:
    assert grade(RIGHT).outcome is Outcome.PASSED
    before = server_of(client)
    os.kill(before, signal.SIGKILL)
    wait_for(lambda: gone(before))
    assert grade(RIGHT).outcome is Outcome.PASSED
    assert server_of(client) != before


@pytest.mark.long
def test_a_submission_whose_server_is_killed_is_graded_once_more(
    grade: Grade, client: GradingClient, exercise_folder: Path
) -> None:
    assert grade(RIGHT).outcome is Outcome.PASSED
    before = server_of(client)
    killed = False
    for event in client.grade(GradeRequest(str(exercise_folder), "import time\ntime.sleep(1)\n" + RIGHT, "a.py")):
        if isinstance(event, ScenarioStarted) and not killed:
            os.kill(before, signal.SIGKILL)
            killed = True
    assert killed
    assert isinstance(event, GradingFinished)
    assert event.report.outcome is Outcome.PASSED
    assert server_of(client) != before


def test_a_judge_that_is_killed_leaves_nothing(exercise_folder: Path, client: GradingClient, tmp_path: Path) -> None:
    with another(client) as other:
        source = "import os, signal\nif os.fork() == 0:\n    os.setsid()\n    signal.pause()\n" + RIGHT
        grade_in(other, exercise_folder, RIGHT)
        events = other.grade(GradeRequest(str(exercise_folder), source + "signal.pause()\n", "a.py"))
        next(events)
        judge = judge_of(other)
        wait_for(lambda: len(descendants(judge)) >= 3)
        family = descendants(judge)
        os.kill(judge, signal.SIGKILL)
        wait_for(lambda: all(gone(pid) for pid in family))


@pytest.mark.long
def test_a_judge_that_is_killed_leaves_no_server_that_was_stopped(client: GradingClient, exercise_folder: Path) -> None:
    with another(client) as other:
        grade_in(other, exercise_folder, RIGHT)
        server = server_of(other)
        os.kill(server, signal.SIGSTOP)
        os.kill(judge_of(other), signal.SIGKILL)
        wait_for(lambda: gone(server))


@pytest.mark.long
def test_cancel_while_the_server_still_starts(exercise_folder: Path, client: GradingClient) -> None:
    with another(client) as other:
        request = GradeRequest(str(exercise_folder), RIGHT, "a.py")
        threading.Timer(0.2, other.cancel).start()
        assert isinstance(list(other.grade(request))[-1], GradingCancelled)
        assert grade_in(other, exercise_folder, RIGHT).outcome is Outcome.PASSED


@pytest.mark.long
def test_two_at_once_share_neither_modules_nor_folders(pool: WorkerPool, exercise_folder: Path) -> None:
    pool.warm(2)
    first, second = pool.take(), pool.take()
    try:
        leaves = "import os, torch\ntorch.mark = 1\ntorch.set_default_dtype(torch.float64)\nopen('mark', 'w')\n"
        asked(first, exercise_folder, leaves + "open('/dev/shm/' + str(os.getppid()), 'w')\n" + RIGHT)
        prints = "import os, torch\nprint(hasattr(torch, 'mark'), torch.get_default_dtype(), os.listdir('.'))\n"
        assert asked(second, exercise_folder, prints + RIGHT).split("\n")[0] == "False torch.float32 ['a.py']"
    finally:
        pool.release(first)
        pool.release(second)


def test_each_worker_is_another_process(pool: WorkerPool) -> None:
    pids = []
    for _ in range(3):
        worker = pool.take()
        pids.append(worker.pid)
        pool.release(worker)
        wait_for(partial(gone, worker.pid))
    assert len(set(pids)) == 3


@enclosed
def test_the_next_worker_is_forked_while_one_is_used(pool: WorkerPool) -> None:
    worker = pool.take()
    (spare,) = pool._spares
    spare.wait_until_ready()
    pool.release(worker)
    following = pool.take()
    assert following.pid == spare.pid != worker.pid
    pool.release(following)


@pytest.mark.parametrize("pool", ["process"], indirect=True)
def test_a_submission_that_sees_other_processes_meets_no_spare(pool: WorkerPool) -> None:
    worker = pool.take()
    assert pool._spares == []
    pool.release(worker)
    assert len(pool._spares) == 1


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
view = {
    "user namespace": refused(unshare, 0x10000000),
    "mount namespace": refused(unshare, 0x00020000),
    "other processes": refused(os.kill, -1, signal.SIGKILL),
    "capabilities": sum(capabilities()),
    "bounding set": sum(libc.prctl(23, number, 0, 0, 0) == 1 for number in range(64)),
    "no new privileges": libc.prctl(39, 0, 0, 0, 0),
    "shared memory": os.listdir("/dev/shm"),
    "root": refused(open, "/x", "w"),
    "dev": refused(open, "/dev/x", "w"),
    "proc": sorted(os.listdir("/proc")),
    "write to proc": refused(open, "/proc/x", "w"),
    "descriptors": [at for at in range(3, 64) if refused(os.fstat, at) == "allowed"],
}
open("/dev/shm/left", "w"), open("left", "w")
print(json.dumps(view))
"""


@enclosed
def test_a_child_in_bubblewrap_has_no_rights_and_sees_no_other(pool: WorkerPool, exercise_folder: Path) -> None:
    pool.warm(2)
    for _ in range(2):
        worker, bystander = pool.take(), pool.take()
        view = json.loads(asked(worker, exercise_folder, LOOKS + RIGHT).splitlines()[0])
        bystander.check()
        assert view["user namespace"] == view["mount namespace"] == "PermissionError"
        assert view["other processes"] == "ProcessLookupError"
        assert view["capabilities"] == view["bounding set"] == 0
        assert view["no new privileges"] == 1
        assert view["shared memory"] == []
        assert view["root"] == view["dev"] == view["write to proc"] == "OSError"
        assert view["proc"] == ["cpuinfo", "meminfo", "stat", "version"]
        assert len(view["descriptors"]) == 2
        pool.release(worker)
        pool.release(bystander)


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
    print("connected")
except ConnectionRefusedError:
    print("refused")
"""


@pytest.mark.long
@enclosed
def test_each_child_in_bubblewrap_has_its_own_loopback(pool: WorkerPool, exercise_folder: Path) -> None:
    pool.warm(2)
    listener, visitor = pool.take(), pool.take()
    port = asked(listener, exercise_folder, LISTENS + RIGHT).splitlines()[0]
    printed = asked(visitor, exercise_folder, CONNECTS.replace("@port@", port) + RIGHT)
    assert printed.splitlines()[0] == "refused"
    pool.release(listener)
    pool.release(visitor)


@pytest.mark.long
@pytest.mark.isolation
@pytest.mark.parametrize("client", ["bubblewrap"], indirect=True)
def test_ranks_in_bubblewrap_use_the_loopback(client: GradingClient, exercise_folder: Path) -> None:
    write_files(exercise_folder, ranks.FILES)
    report = grade_in(client, exercise_folder, ranks.RIGHT)
    assert report.outcome is Outcome.PASSED, report.first_failure


@pytest.mark.long
@pytest.mark.isolation
def test_a_child_whose_first_process_is_killed_counts_as_killed() -> None:
    """A signal from inside does not reach process 1 of a namespace."""
    source = ForkServer(Bubblewrap())
    pool = WorkerPool(source)
    worker = pool.take()
    (first,) = children(worker.pid)
    os.kill(first, signal.SIGKILL)
    try:
        assert worker.exit_status() == -signal.SIGKILL
    finally:
        pool.kill_all()
