"""In bubblewrap a submission sees nothing of the machine but what runs it, and changes nothing but its scratch."""

from __future__ import annotations

import json
import os
import socket
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpututor import paths
from gpututor.course.loader import load_course
from gpututor.errors import NotGradableHere
from gpututor.grading.client import GradingClient
from gpututor.grading.events import GradeRequest, GradingFinished
from gpututor.grading.report import Outcome, Report
from gpututor.judge.isolation import bubblewrap
from gpututor.judge.workers.worker import make_scratch, remove_scratch
from gpututor.processes import descendants
from tests.support.gradings import Grade, time_limit, wait_for
from tests.support.parameters import mostly_long
from tests.support.tiny_course import RIGHT

EXERCISES = load_course(paths.builtin_course()).exercises
QUICK = ("1.2", "5.2", "10.2")
BY_LESSON = [
    pytest.param(exercise, id=exercise.slug, marks=[] if exercise.label in QUICK else [pytest.mark.long])
    for exercise in EXERCISES
]
"""A few of different kinds, and the others where there is time."""
SECRET = "what only the person's shell knows"
isolated = pytest.mark.isolation


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GradingClient]:
    """One judge whose workers are in bubblewrap."""
    try:
        bubblewrap.bwrap_command()
    except NotGradableHere as error:
        pytest.skip(str(error))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GPUTUTOR_HOME", str(tmp_path_factory.mktemp("home")))
        patch.setenv("GPUTUTOR_SECRET", SECRET)
        client = GradingClient("bubblewrap")
        yield client
        client.close()


def printed(report: Report) -> Any:
    """What a submission printed as JSON, which then gave the right answer; that it looked around may be noticed."""
    assert report.outcome in (Outcome.PASSED, Outcome.NEEDS_REVIEW), (report.first_failure, report.runs)
    assert report.environment.isolation == "bubblewrap"
    return json.loads(report.runs[0].output.splitlines()[0])


def looking(code: str) -> str:
    """A right submission that first prints `found`, which `code` makes."""
    return f"import ctypes, importlib.util, json, os, socket\n{code}\nprint(json.dumps(found))\n{RIGHT}"


@isolated
def test_no_file_of_the_exercise_the_grader_or_the_person_is_there(grade: Grade, exercise_folder: Path) -> None:
    other = make_scratch()
    secret = [
        exercise_folder / "solution.py",
        exercise_folder / "checks.py",
        EXERCISES[0].folder / "solution.py",
        Path(__file__),
        paths.PACKAGE / "judge" / "judge.py",
        paths.PACKAGE / "checks" / "core.py",
        paths.PACKAGE.parent / "exercises",
        Path.home() / ".bashrc",
        other,
        Path("/etc/passwd"),
        Path("/bin"),
        Path("/usr/bin/env"),
        Path("/home"),
        Path("/var"),
        Path("/run"),
        Path("/boot"),
    ]
    code = f"found = [path for path in {[str(path) for path in secret]!r} if os.path.lexists(path)]\n"
    code += "found += os.listdir('/scratch') + os.listdir('/dev/shm') + os.listdir(os.path.expanduser('~'))"
    try:
        assert set(printed(grade(looking(code)))) - {"torchinductor_learner"} == {"01_twice.py"}
    finally:
        remove_scratch(other)


@isolated
def test_no_module_is_there_but_those_of_a_worker(grade: Grade) -> None:
    names = ["judge", "checks", "course", "exercises", "grading", "progress", "app", "cli", "pytest_plugin"]
    names = [f"gpututor.{name}" for name in names] + ["textual", "pytest", "hypothesis", "pip", "torch", "numpy"]
    code = f"found = [name for name in {names!r} if importlib.util.find_spec(name)]"

    assert printed(grade(looking(code))) == ["torch", "numpy"]


@isolated
def test_neither_environment_nor_processes_nor_rights_are_the_persons(grade: Grade) -> None:
    found = printed(
        grade(
            looking(
                "processes = [int(name) for name in os.listdir('/proc') if name.isdigit()]\n"
                "environments = [open(f'/proc/{pid}/environ', 'rb').read().decode() for pid in processes]\n"
                "rights = [line for line in open('/proc/self/status') if line.startswith('Cap')]\n"
                "found = {'processes': len(processes), 'environments': environments + [str(dict(os.environ))],\n"
                "    'rights': [int(line.split()[1], 16) for line in rights], 'user': os.getuid(),\n"
                "    'namespace': ctypes.CDLL(None).unshare(0x10000000)}"
            )
        )
    )

    assert found["processes"] == 2
    assert set(found["rights"]) == {0}
    assert found["user"] == bubblewrap.USER
    assert found["namespace"] == -1
    for environment in found["environments"]:
        assert SECRET not in environment
        assert "GPUTUTOR_HOME" not in environment
        assert str(Path.home()) not in environment.replace(sys.executable, "")


@isolated
def test_there_is_no_network(grade: Grade, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as abstract:
        abstract.bind(f"\0gpututor-{os.getpid()}")
        abstract.listen()
        code = (
            "found = [name for _, name in socket.if_nameindex()]\n"
            f"for kind, place in ((socket.AF_INET, {server.getsockname()!r}), (socket.AF_INET, ('192.0.2.1', 80)),\n"
            f"        (socket.AF_UNIX, '\\0gpututor-{os.getpid()}')):\n"
            "    try:\n        socket.socket(kind).connect(place)\n        found.append(place)\n"
            "    except OSError:\n        pass\n"
        )
        assert printed(grade(looking(code))) == ["lo"]


@isolated
def test_nothing_can_be_written_outside_the_scratch(grade: Grade) -> None:
    """Every folder is tried, every setting of the system and every device."""
    devices = ("full", "null", "ptmx", "pts/ptmx", "random", "tty", "urandom", "zero", "stderr", "stdin", "stdout")
    harmless = [f"/dev/{name}" for name in devices]
    code = (
        "found = []\n"
        "for folder, folders, files in os.walk('/'):\n"
        "    if folder == '/':\n        folders[:] = [name for name in folders if name not in ('proc', 'scratch')]\n"
        "    if folder == '/dev':\n        folders.remove('shm')\n"
        "    for path in [folder + '/new'] + [folder + '/' + name for name in files[:20]]:\n"
        "        if os.path.isfile(path) or path.endswith('/new') or path.startswith('/dev/'):\n"
        "            try:\n"
        "                os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK | os.O_NOCTTY))\n"
        "                found.append(path)\n"
        "            except OSError:\n                pass\n"
        "for folder, _, files in os.walk('/proc/sys'):\n"
        "    for name in files:\n"
        "        try:\n            os.close(os.open(folder + '/' + name, os.O_WRONLY))\n"
        "            found.append(folder + '/' + name)\n"
        "        except OSError:\n            pass\n"
        "for name in ('sysrq-trigger', 'kcore', '1/mem', '1/oom_score_adj'):\n"
        "    try:\n        os.close(os.open('/proc/' + name, os.O_RDWR))\n        found.append(name)\n"
        "    except OSError:\n        pass\n"
    )

    assert sorted(set(printed(grade(looking(code)))) - set(harmless)) == []


@pytest.mark.long
@isolated
@pytest.mark.parametrize("folder", mostly_long(["/scratch", "/dev/shm"], ["/scratch"]))
def test_a_full_disk_is_a_verdict(grade: Grade, folder: str) -> None:
    report = grade(
        "def twice(number):\n    for at in range(40):\n"
        f"        with open(f'{folder}/{{at}}', 'wb') as file:\n            file.write(bytes(1 << 24))\n"
        "    return 2 * number\n"
    )

    assert report.outcome is Outcome.ERROR
    assert report.first_failure is not None
    assert "No space left on device" in report.first_failure.got
    assert report.first_failure.line in (3, 4)
    assert grade(RIGHT).outcome is Outcome.PASSED


@isolated
@pytest.mark.parametrize("exercise", BY_LESSON)
def test_every_solution_passes(client: GradingClient, exercise: Any) -> None:
    source = (exercise.folder / "solution.py").read_text()

    *_, end = client.grade(GradeRequest(str(exercise.folder), source, "solution.py"))

    assert isinstance(end, GradingFinished)
    assert end.report.outcome is Outcome.PASSED, end.report.first_failure


@pytest.mark.long
@isolated
def test_how_it_ended_is_told_as_without_bubblewrap(grade: Grade, exercise_folder: Path) -> None:
    crashed = grade("import os\ndef twice(number):\n    os.kill(os.getpid(), 11)\n")
    everyone = grade("import os\ndef twice(number):\n    os.kill(-1, 9)\n    return 2 * number\n")  # nobody is there
    time_limit(exercise_folder, 1.0)
    endless = grade("def twice(number):\n    while True:\n        number += 1\n")

    assert (crashed.outcome, everyone.outcome, endless.outcome) == (Outcome.CRASHED, Outcome.ERROR, Outcome.TIMEOUT)
    assert crashed.first_failure is not None
    assert endless.first_failure is not None
    assert everyone.first_failure is not None
    assert "ProcessLookupError" in everyone.first_failure.got
    assert "SIGSEGV" in crashed.first_failure.got
    assert endless.first_failure.line in (2, 3)  # the loop, or what is in it


@isolated
def test_what_a_submission_leaves_running_is_ended(client: GradingClient, grade: Grade) -> None:
    sign = f"left running {os.getpid()}"
    report = grade(
        "import subprocess, sys\n\n\ndef twice(number):\n    for _ in range(3):\n        subprocess.Popen(\n"
        f"            [sys.executable, '-I', '-S', '-c', 'import time; time.sleep(300)  # {sign}'],\n"
        "            start_new_session=True, stdout=subprocess.DEVNULL,\n        )\n    return 2 * number\n"
    )

    assert report.outcome is Outcome.PASSED
    assert not [line for line in command_lines() if sign in line]
    assert client._judge is not None
    judge = client._judge.pid
    wait_for(lambda: len(descendants(judge)) == 1 + bubblewrap.Bubblewrap.wrappers)  # the next spare


@pytest.mark.long
def test_where_bubblewrap_cannot_work_a_grading_says_why_and_what_to_do(
    tmp_path: Path, exercise_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = " ".join(bubblewrap.NEEDED)
    for words, script in {
        "is not installed": "",
        "is too old: it does not know --disable-userns": "echo --size --clearenv",
        "may make no user namespaces here: bwrap: No permissions to create new namespace": (
            f'[ "$1" = --help ] && echo {options} || echo bwrap: No permissions to create new namespace >&2; exit 1'
        ),
        "bwrap does not work here: bwrap: Can't mount": (
            f"""[ "$1" = --help ] && echo {options} || echo "bwrap: Can't mount" >&2; exit 1"""
        ),
    }.items():
        tool = tmp_path / "bwrap"
        tool.unlink(missing_ok=True)
        if script:
            tool.write_text(f"#!/bin/sh\n{script}\n")
            tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", str(tmp_path))
        client = GradingClient("bubblewrap")
        try:
            *_, end = client.grade(GradeRequest(str(exercise_folder), RIGHT, "01_twice.py"))
        finally:
            client.close()

        assert isinstance(end, GradingFinished)
        assert end.report.outcome is Outcome.NOT_GRADABLE_HERE
        assert words in end.report.reason
        assert "`--isolation process`" in end.report.reason


def command_lines() -> Iterator[str]:
    """Of every process on this machine."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            yield Path("/proc", pid, "cmdline").read_bytes().decode("utf-8", "replace")
        except OSError:
            continue
