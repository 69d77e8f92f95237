"""Bad input and bad surroundings: each ends in words and with its exit code, and nothing is lost."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

import pytest

from gpututor import paths
from gpututor.cli import list as list_verb
from gpututor.cli.grade import save_attempt
from gpututor.cli.main import main
from gpututor.cli.options import attempt_writer, open_progress
from gpututor.course.loader import load_course
from gpututor.course.model import MAX_SUBMISSION_BYTES
from gpututor.errors import UsageError
from gpututor.grading.report import Outcome
from gpututor.progress.store import ProgressStore
from tests.support.classes import report_of
from tests.support.command_line import Call
from tests.support.trace_command import trace


@pytest.mark.parametrize("broken", ["course.toml", "01_lesson_1/01_twice_1_1/exercise.toml"])
@pytest.mark.parametrize("options", [(), ("--json",)], ids=["table", "json"])
def test_list_of_a_broken_course_ends_with_2(
    gpututor: Call, course_folder: Path, broken: str, options: tuple[str, ...]
) -> None:
    path = course_folder / broken
    path.unlink()
    said = gpututor("list", *options)
    assert said.code == 2
    told = json.loads(said.out)["problems"][0]["title"] if options else said.err
    assert str(path) in told


@pytest.mark.parametrize("words", ["1.1", "twice_1_1", "lesson_1/twice_1_1"])
def test_a_broken_exercise_is_called_broken(gpututor: Call, course_folder: Path, words: str) -> None:
    manifest = course_folder / "01_lesson_1" / "01_twice_1_1" / "exercise.toml"
    manifest.write_text("title = [")
    said = gpututor("grade", words)
    assert said.code == 2
    assert str(manifest) in said.err
    assert "no exercise called" not in said.err


def test_an_exercise_that_is_not_there_is_not_called_broken(course_folder: Path) -> None:
    (course_folder / "01_lesson_1" / "01_twice_1_1" / "exercise.toml").unlink()
    with pytest.raises(UsageError, match=r"no exercise called '9\.9'"):
        load_course(course_folder).find("9.9")


@pytest.mark.parametrize("kind", ["too large", "not UTF-8", "a folder", "a pipe"])
def test_a_refused_file_is_a_rejected_report_as_json(gpututor: Call, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "mine.py"
    if kind == "a folder":
        path.mkdir()
    elif kind == "a pipe":
        os.mkfifo(path)
    else:
        path.write_bytes(b"\xff\xfe" if kind == "not UTF-8" else b"#" * (MAX_SUBMISSION_BYTES + 1))
    said = gpututor("grade", "1.1", "--file", str(path), "--json")
    report = json.loads(said.out)
    assert (said.code, report["outcome"], report["final"]) == (2, "rejected", False)
    assert str(path) in report["reason"]


def test_a_pipe_or_a_device_is_no_script_to_trace(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    for name in ("pipe.py", "/dev/zero"):
        done = trace(tmp_path, name)
        assert (done.returncode, done.stdout) == (2, "")
        assert name in done.stderr


@pytest.mark.parametrize("error", [PermissionError(13, "Permission denied", "/x/y"), OSError(30, "Read-only", "/x/y")])
def test_what_the_system_refuses_is_told_in_words_with_4(
    error: OSError, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(_: argparse.Namespace) -> int:
        raise error

    monkeypatch.setattr(list_verb, "main", refuse)
    assert main(["list"]) == 4
    assert "/x/y" in capsys.readouterr().err


def test_grade_needs_no_home_that_can_be_written(
    gpututor: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in_the_way").write_text("")
    monkeypatch.setenv("GPUTUTOR_HOME", str(tmp_path / "in_the_way"))
    solution = tmp_path / "mine.py"
    solution.write_text("def twice(number):\n    return 2 * number\n")
    said = gpututor("grade", "1.1", "--file", str(solution), "--isolation", "process", "--json")
    assert said.code == 0, said.err
    assert json.loads(said.out)["outcome"] == "passed"


def test_an_attempt_that_cannot_be_recorded_now_is_recorded_at_the_next_start(
    course_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    course = load_course(course_folder)
    progress = paths.progress_file(course.place)
    progress.mkdir(parents=True)
    report = report_of("lesson_1/twice_1_1", Outcome.FAILED)

    save_attempt(attempt_writer(course), report, "mine = 1\n", None, lambda: print("shown"))

    printed = capsys.readouterr()
    assert printed.out == "shown\n"
    assert str(progress) in printed.err
    progress.rmdir()
    with open_progress(course) as store:
        assert store.summary()["lesson_1/twice_1_1"].attempts == 1


def test_an_empty_progress_file_is_told(tmp_path: Path) -> None:
    path = tmp_path / "progress.sqlite3"
    path.touch()
    store = ProgressStore(path)
    assert store.notice is not None
    assert str(path) in store.notice
    store.close()
    again = ProgressStore(path)
    assert again.notice is None
    again.close()
    assert not any(tmp_path.glob("*.damaged-*"))


def test_a_new_progress_file_is_not_told(tmp_path: Path) -> None:
    store = ProgressStore(tmp_path / "progress.sqlite3")
    assert store.notice is None
    store.close()
