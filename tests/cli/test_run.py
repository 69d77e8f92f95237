"""`gpututor run`: imports, output, exit code and device of the learner's script."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.command_line import run_gpututor
from tests.support.parameters import mostly_long
from tests.support.tiny_course import write_course


@pytest.fixture
def course(tmp_path: Path) -> Path:
    return write_course(tmp_path / "course", exercises=2, lessons=2)


def _run(course: Path, *words: object) -> subprocess.CompletedProcess[str]:
    return run_gpututor("--course", course, "run", *words, cwd=course.parent)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "mine" / "script.py"
    path.parent.mkdir()
    path.touch()
    return path


def test_modules_output_exit_code_and_traceback_are_the_scripts(course: Path, script: Path) -> None:
    (script.parent / "words.py").write_text("WORD = 'imported'\n")
    script.write_text("import sys, words; print(words.WORD, sys.path[0])\n")
    done = _run(course, "1.1", "--file", script, "--device", "virtual")
    assert done.stdout == f"imported {script.parent}\n", done.stderr
    script.write_text("import sys, torch\nprint(torch.ones(2, device='cuda').device)\nsys.exit(7)\n")
    done = _run(course, "1.1", "--file", script, "--model", "T4")
    assert (done.returncode, done.stdout) == (7, "cuda:0\n")
    assert "virtual T4 (modelled)" in done.stderr
    script.write_text("import torch\ntorch.ones(2, device='cuda') + torch.ones(2)\n")
    done = _run(course, "1.1", "--file", script)
    assert done.returncode == 1
    assert "line 2" in done.stderr
    assert "cuda:0 and cpu!" in done.stderr
    assert "gpututor/" not in done.stderr.replace(str(script), "")


@pytest.mark.long
def test_the_cpu_has_no_gpu(course: Path, script: Path) -> None:
    script.write_text("import torch\nprint(torch.cuda.is_available())\n")
    assert _run(course, "1.1", "--file", script, "--device", "cpu").stdout == "False\n"


@pytest.mark.long
def test_options_describe_the_machine(course: Path, script: Path) -> None:
    script.write_text("import torch; print(torch.cuda.get_device_name(1), torch.cuda.mem_get_info()[1])\n")
    machine = ("--device", "virtual", "--gpus", 2, "--model", "L4", "--memory", "1GiB")
    done = _run(course, "1.1", "--file", script, *machine)
    assert done.stdout == f"NVIDIA L4 {2**30}\n", done.stderr


@pytest.mark.parametrize(
    "words",
    mostly_long([["--seed", "1"], ["--file", "x", "-h"], ["--", "a"], ["a b", ""], []], [["--file", "x", "-h"]]),
)
@pytest.mark.long
def test_words_after_two_dashes_are_the_scripts(course: Path, script: Path, words: list[str]) -> None:
    script.write_text("import sys; print(sys.argv[1:])\n")
    done = _run(course, "1.1", "--file", script, "--device", "virtual", "--", *words)
    assert done.stdout == f"{words}\n", done.stderr


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["1.1", "--seed", "1"], "--seed 1"),
        (["plain.py"], "`python -m gpututor.devices.virtual plain.py`"),
        (["1.1", "--device", "cpu", "--gpus", "2"], "--gpus"),
        (["1.1", "--device", "cuda:1", "--gpu", "H100"], "--gpu"),
        (["1.1", "--device", "cpu", "--memory", "1GiB"], "--memory"),
        (["1.1", "--file", "plain.py", "--device", "virtual", "--gpus", "9"], "--gpus"),
        (["1.1", "--file", "plain.py", "--device", "virtual", "--memory", "512"], "--memory"),
    ],
)
def test_a_wrong_command_line_is_a_usage_error(course: Path, words: list[str], named: str) -> None:
    (course.parent / "plain.py").touch()
    done = _run(course, *words)
    assert (done.returncode, named in done.stderr, "Traceback" in done.stderr) == (2, True, False), done.stderr
