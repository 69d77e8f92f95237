"""Each verb does what its help promises, and bad input ends with its exit code."""

from __future__ import annotations

import argparse
import json
import os
import sys
from contextlib import closing
from pathlib import Path

import pytest

from gpututor import doctor, paths
from gpututor.cli import list as list_verb
from gpututor.cli.grading import save_attempt
from gpututor.cli.main import main
from gpututor.cli.options import attempt_writer, open_progress
from gpututor.course.loader import load_course
from gpututor.course.model import MAX_SUBMISSION_BYTES, Exercise
from gpututor.course.workspace import Workspace, make_workspace
from gpututor.errors import UsageError
from gpututor.grading.report import Outcome
from gpututor.progress.attempt_writer import FinishedRun
from gpututor.progress.store import ProgressStore
from tests.support.classes import report_of
from tests.support.command_line import Call, Terminal
from tests.support.reports import report
from tests.support.tiny_course import FILES, RIGHT, append


def record(key: str, *outcomes: Outcome) -> None:
    with closing(ProgressStore(paths.progress_file("tiny"))) as store:
        for outcome in outcomes:
            store.record(report(key, outcome))


def hints_used() -> int:
    with closing(ProgressStore(paths.progress_file("tiny"))) as store:
        return store.hints_used("lesson_1/twice_1_1")


def break_an_exercise(course_folder: Path) -> Path:
    path = course_folder / "01_lesson_1" / "02_twice_1_2" / "exercise.toml"
    path.write_text("title = \x1b[31m\n")
    return path


def test_list_shows_the_state_of_each_exercise(gpututor: Call) -> None:
    record("lesson_1/twice_1_1", Outcome.FAILED, Outcome.PASSED)
    record("lesson_1/twice_1_2", Outcome.FAILED)
    said = gpututor("list")
    assert (said.code, said.err) == (0, "")
    assert said.out == (
        "1 Small things\n"
        "  ✓ passed   1.1 twice_1_1  Twice 1    5 min  2 attempts\n"
        "  ◐ started  1.2 twice_1_2  Twice 2    5 min  1 attempt\n"
        "\n"
        "2 Small things\n"
        "  ○ to do    2.1 twice_2_1  Twice 1    5 min\n"
        "  ○ to do    2.2 twice_2_2  Twice 2    5 min\n"
        "\n"
        "1 of 4 passed\n"
    )


@pytest.fixture(params=["course.toml", "02_lesson_2/lesson.toml", "01_lesson_1/02_twice_1_2/exercise.toml"])
def broken(request: pytest.FixtureRequest, course_folder: Path) -> Path:
    """A manifest of the course that is missing."""
    path: Path = course_folder / request.param
    path.unlink()
    return path


def test_list_reports_a_missing_manifest(gpututor: Call, broken: Path) -> None:
    said = gpututor("list")
    assert (said.code, str(broken) in said.err) == (2, True)
    said = gpututor("list", "--json")
    assert (said.code, said.err) == (2, "")
    assert str(broken) in json.loads(said.out)["problems"][0]["title"]


def test_list_reports_a_broken_manifest_and_json_has_course_and_problems(gpututor: Call, course_folder: Path) -> None:
    path = break_an_exercise(course_folder)
    said = gpututor("list")
    assert said.code == 2
    assert "twice_1_2" not in said.out
    assert said.out.count("to do") == 3
    assert str(path) in said.err
    assert "\x1b" not in said.err
    record("lesson_2/twice_2_1", Outcome.PASSED)
    gpututor("hint", "2.1")
    said = gpututor("list", "--json")
    listed = json.loads(said.out)
    assert (said.code, said.err) == (2, "")
    assert listed["schema_version"] == 1
    assert listed["course"] == {"id": "tiny", "title": "A tiny course", "folder": str(course_folder)}
    assert [len(lesson["exercises"]) for lesson in listed["lessons"]] == [1, 2]
    assert listed["lessons"][1]["exercises"][0] == {
        "label": "2.1",
        "key": "lesson_2/twice_2_1",
        "slug": "twice_2_1",
        "title": "Twice 1",
        "summary": "Double a number.",
        "minutes": 5,
        "difficulty": "medium",
        "prerequisites": [],
        "paths": [],
        "devices": ["virtual", "cuda", "cpu"],
        "state": "passed",
        "attempts": 1,
        "hints_used": 1,
    }
    assert listed["problems"][0]["title"].startswith(f"{path}: ")


def test_list_shows_one_learning_path(gpututor: Call, course_folder: Path) -> None:
    path = '[[path]]\nname = "core"\ntitle = "core path"\nexercises = ["twice_2_1"]\n'
    append(course_folder / "course.toml", path)
    record("lesson_2/twice_2_1", Outcome.PASSED)
    said = gpututor("list", "--path", "core")
    assert (said.code, said.err) == (0, "")
    assert "2.1" in said.out
    assert "1.1" not in said.out
    assert "1 of 1 passed" in said.out
    listed = json.loads(gpututor("list", "--path", "core", "--json").out)
    assert [each["paths"] for lesson in listed["lessons"] for each in lesson["exercises"]] == [["core"]]
    assert gpututor("list").out.count("★") == 1
    said = gpututor("list", "--path", "short")
    assert said.code == 2
    assert "core" in said.err


def test_list_works_without_readable_progress_and_sets_damaged_progress_aside(gpututor: Call) -> None:
    paths.data_folder().parent.mkdir(exist_ok=True)
    paths.data_folder().write_text("in the way")
    said = gpututor("list")
    assert said.code == 0
    assert said.out.count("to do") == 4
    assert str(paths.data_folder()) in said.err
    paths.data_folder().unlink()
    paths.progress_file("tiny").parent.mkdir(parents=True)
    paths.progress_file("tiny").write_text("damaged " * 100)
    said = gpututor("list")
    assert said.code == 0
    assert str(next(paths.progress_file("tiny").parent.glob("progress.damaged-*"))) in said.err


def test_init_makes_and_lists_the_missing_files(gpututor: Call, tmp_path: Path, course_folder: Path) -> None:
    folder = tmp_path / "mine"
    said = gpututor("init", str(folder))
    assert said.code == 0
    assert "made 01_lesson_1/01_twice_1_1.py\n" in said.out
    assert said.out.endswith(f"4 new files in {folder}\n")
    (folder / "01_lesson_1" / "01_twice_1_1.py").unlink()
    assert gpututor("init").out == f"made 01_lesson_1/01_twice_1_1.py\n1 new file in {folder}\n"
    assert gpututor("init", str(folder)).out == f"Nothing was missing from {folder}\n"
    (course_folder / "02_lesson_2" / "01_twice_2_1" / "starter.py").write_text("changed = 1\n")
    assert "`gpututor reset twice_2_1`" in gpututor("init").out


def test_hints_come_one_at_a_time_or_all_and_are_counted(gpututor: Call) -> None:
    first = gpututor("hint", "1.1")
    assert first.out == "Hint 1 of 3\n\nLook\nLook at the name.\n\n2 more to come.\n"
    assert gpututor("hint", "twice_1_1").out.startswith("Hint 2 of 3\n\nThink")
    assert gpututor("hint", "1.1").out.endswith("That was the last one.\n")
    for _ in range(2):
        assert gpututor("hint", "1.1").out.startswith("You have seen all 3")
    assert hints_used() == 3
    gpututor("hint", "1.1")
    for _ in range(2):
        assert gpututor("hint", "1.1", "--all").out.count("Hint ") == 3
    assert hints_used() == 3


@pytest.mark.parametrize("verb", ["solution", "diff"])
def test_solution_and_diff_need_a_pass_or_yes(gpututor: Call, verb: str) -> None:
    gpututor("init")
    refused = gpututor(verb, "1.1")
    assert (refused.code, refused.out) == (1, "")
    assert f"`gpututor {verb} twice_1_1 --yes`" in refused.err
    record("lesson_1/twice_1_1", Outcome.FAILED)
    assert gpututor(verb, "1.1").code == 1
    insisted = gpututor(verb, "1.1", "--yes")
    assert (insisted.code, insisted.err) == (0, "")
    assert "return 2 * number" in insisted.out
    record("lesson_1/twice_1_1", Outcome.PASSED)
    assert gpututor(verb, "1.1") == insisted


def test_diff_needs_a_workspace_and_init_makes_the_default_one(gpututor: Call, tmp_path: Path) -> None:
    for options, command in (((), "`gpututor init`"), (("--workspace", str(tmp_path)), f"`gpututor init {tmp_path}`")):
        said = gpututor("diff", "1.1", "--yes", *options)
        assert (said.code, command in said.err) == (2, True)
    assert gpututor("init").out.endswith(f"4 new files in {paths.default_workspace('tiny')}\n")
    first, second = tmp_path / "first", tmp_path / "second"
    gpututor("init", str(first))
    assert f"`gpututor init {first}`" in gpututor("init", str(second)).out
    assert str(first) not in gpututor("init", str(second)).out


@pytest.fixture
def mine(course_folder: Path) -> tuple[Workspace, Exercise]:
    """The learner's workspace, with `mine = 1` in the file of the first exercise."""
    course = load_course(course_folder)
    workspace, _ = make_workspace(paths.default_workspace("tiny"), course)
    workspace.write(course.exercises[0], "mine = 1\n")
    return workspace, course.exercises[0]


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("YES\n", 0), ("n\n", 1), ("\n", 1), ("", 1)])
def test_reset_asks_first(
    gpututor: Call, mine: tuple[Workspace, Exercise], monkeypatch: pytest.MonkeyPatch, answer: str, code: int
) -> None:
    workspace, exercise = mine
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    said = gpututor("reset", "1.1")
    assert (said.code, "[y/N]" in said.err) == (code, True)
    assert workspace.read(exercise) == ("mine = 1\n" if code else FILES["starter.py"])


def test_reset_names_the_backup_and_diff_is_unified(gpututor: Call, mine: tuple[Workspace, Exercise]) -> None:
    workspace, exercise = mine
    refused = gpututor("reset", "1.1")
    assert (refused.code, workspace.read(exercise)) == (2, "mine = 1\n")
    assert "`--yes`" in refused.err
    said = gpututor("reset", "1.1", "--yes")
    (backup,) = (workspace.folder / ".backups").iterdir()
    assert (said.code, str(backup) in said.out) == (0, True)
    assert backup.read_text() == "mine = 1\n"
    workspace.path_of(exercise).unlink()
    assert gpututor("reset", "1.1").code == 0
    assert workspace.read(exercise) == FILES["starter.py"]
    workspace.write(exercise, "def twice(number):\n    return '\x1b[31m'")
    said = gpututor("diff", "1.1", "--yes")
    assert said.out == (
        "--- 01_lesson_1/01_twice_1_1.py\n"
        "+++ solution\n"
        "@@ -1,2 +1,2 @@\n"
        " def twice(number):\n"
        "-    return '\\x1b[31m'\n"
        "+    return 2 * number\n"
    )
    workspace.write(exercise, exercise.solution)
    same = gpututor("diff", "1.1", "--yes")
    assert (same.code, same.out.count("\n"), "@@" in same.out) == (0, 1, False)


def test_devices_are_listed_as_text_and_json_and_need_torch(gpututor: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    said = gpututor("devices")
    assert (said.code, said.err) == (0, "")
    names = [line.split()[0] for line in said.out.splitlines()]
    assert (names[0], names[-2:]) == ("cpu", ["virtual", "PyTorch"])
    listed = json.loads(gpututor("devices", "--json").out)
    assert sorted(listed) == ["devices", "error", "probed_at", "schema_version", "torch"]
    assert listed["devices"][0]["name"] == "cpu"
    monkeypatch.setattr("gpututor.hardware.inventory.torch_version", lambda: "")
    said = gpututor("devices")
    assert (said.code, said.out) == (1, "")
    assert "pip install 'torch>=" in said.err
    assert "not installed" in json.loads(gpututor("devices", "--json").out)["error"]


def test_doctor_finds_nothing_wrong_here(gpututor: Call) -> None:
    gpututor("init")
    gpututor("hint", "1.1")
    said = gpututor("doctor")
    assert said.code == 0, said.out
    abouts = ["gpututor", "Python", "torch", "device", "PyTorch", "isolation", "course", "workspace"]
    assert all(f"  {about:<12}  " in said.out for about in (*abouts, "progress", "cache"))


def test_doctor_names_a_trial_of_bubblewrap_that_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "PROBE_TIMEOUT_S", 0.01)
    diagnosis = next(diagnosis for diagnosis in doctor.findings() if diagnosis.about == "isolation")
    assert diagnosis.state == doctor.NOTE
    assert "0.01 s" in diagnosis.words
    assert "gpututor doctor" in diagnosis.advice


def test_doctor_ends_with_1_if_something_is_wrong(gpututor: Call, course_folder: Path) -> None:
    break_an_exercise(course_folder)
    paths.data_folder().parent.mkdir(exist_ok=True)
    paths.data_folder().write_text("in the way")
    said = gpututor("doctor")
    assert said.code == 1
    wrong = [line.split()[1] for line in said.out.splitlines() if line.startswith("WRONG")]
    assert wrong == ["course", "progress"]


def test_doctor_names_an_entry_of_the_spool_that_cannot_be_stored(gpututor: Call) -> None:
    record("lesson_1/twice_1_1", Outcome.FAILED)
    (entry := paths.progress_file("tiny").with_name("spool") / "1-1-1").parent.mkdir()
    entry.write_text('{"report": ')
    gpututor("list")
    said = gpututor("doctor")
    assert said.code == 0
    assert [line.split()[:2] for line in said.out.splitlines() if str(entry.parent) in line] == [["note", "progress"]]
    assert entry.exists()


def test_an_exercise_is_looked_up_by_name_and_its_solution_printed(gpututor: Call) -> None:
    said = gpututor("hint", "twise_1_1")
    assert (said.code, said.out, "twice_1_1" in said.err) == (2, "", True)
    assert gpututor("solution", "1.1", "--yes").out == FILES["solution.py"]


@pytest.mark.parametrize("words", ["1.1", "twice_1_1", "lesson_1/twice_1_1"])
def test_a_broken_exercise_is_found_by_any_name(gpututor: Call, course_folder: Path, words: str) -> None:
    manifest = course_folder / "01_lesson_1" / "01_twice_1_1" / "exercise.toml"
    manifest.write_text("title = [")
    said = gpututor("grade", words)
    assert said.code == 2
    assert str(manifest) in said.err


def test_an_unknown_exercise_is_not_reported_as_broken(course_folder: Path) -> None:
    (course_folder / "01_lesson_1" / "01_twice_1_1" / "exercise.toml").unlink()
    with pytest.raises(UsageError, match=r"no exercise called '9\.9'"):
        load_course(course_folder).find("9.9")


@pytest.mark.parametrize("kind", ["too large", "not UTF-8", "a folder", "a pipe"])
def test_grade_json_reports_a_refused_file_as_rejected(gpututor: Call, tmp_path: Path, kind: str) -> None:
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


@pytest.mark.parametrize("error", [PermissionError(13, "Permission denied", "/x/y"), OSError(30, "Read-only", "/x/y")])
def test_a_system_error_names_the_path_and_ends_with_4(
    error: OSError, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(_: argparse.Namespace) -> int:
        raise error

    monkeypatch.setattr(list_verb, "main", refuse)
    assert main(["list"]) == 4
    assert "/x/y" in capsys.readouterr().err


def test_grade_works_without_a_writable_home(gpututor: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "in_the_way").write_text("")
    monkeypatch.setenv("GPUTUTOR_HOME", str(tmp_path / "in_the_way"))
    solution = tmp_path / "mine.py"
    solution.write_text(RIGHT)
    said = gpututor("grade", "1.1", "--file", str(solution), "--isolation", "process", "--json")
    assert said.code == 0, said.err
    assert json.loads(said.out)["outcome"] == "passed"


def test_an_attempt_that_cannot_be_saved_is_saved_at_the_next_start(
    course_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    course = load_course(course_folder)
    progress = paths.progress_file(course.place)
    progress.mkdir(parents=True)
    report = report_of("lesson_1/twice_1_1", Outcome.FAILED)

    save_attempt(attempt_writer(course), FinishedRun(report, "mine = 1\n"), lambda: print("shown"))

    printed = capsys.readouterr()
    assert printed.out == "shown\n"
    assert str(progress) in printed.err
    progress.rmdir()
    with open_progress(course) as store:
        assert store.summary()["lesson_1/twice_1_1"].attempts == 1


def test_only_an_empty_progress_file_is_mentioned(tmp_path: Path) -> None:
    def notice(path: Path) -> str:
        with closing(ProgressStore(path)) as store:
            return store.notice or ""

    empty = tmp_path / "empty.sqlite3"
    empty.touch()
    assert notice(tmp_path / "new.sqlite3") == ""
    assert str(empty) in notice(empty)
    assert notice(empty) == ""
    assert not any(tmp_path.glob("*.damaged-*"))


def test_watch_says_that_a_course_has_no_exercise(gpututor: Call, course_folder: Path) -> None:
    for manifest in course_folder.glob("*/*/exercise.toml"):
        manifest.unlink()
    said = gpututor("watch")
    assert (said.code, "there is no exercise in it" in said.err) == (2, True), said
