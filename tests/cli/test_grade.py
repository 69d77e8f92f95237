"""`gpututor grade` as a child process on a tiny course."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from gpututor import paths
from gpututor.cli import grade, grading
from gpututor.cli.main import main
from gpututor.grading.report import Outcome, Report
from gpututor.progress.recordings import Recordings
from gpututor.progress.store import ProgressStore
from tests.support.command_line import run_gpututor as gpututor
from tests.support.tiny_course import WRONG, write_course

TRUSTED = ("--isolation", "process")
GradeFile = Callable[..., subprocess.CompletedProcess[str]]
RIGHT = "def twice(number):\n    return 2 * number\n\n\nif __name__ == '__main__':\n    print(twice(21))\n"


@pytest.fixture
def course(tmp_path: Path) -> Path:
    return write_course(tmp_path / "course", exercises=1)


@pytest.fixture
def solution(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(RIGHT)
    return path


@pytest.fixture
def grade_file(course: Path, solution: Path) -> GradeFile:
    """Grade the solution with further options."""
    return lambda *more: gpututor("--course", course, "grade", "1.1", "--file", solution, *TRUSTED, *more)


@pytest.fixture
def own(course: Path) -> Path:
    """The learner's own file in a new workspace."""
    assert main(["--course", str(course), "init"]) == 0
    return paths.default_workspace("tiny") / "01_lesson_1" / "01_twice_1_1.py"


def test_a_right_file_passes_as_text_and_as_json(grade_file: GradeFile) -> None:
    done = grade_file("--device", "virtual")

    assert done.returncode == 0, done.stderr
    assert "✓ passed " in done.stdout
    assert "virtual T4 (modelled)" in done.stdout
    assert "isolation process" in done.stdout
    report = Report.from_json(json.loads(grade_file("--model", "T4", "--json", "--seed", 2**32 - 1).stdout))
    assert (report.outcome, report.environment.seed) == (Outcome.PASSED, 2**32 - 1)


def test_a_wrong_file_fails_with_exit_code_one(grade_file: GradeFile, solution: Path) -> None:
    solution.write_text(WRONG)
    done = grade_file()
    assert done.returncode == 1
    assert "✗ failed " in done.stdout
    assert "line      2: return number" in done.stdout


def test_a_notebook_is_graded_with_places_in_its_cells(course: Path, tmp_path: Path) -> None:
    path = tmp_path / "homework.ipynb"
    cells = ["import math", "%precision 3\ndef twice(number):\n    !ls\n    return number", "twice(1 / 0)"]
    notebook = {"cells": [{"cell_type": "code", "metadata": {}, "source": cell} for cell in cells]}
    path.write_text(json.dumps(notebook))
    words = ("--course", course, "grade", "1.1", "--file", path, *TRUSTED)
    done = gpututor(*words)
    assert done.returncode == 1
    assert "6 (line 4 of code cell 2): return number" in done.stdout
    assert done.stderr == "gpututor: left out of homework.ipynb, code cell 2, line 3: !ls\n"
    path.write_text("{")
    done = gpututor(*words)
    assert (done.returncode, "homework.ipynb" in done.stderr, "line 1" in done.stderr) == (2, True, True)


def test_the_learners_own_file_is_graded_and_recorded(course: Path, own: Path) -> None:
    own.write_text(RIGHT)
    done = gpututor("--course", course, "grade", "twice_1_1")
    assert (done.returncode, done.stderr) == (0, ""), "without a terminal there is no progress line"
    assert "1 of 1 passed" in gpututor("--course", course, "list").stdout
    path = paths.progress_file("tiny")
    store = ProgressStore(path)
    attempt = store.latest("lesson_1/twice_1_1")
    store.close()
    assert attempt is not None
    assert attempt.source == RIGHT
    assert Recordings.next_to(store).read(attempt.id) is not None
    assert [entry.name for entry in path.with_name("recordings").iterdir()] == [str(attempt.id)]


def test_an_unknown_model_is_no_attempt(course: Path, own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own.write_text(RIGHT)
    assert main(["--course", str(course), "grade", "1.1", "--model", "h10"]) == 2
    assert "'H100'" in capsys.readouterr().err
    store = ProgressStore(paths.progress_file("tiny"))
    assert store.latest("lesson_1/twice_1_1") is None
    store.close()


@pytest.mark.parametrize("verb", ["grade", "run"])
def test_another_file_is_not_taken_for_the_learners_own(
    course: Path, own: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    (tmp_path / "elsewhere").mkdir()
    for name, advice in ((own.name, f"`gpututor {verb} twice_1_1 --file"), ("doubled.py", "doubled.py")):
        other = tmp_path / "elsewhere" / name
        other.write_text(RIGHT)
        assert main(["--course", str(course), verb, str(other)]) == 2
        assert advice in capsys.readouterr().err
    assert main(["--course", str(course), "list"]) == 0
    assert "0 of 1 passed" in capsys.readouterr().out


def test_a_missing_file_a_link_and_several_gpus_are_refused(
    course: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], solution: Path
) -> None:
    missing, link = tmp_path / "missing.py", tmp_path / "link.py"
    link.symlink_to("/etc/passwd")
    for path in (missing, link):
        assert main(["--course", str(course), "grade", "1.1", "--file", str(path)]) == 2
        assert str(path) in capsys.readouterr().err
    assert main(["--course", str(course), "grade", "1.1", "--file", str(solution), "--gpu", "T4,A100"]) == 2
    assert "'T4,A100'" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["grade", "run", "diff", "reset"])
@pytest.mark.parametrize("kind", ["pipe", "link to itself"])
def test_every_verb_names_the_reason_for_an_unreadable_own_file(
    course: Path, own: Path, capfd: pytest.CaptureFixture[str], kind: str, verb: str
) -> None:
    own.unlink()
    os.mkfifo(own) if kind == "pipe" else own.symlink_to(own)
    assert main(["--course", str(course), verb, "1.1", *(["--yes"] if verb in ("diff", "reset") else [])]) == 2
    error = capfd.readouterr().err
    assert str(own) in error
    assert ("Not an ordinary file" if kind == "pipe" else "link") in error


@pytest.mark.long
def test_an_own_file_may_be_a_link(course: Path, own: Path, solution: Path) -> None:
    own.unlink()
    own.symlink_to(solution)
    assert gpututor("--course", course, "grade", "1.1").returncode == 0


@pytest.mark.parametrize("seed", ["-1", str(2**32), "99999999999999999999999", "1.5", "one", "9" * 5000])
def test_an_impossible_seed_is_a_usage_error(
    course: Path, solution: Path, seed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["--course", str(course), "grade", "1.1", "--file", str(solution), "--seed", seed])
    assert "0 to 4294967295" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "exit_code", "words"),
    [
        (["--device", "cuda:5"], 3, "--device virtual"),
        (["--device", "gpu"], 2, "'gpu'"),
        pytest.param(["--gpu", "T5"], 2, "'T5'", marks=pytest.mark.long),
        pytest.param(["--gpus", "9"], 2, "9 virtual GPUs", marks=pytest.mark.long),
    ],
)
def test_an_impossible_device_is_an_error(
    grade_file: GradeFile, options: list[str], exit_code: int, words: str
) -> None:
    done = grade_file(*options)
    assert (done.returncode, words in done.stdout + done.stderr) == (exit_code, True)


@pytest.mark.long
def test_output_of_the_solution_cannot_control_the_terminal(grade_file: GradeFile, solution: Path) -> None:
    solution.write_text("print('\\x1b[31mred\\x07 [/int]')\n" + RIGHT)
    done = grade_file()
    assert "\x1b" not in done.stdout
    assert "\x07" not in done.stdout
    assert "[/int]" in done.stdout


@pytest.mark.parametrize(
    ("options", "isolation"),
    [
        ([], "process"),
        (["--file", "{mine}"], "process"),
        (["--file", "{theirs}"], "bubblewrap"),
        (["--file", "{theirs}", "--isolation", "process"], "process"),
        (["--isolation", "bubblewrap"], "bubblewrap"),
    ],
)
def test_files_outside_the_workspace_are_graded_in_bubblewrap(
    own: Path, solution: Path, options: list[str], isolation: str
) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--workspace", type=Path)
    grade.add_arguments(parser)
    words = [option.format(mine=own, theirs=solution) for option in options]
    arguments = parser.parse_args(["--workspace", str(own.parent.parent), "1.1", *words])
    assert grading.isolation_for(arguments) == isolation


def test_without_bubblewrap_another_persons_file_is_not_graded(course: Path, solution: Path) -> None:
    done = gpututor("--course", course, "grade", "1.1", "--file", solution, PATH="/nowhere")
    assert done.returncode == 3
    assert "`--isolation process`" in done.stdout
    assert "passed" not in done.stdout
