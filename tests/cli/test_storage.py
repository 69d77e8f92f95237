"""Storage that cannot be written: a disk that is really full, and a database that another process has locked."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpututor import paths
from gpututor.progress.store import ProgressStore
from tests.support.tiny_course import RIGHT, write_course

GPUTUTOR = f"{sys.executable} -m gpututor --course course --workspace disk/mine"
NAMESPACE = ("unshare", "--user", "--map-root-user", "--mount")
"""Lets any user mount; the mount ends with its processes."""

FULL_DISK = f"""
set -e
mkdir disk && mount -t tmpfs -o size=900k tmpfs disk
export GPUTUTOR_HOME=$PWD/disk/home
{GPUTUTOR} init disk/mine > /dev/null
solution=$(echo disk/mine/*/01_*.py)
cp mine.py $solution
cat /dev/zero > disk/filler 2> /dev/null || true
set +e
for verb in "grade 1.1 --isolation process" "reset 1.1 --yes" "init disk/other" "pack --out disk/pack.zip"; do
    {GPUTUTOR} $verb > out 2> err
    echo "$? $(grep -c Traceback err) $(cat out err | tr '\n' ' ')"
done
cmp mine.py $solution && echo whole
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_course(tmp_path / "course", exercises=1)
    (tmp_path / "mine.py").write_text(RIGHT)
    return tmp_path


@contextlib.contextmanager
def locked(database: Path) -> Iterator[None]:
    """Hold an exclusive lock of a database in another process."""
    code = (
        "import sqlite3, sys\nother = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "other.execute('BEGIN EXCLUSIVE')\nprint('locked', flush=True)\nsys.stdin.readline()\n"
    )
    command = [sys.executable, "-c", code, str(database)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "locked\n"
        yield
        holder.communicate("\n")


def test_a_full_disk_is_named_and_loses_no_solution(folder: Path) -> None:
    probe = [*NAMESPACE, "mount", "-t", "tmpfs", "tmpfs", str(folder / "course")]
    if sys.platform != "linux" or subprocess.run(probe, capture_output=True, check=False).returncode:
        pytest.skip("this system lets no ordinary user mount a small disk")

    done = subprocess.run(
        [*NAMESPACE, "bash", "-c", FULL_DISK], cwd=folder, capture_output=True, text=True, check=False, timeout=240
    )

    *verbs, last = done.stdout.splitlines()
    assert last == "whole"
    assert len(verbs) == 4
    for line in verbs:
        code, tracebacks, words = line.split(maxsplit=2)
        assert (code, tracebacks) in (("4", "0"), ("2", "0")), line
        assert "disk is full" in words or "No space left" in words, line


@pytest.mark.long
def test_a_database_that_another_process_locks_delays_the_attempt_only(folder: Path) -> None:
    def grade() -> subprocess.CompletedProcess[str]:
        words = [*GPUTUTOR.replace("disk/mine", "mine").split(), "grade", "1.1", "--isolation", "process"]
        return subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False, env=os.environ)

    init = [*GPUTUTOR.replace("disk/mine", "mine").split(), "init", "mine"]
    subprocess.run(init, cwd=folder, check=True, capture_output=True)
    [solution] = (folder / "mine").glob("*/01_*.py")
    solution.write_text(RIGHT)
    assert grade().returncode == 0
    [database] = [paths.progress_file("tiny")]

    with locked(database):
        during = grade()
    after = grade()

    assert (during.returncode, after.returncode) == (0, 0)
    assert "Traceback" not in during.stderr
    assert "locked" in during.stderr
    assert after.stderr == ""
    assert len(ProgressStore(database).attempts("lesson_1/twice_1_1")) == 3
