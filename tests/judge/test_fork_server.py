"""Workers forked from a server are as good as others: the same verdicts, apart from each other, and nothing is left."""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpututor.grading.client import GradingClient
from gpututor.grading.events import GradeRequest, GradingCancelled, GradingFinished, ScenarioStarted
from gpututor.grading.report import Outcome
from gpututor.judge.isolation import Isolation, Process
from gpututor.judge.isolation.bubblewrap import Bubblewrap
from gpututor.judge.workers import WorkerPool
from gpututor.judge.workers.fork_server import ForkServer
from gpututor.processes import children, descendants
from tests.support.gradings import QUIET_FORKS, Grade, asked, failure, gone, time_limit, wait_for
from tests.support.tiny_course import RIGHT

BOTH = (pytest.param("process", marks=pytest.mark.long), pytest.param("bubblewrap", marks=pytest.mark.isolation))
ISOLATIONS: dict[str, type[Isolation]] = {"process": Process, "bubblewrap": Bubblewrap}


@pytest.fixture(scope="module", params=BOTH)
def client(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GradingClient]:
    """One judge for each isolation."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GPUTUTOR_HOME", str(tmp_path_factory.mktemp("home")))
        client = GradingClient(isolation=request.param, workers="fork server")
        yield client
        client.close()


@pytest.fixture(scope="module", params=BOTH)
def pool(request: pytest.FixtureRequest) -> Iterator[WorkerPool]:
    """Without a judge's process around it."""
    source = ForkServer(ISOLATIONS[request.param]())
    yield WorkerPool(source)
    if source._server is not None:
        source._server.close()


def server_of(client: GradingClient) -> int:
    """The process id of its fork server: the judge's only child, or below bubblewrap's two."""
    assert client._judge is not None
    (at,) = (child for child in children(client._judge.pid) if "fork_server" in command(child))
    while "bwrap" in Path(f"/proc/{at}/comm").read_text():
        at = children(at)[0]
    return at


def command(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()


def test_a_right_solution_passes_and_the_report_names_the_source(grade: Grade) -> None:
    report = grade(RIGHT)

    assert report.outcome is Outcome.PASSED
    assert report.environment.workers == "fork server"


def test_a_wrong_one_fails(grade: Grade) -> None:
    assert grade("def twice(number):\n    return 3 * number\n").outcome is Outcome.FAILED


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGABRT", "SIGKILL", "SIGTERM"])
def test_a_crash_names_its_signal(grade: Grade, name: str) -> None:
    report = grade(f"import os, signal\n\ndef twice(number):\n    os.kill(os.getpid(), signal.{name})\n")

    assert report.outcome is Outcome.CRASHED
    assert name in failure(report)[1]


def test_an_early_exit_names_its_status(grade: Grade) -> None:
    report = grade("import os\n\ndef twice(number):\n    os._exit(139)\n")

    assert report.outcome is Outcome.ERROR
    assert "exit status 139" in failure(report)[1]


def test_an_endless_loop_is_stopped_and_its_line_told(grade: Grade, exercise_folder: Path) -> None:
    time_limit(exercise_folder, 1.0)

    report = grade("def twice(number):\n    while True:\n        pass\n")

    assert report.outcome is Outcome.TIMEOUT
    assert failure(report)[2] in (2, 3)


def test_nothing_that_a_submission_started_is_left(grade: Grade, client: GradingClient) -> None:
    report = grade(
        "import os, signal\n\n\ndef twice(number):\n    if os.fork() == 0:\n        os.setsid()\n"
        "        if os.fork() == 0:\n            signal.pause()\n        os._exit(0)\n    return 2 * number\n"
    )

    assert report.outcome is Outcome.PASSED
    server = server_of(client)
    wait_for(lambda: len(children(server)) == 1)  # the next worker
    assert client._judge is not None
    wait_for(lambda: len(list(Path(tempfile.gettempdir()).glob(f"gpututor-{client._judge.pid}-*"))) <= 1)


def test_a_fork_bomb_ends_with_a_verdict_and_leaves_nothing(grade: Grade, client: GradingClient) -> None:
    report = grade(QUIET_FORKS)

    assert report.outcome is Outcome.ERROR
    assert "it was stopped" in failure(report)[1]
    server = server_of(client)
    wait_for(lambda: len(children(server)) == 1)
    assert grade(RIGHT).outcome is Outcome.PASSED


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
from gpututor.checks import value
from gpututor.processes import descendants

def states():
    stats = [Path(f"/proc/{pid}/stat").read_text() for pid in descendants(os.getpid())]
    return {stat.rpartition(")")[2].split()[0] for stat in stats if "(left_over)" in stat}

def expected(drawn, machine):
    until = time.monotonic() + 5
    while states() != {"T"} and time.monotonic() < until:
        time.sleep(0.01)
    return 2 * drawn["number"] if states() == {"T"} else f"they do not stand still: {states()}"

checks = [value(expected)]
"""


def test_what_a_submission_left_running_stands_still_while_the_judge_computes(
    grade: Grade, exercise_folder: Path
) -> None:
    (exercise_folder / "checks.py").write_text(LOOKS_AT_IT)
    with (exercise_folder / "exercise.toml").open("a") as manifest:
        manifest.write('[[scenario]]\nname = "one GPU"\ngpus = 1\n[[scenario]]\nname = "two GPUs"\ngpus = 2\n')

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
    with contextlib.ExitStack() as stack:
        other = GradingClient(*client._arguments[1::2])
        stack.callback(other.close)
        source = "import os, signal\nif os.fork() == 0:\n    os.setsid()\n    signal.pause()\n" + RIGHT
        list(other.grade(GradeRequest(str(exercise_folder), RIGHT, "a.py")))
        events = other.grade(GradeRequest(str(exercise_folder), source + "signal.pause()\n", "a.py"))
        next(events)
        assert other._judge is not None
        judge = other._judge.pid
        wait_for(lambda: len(descendants(judge)) >= 3)
        family = descendants(judge)

        os.kill(judge, signal.SIGKILL)

        wait_for(lambda: all(gone(pid) for pid in family))


@pytest.mark.long
def test_a_judge_that_is_killed_leaves_no_server_that_was_stopped(client: GradingClient, exercise_folder: Path) -> None:
    other = GradingClient(*client._arguments[1::2])
    try:
        list(other.grade(GradeRequest(str(exercise_folder), RIGHT, "a.py")))
        server = server_of(other)
        assert other._judge is not None
        os.kill(server, signal.SIGSTOP)

        os.kill(other._judge.pid, signal.SIGKILL)

        wait_for(lambda: gone(server))
    finally:
        other.close()


@pytest.mark.long
def test_cancel_while_the_server_still_starts(exercise_folder: Path, client: GradingClient) -> None:
    with contextlib.ExitStack() as stack:
        other = GradingClient(*client._arguments[1::2])
        stack.callback(other.close)
        request = GradeRequest(str(exercise_folder), RIGHT, "a.py")
        threading.Timer(0.2, other.cancel).start()
        assert isinstance(list(other.grade(request))[-1], GradingCancelled)

        end = list(other.grade(request))[-1]

        assert isinstance(end, GradingFinished)
        assert end.report.outcome is Outcome.PASSED


@pytest.mark.long
def test_two_at_once_share_neither_modules_nor_folders(pool: WorkerPool, exercise_folder: Path) -> None:
    pool.warm(2)
    first, second = pool.take(), pool.take()
    try:
        marks = "import os, torch\ntorch.mark = 1\ntorch.set_default_dtype(torch.float64)\nopen('mark', 'w')\n"
        asked(first, exercise_folder, marks + "open('/dev/shm/' + str(os.getppid()), 'w')\n" + RIGHT)
        looks = "import os, torch\nprint(hasattr(torch, 'mark'), torch.get_default_dtype(), os.listdir('.'))\n"

        assert asked(second, exercise_folder, looks + RIGHT).split("\n")[0] == "False torch.float32 ['a.py']"
    finally:
        pool.release(first)
        pool.release(second)


def test_each_worker_is_another_process(pool: WorkerPool) -> None:
    pids = []
    for _ in range(3):
        worker = pool.take()
        pids.append(worker.pid)
        pool.release(worker)
        wait_for(lambda pid=worker.pid: gone(pid))

    assert len(set(pids)) == 3
