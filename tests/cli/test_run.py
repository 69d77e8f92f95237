"""`gpututor run`: where a script's own modules are found, and what is said of options and files that do not fit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.parameters import mostly_long
from tests.support.tiny_course import write_course


@pytest.fixture
def course(tmp_path: Path) -> Path:
    return write_course(tmp_path / "course", exercises=2, lessons=2)


def _run(course: Path, *words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gpututor", "--course", str(course), "run", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, cwd=course.parent)


def test_a_script_finds_the_modules_beside_it(course: Path, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "beside.py").write_text("WORD = 'found'\n")
    (folder / "script.py").write_text("import sys, beside; print(beside.WORD, sys.path[0])\n")
    done = _run(course, "1.1", "--file", folder / "script.py", "--device", "virtual")
    assert done.stdout == f"found {folder}\n", done.stderr


def test_the_machine_is_said_in_the_same_words_as_elsewhere(course: Path, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import torch; print(torch.cuda.get_device_name(1), torch.cuda.mem_get_info()[1])\n")
    machine = ("--device", "virtual", "--gpus", 2, "--model", "L4", "--memory", "1GiB")
    done = _run(course, "1.1", "--file", script, *machine)
    assert done.stdout == f"NVIDIA L4 {2**30}\n", done.stderr


@pytest.mark.parametrize(
    "words",
    mostly_long([["--seed", "1"], ["--file", "x", "-h"], ["--", "a"], ["a b", ""], []], [["--file", "x", "-h"]]),
)
def test_what_follows_two_dashes_is_the_scripts_own(course: Path, tmp_path: Path, words: list[str]) -> None:
    script = tmp_path / "script.py"
    script.write_text("import sys; print(sys.argv[1:])\n")
    done = _run(course, "1.1", "--file", script, "--device", "virtual", "--", *words)
    assert done.stdout == f"{words}\n", done.stderr


def test_without_two_dashes_an_argument_is_none_of_ours(course: Path) -> None:
    done = _run(course, "1.1", "--seed", "1")
    assert done.returncode == 2
    assert "unrecognized arguments: --seed 1" in done.stderr


def test_a_file_that_belongs_to_no_exercise_is_run_in_another_way(course: Path, tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text("")
    done = _run(course, "plain.py")
    assert done.returncode == 2
    assert "plain.py belongs to no exercise." in done.stderr
    assert "`python -m gpututor.devices.virtual plain.py` runs any script." in done.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--device", "cpu", "--gpus", "2"], "--gpus is for the virtual GPU, not for --device cpu."),
        (["--device", "cuda:1", "--gpu", "H100"], "--gpu is for the virtual GPU, not for --device cuda:1."),
        (["--device", "cpu", "--memory", "1GiB"], "--memory is for the virtual GPU, not for --device cpu."),
        (["--device", "virtual", "--gpus", "9"], "--gpus: a machine has 0 to 8 virtual GPUs, not 9."),
        (["--device", "virtual", "--memory", "512"], "--memory: '512' has no unit: say 512MiB or 16GiB."),
    ],
)
def test_options_that_cannot_be_are_refused_in_words(
    course: Path, tmp_path: Path, options: list[str], words: str
) -> None:
    script = tmp_path / "script.py"
    script.write_text("")
    done = _run(course, "1.1", "--file", script, *options)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr
