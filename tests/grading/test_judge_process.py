"""The judge's process: nothing outlives a grading, however it ends, and a dead judge is replaced."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from gpututor.errors import GradingError
from gpututor.grading import judge_process
from gpututor.grading.client import GradingClient
from gpututor.grading.events import GradeRequest, GradingCancelled
from gpututor.grading.report import Outcome
from gpututor.processes import descendants
from tests.support.gradings import gone, grade_in, judge_of, time_limit
from tests.support.parameters import mostly_long
from tests.support.timeouts import wait_for
from tests.support.tiny_course import RIGHT

ISOLATIONS = (pytest.param("process", marks=pytest.mark.long), pytest.param("bubblewrap", marks=pytest.mark.isolation))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux gives orphans to another process")
@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("tries", mostly_long([8, 204], [8]))
def test_nothing_outlives_gradings_however_they_end(isolation: str, tries: int, exercise_folder: Path) -> None:
    """Two processes at once, to which orphans come, interrupt gradings."""
    share = str(tries // 2)
    command = [sys.executable, "-m", "tests.support.interrupted_gradings", isolation, share, str(exercise_folder)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    lines = [line for process in running for line in process.communicate()[0].splitlines()]
    assert [process.returncode for process in running] == [0, 0]
    assert len(lines) == tries
    assert [line for line in lines if not line.endswith(" 0")] == []


STOPS_ALL_ABOVE = """
import os, signal
above, names = os.getppid(), []
while above > 1:
    with open(f"/proc/{above}/cmdline") as command:
        if "gpututor" not in command.read():
            break
    names.append(above)
    with open(f"/proc/{above}/stat") as status:
        above = int(status.read().rpartition(")")[2].split()[1])
for process in names[:@most@]:
    os.kill(process, signal.SIGSTOP)


def twice(number):
    return 2 * number
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
@pytest.mark.parametrize(
    "most", [pytest.param(1, id="the judge"), pytest.param(2, marks=pytest.mark.long, id="the judge and its keeper")]
)
@pytest.mark.long
def test_a_stopped_judge_is_an_error_and_is_replaced(
    exercise_folder: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(judge_process, "SLACK_S", 1.0)
    time_limit(exercise_folder, 4.0)
    client = GradingClient()
    try:
        with pytest.raises(GradingError) as error:
            list(client.grade(GradeRequest(str(exercise_folder), STOPS_ALL_ABOVE.replace("@most@", str(most)), "a.py")))
        assert error.value.exit_code == 4
        assert grade_in(client, exercise_folder, RIGHT).outcome is Outcome.PASSED
    finally:
        client.close()


WARM_CLIENT = """
import os, subprocess, sys, time
from gpututor.grading.client import GradingClient
from gpututor.processes import descendants

client = GradingClient()
client.warm()
while client._judge.pid == 0:
    time.sleep(0.01)
keeper, judge = descendants(os.getpid())[:2]
print(keeper, judge, flush=True)
sys.stdin.readline()
subprocess.run(["sh", "-c", "echo $SHELL_SECRET"])
client.close()
"""


def environment_of(process: int | str) -> bytes:
    """Return what `/proc` shows; empty if it may not be read."""
    try:
        return Path(f"/proc/{process}/environ").read_bytes()
    except PermissionError:
        return b""


AS_ORDINARY_USER = ("unshare", "--user", "--map-user=1000", "--map-group=1000")
"""Takes all of root's rights from a process, also if Python itself is in a folder of root."""


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
@pytest.mark.parametrize(
    "prefix", [pytest.param((), id="the same user"), pytest.param(AS_ORDINARY_USER, id="an ordinary user")]
)
def test_no_process_of_gpututor_shows_the_learners_environment(prefix: tuple[str, ...]) -> None:
    if prefix and subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this system makes no user namespaces")
    environment = {**os.environ, "SHELL_SECRET": "canary"}
    command = [*prefix, sys.executable, "-c", WARM_CLIENT]
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as client:
        assert client.stdin is not None
        assert client.stdout is not None
        pids = [client.pid, *map(int, client.stdout.readline().split())]
        shown = [environment_of(pid) for pid in pids]
        inherited, _ = client.communicate("go on\n")
    assert len(shown) == 3
    assert not any(b"canary" in environment or b"SHELL_SECRET" in environment for environment in shown)
    assert inherited == "canary\n"


ENDLESS = "def twice(number):\n    while True:\n        pass\n"


def test_a_killed_judge_takes_its_workers_along_and_is_replaced(exercise_folder: Path) -> None:
    dead = 2**22 - 1
    assert not Path(f"/proc/{dead}").exists()
    left = Path(tempfile.gettempdir(), f"gpututor-{dead}-left")
    left.mkdir()
    with contextlib.closing(GradingClient()) as client:
        events = client.grade(GradeRequest(str(exercise_folder), ENDLESS, "a.py"))
        next(events)
        workers = descendants(judge_of(client))
        assert workers
        os.kill(judge_of(client), signal.SIGKILL)
        wait_for(lambda: all(gone(worker) for worker in workers))
        client.cancel()
        assert isinstance(list(events)[-1], GradingCancelled)
        assert grade_in(client, exercise_folder, RIGHT).outcome is Outcome.PASSED
        judge = judge_of(client)
        family = [judge, *descendants(judge)]
        assert len(family) >= 2
    wait_for(lambda: all(gone(pid) for pid in family))
    assert not list(Path(tempfile.gettempdir()).glob(f"gpututor-{judge}-*"))
    assert not left.exists(), "a new judge removes the scratch folders of dead judges"


@pytest.mark.long
def test_a_judge_that_ignores_the_cancel_is_killed(exercise_folder: Path) -> None:
    with contextlib.closing(GradingClient()) as client:
        events = client.grade(GradeRequest(str(exercise_folder), ENDLESS, "a.py"))
        next(events)
        pid = judge_of(client)
        os.kill(pid, signal.SIGSTOP)
        client.cancel()
        assert isinstance(list(events)[-1], GradingCancelled)
        assert gone(pid)
        assert grade_in(client, exercise_folder, RIGHT).outcome is Outcome.PASSED


CLIENT = """
import sys
from gpututor.grading.client import GradingClient
from gpututor.grading.events import GradeRequest
list(GradingClient().grade(GradeRequest(sys.argv[1], sys.argv[2], "a.py")))
"""


def test_a_killed_client_leaves_no_process_and_no_scratch(exercise_folder: Path, tmp_path: Path) -> None:
    note = tmp_path / "note"
    submission = (
        "import os, signal\n\n\ndef twice(number):\n"
        "    if os.fork() == 0:\n        os.setsid()\n        if os.fork() == 0:\n"
        f"            open({str(note)!r}, 'w').write(f'{{os.getpid()}} {{os.getcwd()}}')\n"
        "            signal.pause()\n        os._exit(0)\n"
        "    while True:\n        pass\n"
    )
    client = subprocess.Popen([sys.executable, "-c", CLIENT, str(exercise_folder), submission])
    wait_for(lambda: note.exists() and " " in note.read_text(), 30)
    daemon, _, scratch = note.read_text().partition(" ")
    client.kill()
    client.wait()
    wait_for(lambda: gone(int(daemon)))  # its number may soon be another process's
    wait_for(lambda: not Path(scratch).exists())
