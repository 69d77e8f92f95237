"""The Slurm script of docs/classroom/clusters.md, with a stand-in for `srun`: nodes start, and exit codes arrive."""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpututor.classroom.folder import ClassFolder
from gpututor.cli.classroom.grade import add_arguments
from tests.support import ROOT
from tests.support.class_gradings import written
from tests.support.class_layouts import hand_in
from tests.support.tiny_course import RIGHT, WRONG, write_course

SCRIPT = re.findall(
    r"^```bash\n(#!.*?)^```", (ROOT / "docs/classroom/clusters.md").read_text(), re.MULTILINE | re.DOTALL
)
SRUN = 'echo "srun $*" >> "$LOG"\nwhile [[ "$1" == --* ]]; do shift; done\nexec "$@"\n'
"""Run the command here instead of on other nodes."""
STUDENTS = 6

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Slurm's script is for Linux")


def run_script(
    folder: Path, programs: dict[str, str], nodes: int, changes: dict[str, str], environment: dict[str, str]
) -> tuple[int, list[str], str]:
    """Run the guide's script; return its exit code, the logged commands and its output."""
    (folder / "bin").mkdir()
    for name, text in {"hostname": "echo 127.0.0.1 10.0.0.9\n", "srun": SRUN, **programs}.items():
        (folder / "bin" / name).write_text(f"#!/bin/bash\n{text}")
        (folder / "bin" / name).chmod(0o755)
    (folder / "activate").write_text(f'export PATH="{folder}/bin:$PATH"\n')
    [script] = SCRIPT
    for old, new in {"/shared/gpututor/bin/activate": str(folder / "activate"), **changes}.items():
        assert old in script
        script = script.replace(old, new)
    (folder / "job.sh").write_text(script)
    log, output = folder / "log", folder / "output.txt"
    slurm = {"SLURM_NNODES": str(nodes), "SLURM_CPUS_PER_TASK": "1", "LOG": str(log), **environment}
    with output.open("wb") as stream:
        done = subprocess.run(
            ["bash", str(folder / "job.sh")],
            env={**os.environ, **slurm},
            stdout=stream,
            stderr=stream,
            timeout=600,
            check=False,
        )
    return done.returncode, log.read_text().splitlines(), output.read_text()


@pytest.mark.parametrize(("nodes", "code"), [(1, 0), (4, 0), (4, 4)])
def test_the_script_starts_a_node_each_and_ends_as_the_grading_does(tmp_path: Path, nodes: int, code: int) -> None:
    ray = 'echo "ray $*" >> "$LOG"\n'
    wait = 'until grep -q "^ray.*--block" "$LOG"; do sleep 0.05; done\n' if nodes > 1 else ""
    gpututor = f'{wait}echo "gpututor $*" >> "$LOG"\nexit {code}\n'
    ended, lines, output = run_script(tmp_path, {"ray": ray, "gpututor": gpututor}, nodes, {}, {})
    assert ended == code, output
    head, *others, grade = lines
    assert head.startswith("ray start --head --node-ip-address=127.0.0.1 --port=6379 ")
    join = "ray start --address=127.0.0.1:6379 --num-cpus=1 --block"
    assert others == ([f"srun --nodes=3 --ntasks=3 --relative=1 --cpus-per-task=1 {join}", join] if nodes > 1 else [])
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    given = parser.parse_args(shlex.split(grade)[3:])
    assert (given.executor, given.address, given.resume) == ("ray", "127.0.0.1:6379", True)


@contextlib.contextmanager
def folder_of_ray() -> Iterator[Path]:
    """Make a folder with a short path for Ray, and end its processes afterwards."""
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp", ignore_cleanup_errors=True) as name:
        try:
            yield Path(name)
        finally:
            for entry in Path("/proc").iterdir():
                with contextlib.suppress(OSError, ValueError):
                    if f"{name}/".encode() in (entry / "cmdline").read_bytes():
                        os.kill(int(entry.name), signal.SIGKILL)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_script_grades_a_class_on_two_real_nodes(tmp_path: Path) -> None:
    course, out = write_course(tmp_path / "course", exercises=1), tmp_path / "graded"
    hand_in(tmp_path / "class", {f"student_{n}": f"{RIGHT if n % 2 else WRONG}# {n}\n" for n in range(STUDENTS)})
    more = ["--course", str(course), "--isolation", "process", "--device", "virtual"]
    python = shlex.quote(sys.executable)
    programs = {
        "ray": f'exec {python} -P -m ray.scripts.scripts "$@"\n',
        "gpututor": f'exec {python} -P -m gpututor "$@" {shlex.join(more)}\n',
    }
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    changes = {
        "6379": str(port),
        "/shared/submissions.zip": str(tmp_path / "class"),
        "/shared/graded": str(out),
    }
    with folder_of_ray() as ray:
        environment = {"RAY_TMPDIR": str(ray), "RAY_AUTH_TOKEN": "a" * 64}
        code, lines, output = run_script(tmp_path, programs, 2, changes, environment)
    assert code == 0, output
    assert len(lines) == 1, lines
    assert output.count("Ray runtime started.") == 2, output
    assert written(ClassFolder(out)) == STUDENTS
