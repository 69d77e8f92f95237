"""A class on a real Ray cluster of two nodes: workers and a node are killed, and nothing is lost or graded twice.

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
from functools import partial
from pathlib import Path

import pytest

from gpututor.classroom.executors.ray import RETRIES
from gpututor.classroom.folder import ClassFolder
from gpututor.classroom.jobs import read_failures
from gpututor.errors import GradingError
from gpututor.grading.journal import Entry, entries
from gpututor.processes import descendants
from tests.support import ROOT
from tests.support.classes import reports_of
from tests.support.ray_nodes import Nodes, two_nodes, workers
from tests.support.tiny_course import write_course

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(900),
    pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc"),
]

STUDENTS = 24
WITHIN_S = 300.0


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_course(tmp_path_factory.mktemp("course") / "tiny", exercises=2)


@pytest.fixture(scope="module")
def handed_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, chance = tmp_path_factory.mktemp("class"), random.Random(8)
    for number in range(STUDENTS):
        path = folder / f"student_{number:02}" / f"twice_1_{1 + number % 2}.py"
        path.parent.mkdir()
        answer = chance.choice(("2 * number", "number", "number * number", "None", "undefined"))
        # Every sixth is the same text as another.
        path.write_text(f"def twice(number):\n    return {answer}\n" + (f"# {number}\n" if number % 6 else ""))
    return folder


@pytest.fixture(scope="module")
def by_local(course: Path, handed_in: Path, tmp_path_factory: pytest.TempPathFactory) -> ClassFolder:
    folder = ClassFolder(tmp_path_factory.mktemp("local"))
    with grading(course, handed_in, folder, "--executor", "local", "--judges", "2") as process:
        assert process.wait(WITHIN_S) == 0, said(folder)
    return folder


@pytest.fixture
def nodes() -> Iterator[Nodes]:
    with two_nodes() as found:
        yield found


@contextlib.contextmanager
def grading(course: Path, handed_in: Path, folder: ClassFolder, *more: str) -> Iterator[subprocess.Popen[bytes]]:
    """Grade where a file has the name of a package: nothing may be imported from the current folder."""
    here = folder.folder / "here"
    here.mkdir(exist_ok=True)
    (here / "gpututor.py").write_text("raise SystemExit('imported from the current folder')\n")
    command = [sys.executable, "-P", "-m", "gpututor", "classroom", "grade", str(handed_in)]
    command += ["--out", str(folder.folder)]
    options = ["--isolation", "process", "--device", "virtual", "--course", str(course)]
    with (
        (folder.folder / "output.txt").open("ab") as output,
        subprocess.Popen([*command, *options, *more], stdout=output, stderr=output, cwd=here) as process,
    ):
        try:
            yield process
        finally:
            process.kill()


def said(folder: ClassFolder) -> str:
    return (folder.folder / "output.txt").read_text()


def written(folder: ClassFolder) -> int:
    return len(list(folder.journal.glob("*/*.json")))


def is_more_written(folder: ClassFolder, than: int) -> bool:
    return written(folder) > than


def until(condition: Callable[[], object], process: subprocess.Popen[bytes], folder: ClassFolder) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not condition():
        assert process.poll() is None, said(folder)
        assert time.monotonic() < deadline, said(folder)
        time.sleep(0.02)


def results(folder: ClassFolder) -> dict[str, object]:
    """All that a mark depends on, of everything that was handed in."""
    found: dict[str, object] = {}
    for one, _, report in reports_of(folder):
        assert report is not None, one
        verdicts = [(verdict.check, verdict.status) for verdict in report.verdicts]
        found[one.source] = (report.outcome, report.points, report.environment.seed, verdicts)
    return found


def check_same(folder: ClassFolder, by_local: ClassFolder) -> None:
    found = list(entries(folder.journal))
    assert all(isinstance(entry, Entry) for entry in found)
    assert len(found) == written(by_local)
    assert not list(folder.journal.glob("**/.*"))
    assert read_failures(folder) == {}
    assert results(folder) == results(by_local)
    assert len(results(folder)) == STUDENTS


def test_workers_and_a_node_killed_in_the_middle_cost_nothing(
    course: Path, handed_in: Path, by_local: ClassFolder, nodes: Nodes, tmp_path: Path
) -> None:
    folder, chance = ClassFolder(tmp_path), random.Random(8)
    more = ["--executor", "ray", "--address", nodes.address, "--secret", str(by_local.secret_file)]
    with grading(course, handed_in, folder, *more) as process:
        until(lambda: written(folder) >= 2 and len(workers(os.getpid())) == 2, process, folder)
        for _ in range(3):
            more_than = written(folder)
            until(lambda: workers(os.getpid()), process, folder)
            with contextlib.suppress(ProcessLookupError, IndexError):
                os.kill(chance.choice(workers(os.getpid())), signal.SIGKILL)
            until(partial(is_more_written, folder, more_than), process, folder)
        assert written(folder) < written(by_local)
        nodes.kill_second()
        assert process.wait(WITHIN_S) == 0, said(folder)
    assert "is gone: what it had in hand is graded elsewhere." in said(folder)
    assert "(raylet)" not in said(folder)
    check_same(folder, by_local)


@pytest.mark.parametrize("kill", [Nodes.kill_raylet, Nodes.kill_head])
def test_a_dead_head_or_raylet_loses_nothing(
    course: Path,
    handed_in: Path,
    by_local: ClassFolder,
    nodes: Nodes,
    tmp_path: Path,
    kill: Callable[[Nodes], None],
) -> None:
    folder = ClassFolder(tmp_path)
    more = ["--executor", "ray", "--address", nodes.address, "--secret", str(by_local.secret_file)]
    with grading(course, handed_in, folder, *more) as process:
        until(lambda: written(folder) >= 2, process, folder)
        kill(nodes)
        code = process.wait(WITHIN_S)
    assert code in (0, GradingError.exit_code), said(folder)
    if code:
        assert "The Ray cluster is lost: " in said(folder)
        assert "Finished gradings are saved. Resume with:" in said(folder)
        assert "--resume" in said(folder)
        with grading(course, handed_in, folder, "--executor", "local", "--resume") as process:
            assert process.wait(WITHIN_S) == 0, said(folder)
    check_same(folder, by_local)


def test_ctrl_c_ends_a_cluster_of_its_own_and_is_gone_on_with(
    course: Path, handed_in: Path, by_local: ClassFolder, tmp_path: Path
) -> None:
    folder = ClassFolder(tmp_path)
    more = ["--executor", "ray", "--judges", "1"]
    with grading(course, handed_in, folder, *more, "--secret", str(by_local.secret_file)) as process:
        until(lambda: written(folder) >= 2, process, folder)
        family = descendants(process.pid)
        assert workers(process.pid)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 130, said(folder)
    deadline = time.monotonic() + 30
    while (left := [pid for pid in family if Path(f"/proc/{pid}").exists()]) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not left
    assert "What is done is kept." in said(folder)
    assert "--resume --executor ray" in said(folder)
    already = written(folder)
    with grading(course, handed_in, folder, *more, "--resume") as process:
        assert process.wait(WITHIN_S) == 0, said(folder)
    assert f"{already} are graded already" in said(folder)
    check_same(folder, by_local)


def test_each_task_has_gpus_and_a_process_of_its_own_and_is_tried_again_where_that_dies() -> None:
    command = [sys.executable, "-m", "tests.support.ray_requests"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    asked = json.loads(done.stdout.splitlines()[-1])
    assert [bool(devices) and devices.count(",") + 1 for _, devices in asked["said"]] == [1, 2, False, 1]
    assert len({pid for pid, _ in asked["said"]}) == 4
    assert asked["runs"] == 1 + RETRIES == 3
    assert "WorkerCrashedError" in asked["lost"]
