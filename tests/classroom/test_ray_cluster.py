"""A class on a real Ray cluster: killed workers, nodes, raylets and heads lose no grading and repeat none.

Needs the extra `ray`, which `make test-all` installs.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpututor.classroom.executors.ray import RETRIES
from gpututor.classroom.folder import ClassFolder
from gpututor.errors import GradingError
from gpututor.processes import descendants
from tests.support import ROOT, timeouts
from tests.support.big_class import SECRET, big_class
from tests.support.big_class_assertions import check_graded_alike
from tests.support.big_class_layouts import lay_out
from tests.support.class_gradings import check_graded, grading, output_of, wait_for, written
from tests.support.ray_nodes import Nodes, two_nodes, workers
from tests.support.tiny_course import write_course

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(900),
    pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc"),
]

STUDENTS = 24
SUBMISSIONS = 100
WITHIN_S = 300.0


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_course(tmp_path_factory.mktemp("course") / "tiny", exercises=2)


@pytest.fixture(scope="module")
def submissions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, chance = tmp_path_factory.mktemp("class"), random.Random(8)
    for number in range(STUDENTS):
        path = folder / f"student_{number:02}" / f"twice_1_{1 + number % 2}.py"
        path.parent.mkdir()
        answer = chance.choice(("2 * number", "number", "number * number", "None", "undefined"))
        # Every sixth text may be the same as another.
        path.write_text(f"def twice(number):\n    return {answer}\n" + (f"# {number}\n" if number % 6 else ""))
    return folder


@pytest.fixture(scope="module")
def graded_locally(course: Path, submissions: Path, tmp_path_factory: pytest.TempPathFactory) -> ClassFolder:
    folder = ClassFolder(tmp_path_factory.mktemp("local"))
    with grading(submissions, folder, "--course", str(course)) as process:
        assert process.wait(WITHIN_S) == 0, output_of(folder).read_text()
    return folder


@pytest.fixture
def nodes() -> Iterator[Nodes]:
    with two_nodes() as started:
        yield started


def kill_a_worker(process: subprocess.Popen[bytes], chance: random.Random) -> bool:
    """Kill a worker of Ray that grades; return False if there is none before the class is graded."""
    deadline = time.monotonic() + WITHIN_S
    while process.poll() is None and time.monotonic() < deadline:
        if pids := workers(os.getpid()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(chance.choice(pids), signal.SIGKILL)
                return True
        time.sleep(0.02)
    return False


def test_killed_workers_and_a_killed_node_cost_a_big_class_nothing(nodes: Nodes, tmp_path: Path) -> None:
    big, chance = big_class(tmp_path / "course", SUBMISSIONS), random.Random(8)
    secret = tmp_path / "class.secret"
    secret.write_text(f"{SECRET}\n")
    options = ["--course", str(big.course.folder), "--secret", str(secret)]
    source = lay_out(big, "folders", tmp_path / "in")
    local, on_nodes = ClassFolder(tmp_path / "local"), ClassFolder(tmp_path / "on nodes")
    local.folder.mkdir()
    on_nodes.folder.mkdir()

    with grading(source, local, *options) as process:
        assert process.wait() == 0, output_of(local).read_text()
    with grading(source, on_nodes, *options, "--executor", "ray", "--address", nodes.address) as process:
        for _ in range(3):
            assert wait_for(process, on_nodes, 10), output_of(on_nodes).read_text()
            assert kill_a_worker(process, chance), output_of(on_nodes).read_text()
        assert wait_for(process, on_nodes, 10), output_of(on_nodes).read_text()
        nodes.kill_second()
        assert process.wait() == 0, output_of(on_nodes).read_text()

    assert "(raylet)" not in output_of(on_nodes).read_text()
    check_graded_alike(big, local, on_nodes)


@pytest.mark.parametrize("kill", [Nodes.kill_raylet, Nodes.kill_head])
def test_a_dead_head_or_raylet_loses_nothing(
    course: Path,
    submissions: Path,
    graded_locally: ClassFolder,
    nodes: Nodes,
    tmp_path: Path,
    kill: Callable[[Nodes], None],
) -> None:
    folder = ClassFolder(tmp_path)
    more = ["--course", str(course), "--secret", str(graded_locally.secret_file)]
    with grading(submissions, folder, *more, "--executor", "ray", "--address", nodes.address) as process:
        assert wait_for(process, folder, 2), output_of(folder).read_text()
        kill(nodes)
        code = process.wait(WITHIN_S)
    # The class may be graded before Ray notices the loss.
    assert code in (0, GradingError.exit_code), output_of(folder).read_text()
    if code:
        assert "--resume" in output_of(folder).read_text()
        with grading(submissions, folder, "--course", str(course), "--resume") as process:
            assert process.wait(WITHIN_S) == 0, output_of(folder).read_text()
    check_graded(folder, graded_locally, STUDENTS)


def test_sigterm_ends_its_own_cluster_and_resume_continues(
    course: Path, submissions: Path, graded_locally: ClassFolder, tmp_path: Path
) -> None:
    folder = ClassFolder(tmp_path)
    more = ["--course", str(course), "--executor", "ray", "--judges", "1"]
    with grading(submissions, folder, *more, "--secret", str(graded_locally.secret_file)) as process:
        assert wait_for(process, folder, 2), output_of(folder).read_text()
        family = descendants(process.pid)
        assert workers(process.pid)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 130, output_of(folder).read_text()
    timeouts.wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in family))
    assert "--resume --executor ray" in output_of(folder).read_text()
    already = written(folder)
    with grading(submissions, folder, *more, "--resume") as process:
        assert process.wait(WITHIN_S) == 0, output_of(folder).read_text()
    assert f"{already} are graded already" in output_of(folder).read_text()
    check_graded(folder, graded_locally, STUDENTS)


def test_each_task_has_its_own_process_and_is_retried() -> None:
    command = [sys.executable, "-m", "tests.support.ray_requests"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout.splitlines()[-1])
    assert [bool(devices) and devices.count(",") + 1 for _, devices in answer["tasks"]] == [1, 2, False, 1]
    assert len({pid for pid, _ in answer["tasks"]}) == 4
    assert answer["runs"] == 1 + RETRIES == 3
    assert "WorkerCrashedError" in answer["lost"]
