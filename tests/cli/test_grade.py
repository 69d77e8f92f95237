"""`gpututor grade` and `gpututor run`, as whole processes on a tiny course."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpututor.cli import grade
from gpututor.cli.main import main
from gpututor.grading.report import Outcome, Report
from gpututor.progress.recordings import Recordings
from gpututor.progress.store import ProgressStore
from tests.support.tiny_course import write_course

TRUSTED = ("--isolation", "process")
RIGHT = "def twice(number):\n    return 2 * number\n\n\nif __name__ == '__main__':\n    print(twice(21))\n"


@pytest.fixture
def course(tmp_path: Path) -> Path:
    return write_course(tmp_path / "course", exercises=1)


@pytest.fixture
def solution(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(RIGHT)
    return path


def gpututor(*words: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gpututor", *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        env={**os.environ, **environment},
        timeout=120,
    )


def test_a_right_file_passes_with_exit_code_zero(course: Path, solution: Path) -> None:
    done = gpututor("--course", course, "grade", "1.1", "--file", solution, *TRUSTED)

    assert done.returncode == 0, done.stderr
    assert "✓ passed   The answer is right" in done.stdout
    assert "✓ Passed: all 3 checks" in done.stdout
    assert "virtual T4 (modelled)" in done.stdout
    assert "isolation process" in done.stdout
    assert "worker" not in done.stdout
    assert "spare" not in done.stdout


def test_a_wrong_file_fails_with_exit_code_one_and_names_the_line(course: Path, solution: Path) -> None:
    solution.write_text("def twice(number):\n    return number\n")

    done = gpututor("--course", course, "grade", "1.1", "--file", solution, *TRUSTED)

    assert done.returncode == 1
    assert "✗ failed   The answer is right" in done.stdout
    assert "line      2: return number" in done.stdout
    assert "✗ Failed: 2 of 3 checks passed" in done.stdout


def test_the_report_comes_as_json(course: Path, solution: Path) -> None:
    done = gpututor("--course", course, "grade", "1.1", "--file", solution, *TRUSTED, "--json", "--seed", 5)

    report = Report.from_json(json.loads(done.stdout))
    assert report.outcome is Outcome.PASSED
    assert report.environment.seed == 5


def test_ones_own_file_is_graded_and_recorded(course: Path, tmp_path: Path) -> None:
    home = {"GPUTUTOR_HOME": str(tmp_path / "home")}
    assert gpututor("--course", course, "init", **home).returncode == 0
    own = tmp_path / "home" / "workspace-tiny" / "01_lesson_1" / "01_twice_1_1.py"
    own.write_text(RIGHT)

    done = gpututor("--course", course, "grade", "twice_1_1", **home)

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == "", "no terminal wants to know how long it takes"
    assert "1 of 1 passed" in gpututor("--course", course, "list", **home).stdout
    (path,) = (tmp_path / "home").rglob("progress.sqlite3")
    store = ProgressStore(path)
    attempt = store.latest("lesson_1/twice_1_1")
    store.close()
    assert attempt is not None
    assert attempt.source == RIGHT
    assert Recordings.beside(store).read(attempt.id) is not None
    assert [entry.name for entry in path.with_name("recordings").iterdir()] == [str(attempt.id)]


@pytest.mark.parametrize("verb", ["grade", "run"])
def test_another_file_is_not_mistaken_for_ones_own(
    course: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    assert main(["--course", str(course), "init"]) == 0
    other, stranger = tmp_path / "elsewhere" / "01_twice_1_1.py", tmp_path / "elsewhere" / "doubled.py"
    other.parent.mkdir()
    other.write_text(RIGHT)
    stranger.write_text(RIGHT)
    capsys.readouterr()

    assert main(["--course", str(course), verb, str(other)]) == 2
    told = capsys.readouterr()
    assert f"{other} is not your file of 1.1" in told.err
    assert f"`gpututor {verb} twice_1_1 --file {other}`" in told.err
    assert main(["--course", str(course), verb, str(stranger)]) == 2
    assert main(["--course", str(course), "list"]) == 0
    assert "0 of 1 passed" in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["missing", "folder", "link", "pipe", "huge", "binary"])
def test_what_is_no_solution_file_is_refused_with_exit_code_two(course: Path, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "odd.py"
    match kind:
        case "folder":
            path.mkdir()
        case "link":
            path.symlink_to("/etc/passwd")
        case "pipe":
            os.mkfifo(path)
        case "huge":
            path.write_bytes(b"#" * ((1 << 20) + 1))
        case "binary":
            path.write_bytes(b"\xff\xfe\x00")

    done = gpututor("--course", course, "grade", "1.1", "--file", path)

    assert done.returncode == 2
    assert str(path) in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("verb", ["grade", "run", "diff", "reset"])
@pytest.mark.parametrize("kind", ["pipe", "link to itself"])
def test_every_verb_tells_the_truth_about_an_own_file_that_is_none(
    course: Path, tmp_path: Path, kind: str, verb: str
) -> None:
    home = {"GPUTUTOR_HOME": str(tmp_path / "home")}
    assert gpututor("--course", course, "init", **home).returncode == 0
    own = tmp_path / "home" / "workspace-tiny" / "01_lesson_1" / "01_twice_1_1.py"
    own.unlink()
    os.mkfifo(own) if kind == "pipe" else own.symlink_to(own)

    done = gpututor("--course", course, verb, "1.1", *(["--yes"] if verb in ("diff", "reset") else []), **home)

    assert done.returncode == 2
    assert str(own) in done.stderr
    assert ("Not an ordinary file" if kind == "pipe" else "link") in done.stderr
    assert "not there" not in done.stderr


@pytest.mark.long
def test_an_own_file_may_be_a_link(course: Path, solution: Path, tmp_path: Path) -> None:
    home = {"GPUTUTOR_HOME": str(tmp_path / "home")}
    assert gpututor("--course", course, "init", **home).returncode == 0
    own = tmp_path / "home" / "workspace-tiny" / "01_lesson_1" / "01_twice_1_1.py"
    own.unlink()
    own.symlink_to(solution)

    assert gpututor("--course", course, "grade", "1.1", **home).returncode == 0


@pytest.mark.parametrize("seed", ["-1", str(2**32), "99999999999999999999999", "1.5", "one", "9" * 5000])
def test_a_seed_that_no_generator_takes_is_a_usage_error(
    course: Path, solution: Path, seed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["--course", str(course), "grade", "1.1", "--file", str(solution), "--seed", seed])
    assert "a seed is a whole number from 0 to 4294967295" in capsys.readouterr().err


def test_the_help_says_which_seeds_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["grade", "--help"])
    assert "0 to 4294967295" in " ".join(capsys.readouterr().out.split())


@pytest.mark.long
def test_the_largest_seed_is_graded(course: Path, solution: Path) -> None:
    done = gpututor("--course", course, "grade", "1.1", "--file", solution, *TRUSTED, "--seed", 2**32 - 1)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("options", "exit_code", "words"),
    [
        (["--device", "cuda:5"], 3, "Try --device virtual"),
        (["--device", "gpu"], 2, "There is no device called 'gpu'"),
        pytest.param(["--gpu", "T5"], 2, "No GPU is called 'T5'", marks=pytest.mark.long),
        pytest.param(["--gpus", "9"], 2, "9 virtual GPUs are not possible", marks=pytest.mark.long),
    ],
)
def test_a_device_that_cannot_be_is_told(
    course: Path, solution: Path, options: list[str], exit_code: int, words: str
) -> None:
    done = gpututor("--course", course, "grade", "1.1", "--file", solution, *TRUSTED, *options)

    assert done.returncode == exit_code
    assert words in done.stdout + done.stderr


def test_what_a_learner_prints_reaches_the_terminal_as_plain_text(course: Path, solution: Path) -> None:
    solution.write_text("print('\\x1b[31mred\\x07 [/int]')\n" + RIGHT)

    done = gpututor("--course", course, "grade", "1.1", "--file", solution, *TRUSTED)

    assert "\x1b" not in done.stdout
    assert "\x07" not in done.stdout
    assert "[/int]" in done.stdout


def test_run_shows_what_the_script_prints_and_ends_with_its_exit_code(course: Path, solution: Path) -> None:
    solution.write_text(
        RIGHT + "    import sys, torch\n    print(torch.ones(2, device='cuda').device)\n    sys.exit(7)\n"
    )

    done = gpututor("--course", course, "run", "1.1", "--file", solution)

    assert done.returncode == 7
    assert done.stdout == "42\ncuda:0\n"
    assert "virtual T4 (modelled)" in done.stderr


def test_run_shows_the_learners_part_of_a_traceback(course: Path, solution: Path) -> None:
    solution.write_text("import torch\ntorch.ones(2, device='cuda') + torch.ones(2)\n")

    done = gpututor("--course", course, "run", "1.1", "--file", solution)

    assert done.returncode == 1
    assert "line 2" in done.stderr
    assert "found at least two devices, cuda:0 and cpu!" in done.stderr
    assert "gpututor/" not in done.stderr.replace(str(solution), "")


def test_run_on_two_gpus_of_another_model(course: Path, solution: Path) -> None:
    solution.write_text("import torch\nprint(torch.cuda.device_count(), torch.cuda.get_device_name(1))\n")

    done = gpututor("--course", course, "run", "1.1", "--file", solution, "--gpu", "H100", "--gpus", 2)

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("2 NVIDIA H100")


def test_run_on_the_cpu_has_no_gpu(course: Path, solution: Path) -> None:
    solution.write_text("import torch\nprint(torch.cuda.is_available())\n")

    done = gpututor("--course", course, "run", "1.1", "--file", solution, "--device", "cpu")

    assert done.stdout == "False\n"


def test_grade_takes_one_gpu(course: Path, solution: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--course", str(course), "grade", "1.1", "--file", str(solution), "--gpu", "T4,A100"]) == 2
    assert "--gpu: grade takes one GPU, not 'T4,A100'." in capsys.readouterr().err


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
def test_only_files_of_the_learners_own_folder_run_beside_what_is_the_learners(
    course: Path, solution: Path, tmp_path: Path, options: list[str], isolation: str
) -> None:
    assert main(["--course", str(course), "init", str(tmp_path / "workspace")]) == 0
    mine = tmp_path / "workspace" / "01_lesson_1" / "01_twice_1_1.py"
    parser = argparse.ArgumentParser()
    parser.add_argument("--workspace", type=Path)
    grade.add_arguments(parser)
    words = [option.format(mine=mine, theirs=solution) for option in options]

    arguments = parser.parse_args(["--workspace", str(tmp_path / "workspace"), "1.1", *words])
    assert grade.isolation_for(arguments) == isolation


def test_another_persons_file_is_refused_where_there_is_no_bubblewrap(course: Path, solution: Path) -> None:
    done = gpututor("--course", course, "grade", "1.1", "--file", solution, PATH="/nowhere")

    assert done.returncode == 3
    assert "Not gradable here" in done.stdout
    assert "not installed" in done.stdout or "Linux only" in done.stdout
    assert "`--isolation process`" in done.stdout
    assert "passed" not in done.stdout
