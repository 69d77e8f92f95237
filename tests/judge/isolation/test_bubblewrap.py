"""A submission in bubblewrap sees only what runs it, and changes only its scratch folder."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpututor import paths
from gpututor.course.loader import load_course
from gpututor.errors import NotGradableHere
from gpututor.grading.client import GradingClient
from gpututor.grading.report import Outcome, Report
from gpututor.judge.isolation import bubblewrap
from gpututor.judge.isolation.bubblewrap import Mounts, follow
from gpututor.judge.workers.worker import make_scratch, remove_scratch
from gpututor.processes import descendants
from tests.support.gradings import Grade, failure, grade_in, judge_of, time_limit
from tests.support.parameters import mostly_long
from tests.support.timeouts import wait_for
from tests.support.tiny_course import RIGHT


def test_links_are_followed_listed_or_refused_and_packages_covered(tmp_path: Path) -> None:
    (tmp_path / "real" / "deep").mkdir(parents=True)
    (tmp_path / "near").symlink_to("real")
    (tmp_path / "far").symlink_to(tmp_path / "near" / "deep" / "..")
    links: dict[Path, str] = {}
    assert follow(tmp_path / "far" / "deep", links) == tmp_path / "real" / "deep"
    assert links[tmp_path / "near"] == "real"
    assert links[tmp_path / "far"] == str(tmp_path / "near" / "deep" / "..")
    (tmp_path / "first").symlink_to("second")
    (tmp_path / "second").symlink_to("first")
    with pytest.raises(OSError, match="links"):
        follow(tmp_path / "first", {})
    (tmp_path / "lib" / "python3.11" / "site-packages").mkdir(parents=True)
    mounts = Mounts()
    mounts.add(tmp_path / "lib")
    mounts.add(tmp_path / "lib" / "python3.11")
    mounts.add(tmp_path / "missing")
    arguments = " ".join(mounts.arguments())
    site = tmp_path / "lib" / "python3.11" / "site-packages"
    assert arguments.startswith(f"--ro-bind {tmp_path}/lib {tmp_path}/lib --tmpfs {site} --remount-ro {site}")


@pytest.mark.isolation
@pytest.mark.parametrize("nesting", [False, True])
def test_system_settings_are_read_only(nesting: bool) -> None:
    """Root without capabilities may still write to root's files in /proc."""
    try:
        bwrap_command = bubblewrap.bwrap_command(nesting)
    except NotGradableHere as error:
        pytest.skip(str(error))
    code = (
        "import os\n"
        "for folder, folders, files in os.walk('/proc'):\n"
        "    if folder == '/proc':\n        folders[:] = [name for name in folders if not name.isdigit()]\n"
        "    for name in files:\n"
        "        try:\n            os.close(os.open(f'{folder}/{name}', os.O_WRONLY | os.O_NONBLOCK))\n"
        "            print(folder, name)\n"
        "        except OSError:\n            pass\n"
        "print('done')\n"
    )
    done = subprocess.run([*bwrap_command, sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True)
    assert done.stdout == "done\n", done.stderr


@pytest.mark.parametrize("place", ["/tmp/checkout/gpututor", "/opt/gpututor"])
def test_a_checkout_below_tmp_stays_where_it_is(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Bound:
        def arguments(self) -> list[str]:
            return ["--ro-bind", place, place]

    monkeypatch.setattr(bubblewrap, "worker_mounts", Bound)
    arguments = bubblewrap._bwrap_arguments.__wrapped__("/usr/bin/bwrap", False)
    assert ("/tmp" in arguments) is not place.startswith("/tmp/")


EXERCISES = load_course(paths.builtin_course()).exercises
QUICK = ("1.2", "5.2", "10.2")
BY_LESSON = [
    pytest.param(exercise, id=exercise.slug, marks=[] if exercise.label in QUICK else [pytest.mark.long])
    for exercise in EXERCISES
]
"""A few of different kinds always, the others in long runs."""
SECRET = "a variable of the user's shell"
isolated = pytest.mark.isolation


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GradingClient]:
    """Return a judge whose workers are in bubblewrap."""
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
    """Return the JSON that a right submission printed first; looking around may need a review."""
    assert report.outcome in (Outcome.PASSED, Outcome.NEEDS_REVIEW), (report.first_failure, report.runs)
    assert report.environment.isolation == "bubblewrap"
    return json.loads(report.runs[0].output.splitlines()[0])


def looking(program: str) -> str:
    """Return a right submission that first prints the list or dict `found` of `program`."""
    return f"import ctypes, importlib.util, json, os, socket\n{program}\nprint(json.dumps(found))\n{RIGHT}"


@isolated
def test_files_of_the_exercise_the_grader_and_the_user_are_hidden(grade: Grade, exercise_folder: Path) -> None:
    other = make_scratch()
    hidden = [
        exercise_folder / "solution.py",
        exercise_folder / "checks.py",
        EXERCISES[0].folder / "solution.py",
        Path(__file__),
        paths.PACKAGE / "judge" / "grader.py",
        paths.PACKAGE / "checks" / "model.py",
        paths.PACKAGE.parent / "exercises",
        Path.home() / ".bashrc",
        other,
        *map(Path, ("/etc/passwd", "/bin", "/usr/bin/env", "/home", "/var", "/run", "/boot")),
    ]
    assert all(path.exists() for path in hidden if path.is_relative_to(paths.PACKAGE))
    program = f"found = [path for path in {[str(path) for path in hidden]!r} if os.path.lexists(path)]\n"
    program += "found += os.listdir('/scratch') + os.listdir('/dev/shm') + os.listdir(os.path.expanduser('~'))"
    try:
        assert set(printed(grade(looking(program)))) - {"torchinductor_learner"} == {"a.py"}
    finally:
        remove_scratch(other)


@isolated
def test_only_modules_of_a_worker_can_be_imported(grade: Grade) -> None:
    names = ["judge", "checks", "course", "exercises", "grading", "progress", "app", "cli", "pytest_plugin"]
    names = [f"gpututor.{name}" for name in names] + ["textual", "pytest", "hypothesis", "pip", "torch", "numpy"]
    program = f"found = [name for name in {names!r} if importlib.util.find_spec(name)]"
    assert printed(grade(looking(program))) == ["torch", "numpy"]


@isolated
def test_environment_processes_and_rights_are_not_the_users(grade: Grade) -> None:
    seen = printed(
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
    assert seen["processes"] == 2
    assert set(seen["rights"]) == {0}
    assert seen["user"] == bubblewrap.USER
    assert seen["namespace"] == -1
    for environment in seen["environments"]:
        assert SECRET not in environment
        assert "GPUTUTOR_HOME" not in environment
        assert str(Path.home()) not in environment.replace(sys.executable, "")


@isolated
def test_there_is_no_network(grade: Grade, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as abstract:
        abstract.bind(f"\0gpututor-{os.getpid()}")
        abstract.listen()
        program = (
            "found = [name for _, name in socket.if_nameindex()]\n"
            f"for kind, place in ((socket.AF_INET, {server.getsockname()!r}), (socket.AF_INET, ('192.0.2.1', 80)),\n"
            f"        (socket.AF_UNIX, '\\0gpututor-{os.getpid()}')):\n"
            "    try:\n        socket.socket(kind).connect(place)\n        found.append(place)\n"
            "    except OSError:\n        pass\n"
        )
        assert printed(grade(looking(program))) == ["lo"]


@isolated
def test_nothing_can_be_written_outside_the_scratch(grade: Grade) -> None:
    """Try every folder, every setting of the system and every device."""
    devices = ("full", "null", "ptmx", "pts/ptmx", "random", "tty", "urandom", "zero", "stderr", "stdin", "stdout")
    harmless = [f"/dev/{name}" for name in devices]
    program = (
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
    assert sorted(set(printed(grade(looking(program)))) - set(harmless)) == []


@pytest.mark.long
@isolated
@pytest.mark.parametrize("folder", mostly_long(["/scratch", "/dev/shm"], ["/scratch"]))
def test_a_full_disk_is_a_verdict(grade: Grade, folder: str) -> None:
    report = grade(
        "def twice(number):\n    for at in range(40):\n"
        f"        with open(f'{folder}/{{at}}', 'wb') as file:\n            file.write(bytes(1 << 24))\n"
        "    return 2 * number\n"
    )
    _, got, line = failure(report)
    assert report.outcome is Outcome.ERROR
    assert "[Errno 28]" in got
    assert line in (3, 4)
    assert grade(RIGHT).outcome is Outcome.PASSED


@isolated
@pytest.mark.parametrize("exercise", BY_LESSON)
def test_every_solution_passes(client: GradingClient, exercise: Any) -> None:
    source = (exercise.folder / "solution.py").read_text()
    report = grade_in(client, exercise.folder, source)
    assert report.outcome is Outcome.PASSED, report.first_failure


@pytest.mark.long
@isolated
def test_failures_are_reported_as_without_bubblewrap(grade: Grade, exercise_folder: Path) -> None:
    crashed = grade("import os\ndef twice(number):\n    os.kill(os.getpid(), 11)\n")
    everyone = grade("import os\ndef twice(number):\n    os.kill(-1, 9)\n    return 2 * number\n")
    time_limit(exercise_folder, 1.0)
    endless = grade("def twice(number):\n    while True:\n        number += 1\n")
    assert (crashed.outcome, everyone.outcome, endless.outcome) == (Outcome.CRASHED, Outcome.ERROR, Outcome.TIMEOUT)
    assert "ProcessLookupError" in failure(everyone)[1]
    assert "SIGSEGV" in failure(crashed)[1]
    assert failure(endless)[2] in (2, 3)  # the loop, or its body


@isolated
def test_processes_that_a_submission_leaves_are_ended(client: GradingClient, grade: Grade) -> None:
    sign = f"left running {os.getpid()}"
    report = grade(
        "import subprocess, sys\n\n\ndef twice(number):\n    for _ in range(3):\n        subprocess.Popen(\n"
        f"            [sys.executable, '-I', '-S', '-c', 'import time; time.sleep(300)  # {sign}'],\n"
        "            start_new_session=True, stdout=subprocess.DEVNULL,\n        )\n    return 2 * number\n"
    )
    assert report.outcome is Outcome.PASSED
    assert not [line for line in command_lines() if sign in line]
    judge = judge_of(client)
    wait_for(lambda: len(descendants(judge)) == 1 + bubblewrap.Bubblewrap.wrappers)  # the next spare


@pytest.mark.long
def test_without_bubblewrap_a_grading_gives_the_reason_and_advice(
    tmp_path: Path, exercise_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = " ".join(bubblewrap.NEEDED)
    fails = f'[ "$1" = --help ] && echo {options} || echo "bwrap: {{}}" >&2; exit 1'
    for words, script in {
        "not installed": "",
        "--disable-userns": "echo --size --clearenv",
        "namespaces here: bwrap: No permissions": fails.format("No permissions to create new namespace"),
        "bwrap: Can't mount": fails.format("Can't mount"),
    }.items():
        tool = tmp_path / "bwrap"
        tool.unlink(missing_ok=True)
        if script:
            tool.write_text(f"#!/bin/sh\n{script}\n")
            tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", str(tmp_path))
        client = GradingClient("bubblewrap")
        try:
            report = grade_in(client, exercise_folder, RIGHT)
        finally:
            client.close()
        assert report.outcome is Outcome.NOT_GRADABLE_HERE
        assert words in report.reason
        assert "`--isolation process`" in report.reason


def command_lines() -> Iterator[str]:
    """Yield the command line of every process on this machine."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            yield Path("/proc", pid, "cmdline").read_bytes().decode("utf-8", "replace")
        except OSError:
            continue


def test_a_command_that_takes_too_long_is_killed_and_says_so() -> None:
    done = bubblewrap.run([sys.executable, "-c", "import time; time.sleep(60)"], 0.1)
    assert (done.returncode, done.stderr) == (bubblewrap.TOO_SLOW, "it did not end within 0.1 s")
