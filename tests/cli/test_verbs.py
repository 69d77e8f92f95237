"""Each verb says and does what its help promises, with its exit code."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from gpututor import paths
from gpututor.course.loader import load_course
from gpututor.course.workspace import make_workspace
from gpututor.grading.report import Outcome
from gpututor.progress.store import ProgressStore
from tests.support.command_line import Call
from tests.support.reports import report
from tests.support.tiny_course import FILES


def record(key: str, *outcomes: Outcome) -> None:
    store = ProgressStore(paths.progress_file("tiny"))
    for outcome in outcomes:
        store.record(report(key, outcome))
    store.close()


def break_an_exercise(course_folder: Path) -> Path:
    path = course_folder / "01_lesson_1" / "02_twice_1_2" / "exercise.toml"
    path.write_text("title = \x1b[31m\n")
    return path


def test_list_shows_each_exercise_with_its_state_as_glyph_and_word(gpututor: Call) -> None:
    record("lesson_1/twice_1_1", Outcome.FAILED, Outcome.PASSED)
    record("lesson_1/twice_1_2", Outcome.FAILED)
    said = gpututor("list")
    assert (said.code, said.err) == (0, "")
    assert said.out == (
        "1 Small things\n"
        "  ✓ passed   1.1   twice_1_1  Twice 1    5 min  2 attempts\n"
        "  ◐ started  1.2   twice_1_2  Twice 2    5 min  1 attempt\n"
        "\n"
        "2 Small things\n"
        "  ○ to do    2.1   twice_2_1  Twice 1    5 min\n"
        "  ○ to do    2.2   twice_2_2  Twice 2    5 min\n"
        "\n"
        "1 of 4 passed\n"
    )


def test_list_tells_what_is_broken_on_stderr_and_shows_the_rest(gpututor: Call, course_folder: Path) -> None:
    path = break_an_exercise(course_folder)
    said = gpututor("list")
    assert said.code == 2
    assert "twice_1_2" not in said.out
    assert said.out.count("to do") == 3
    assert said.err.startswith(f"gpututor: {path}: not TOML")
    assert "\x1b" not in said.err


def test_list_as_json_holds_the_course_the_progress_and_the_problems(gpututor: Call, course_folder: Path) -> None:
    record("lesson_2/twice_2_1", Outcome.PASSED)
    gpututor("hint", "2.1")
    path = break_an_exercise(course_folder)
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
        "devices": ["virtual", "cuda", "cpu"],
        "state": "passed",
        "attempts": 1,
        "hints_used": 1,
    }
    assert listed["problems"][0]["title"].startswith(f"{path}: not TOML")


def test_list_works_though_progress_cannot_be_read(gpututor: Call) -> None:
    paths.data_folder().parent.mkdir(exist_ok=True)
    paths.data_folder().write_text("in the way")
    said = gpututor("list")
    assert said.code == 0
    assert said.out.count("to do") == 4
    assert said.err.startswith("gpututor: Progress in ")


def test_damaged_progress_is_told_with_where_it_went(gpututor: Call) -> None:
    paths.progress_file("tiny").parent.mkdir(parents=True)
    paths.progress_file("tiny").write_text("damaged " * 100)
    said = gpututor("list")
    assert said.code == 0
    assert "damaged" in said.err
    assert str(next(paths.progress_file("tiny").parent.glob("progress.damaged-*"))) in said.err


def test_init_makes_the_missing_files_and_says_which(gpututor: Call, tmp_path: Path, course_folder: Path) -> None:
    folder = tmp_path / "mine"
    said = gpututor("init", str(folder))
    assert said.code == 0
    assert "made 01_lesson_1/01_twice_1_1.py\n" in said.out
    assert said.out.endswith(f"4 new files in {folder}\n")
    (folder / "01_lesson_1" / "01_twice_1_1.py").unlink()
    assert gpututor("init").out == f"made 01_lesson_1/01_twice_1_1.py\n1 new file in {folder}\n"
    assert gpututor("init", str(folder)).out == f"Nothing was missing in {folder}\n"
    (course_folder / "02_lesson_2" / "01_twice_2_1" / "starter.py").write_text("changed = 1\n")
    assert "2.1 twice_2_1 has a newer starter; `gpututor reset twice_2_1` takes it." in gpututor("init").out


def test_init_of_another_folder_says_that_it_is_the_learners_from_now_on(gpututor: Call, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    gpututor("init", str(first))
    said = f"From now on this is your folder. It was {first}; `gpututor init {first}` goes back."
    assert said in gpututor("init", str(second)).out
    assert "From now on" not in gpututor("init", str(second)).out


def test_init_without_a_folder_makes_the_default_one(gpututor: Call) -> None:
    assert gpututor("init").out.endswith(f"4 new files in {paths.default_workspace('tiny')}\n")


def test_hints_come_one_by_one_and_are_counted_and_end(gpututor: Call) -> None:
    first = gpututor("hint", "1.1")
    assert first.out == "Hint 1 of 3\n\nLook\nLook at the name.\n\n2 more to come.\n"
    assert gpututor("hint", "twice_1_1").out.startswith("Hint 2 of 3\n\nThink")
    assert gpututor("hint", "1.1").out.endswith("That was the last one.\n")
    for _ in range(2):
        assert gpututor("hint", "1.1").out.startswith("You have seen all 3 hints")
    store = ProgressStore(paths.progress_file("tiny"))
    assert store.hints_used("lesson_1/twice_1_1") == 3
    store.close()


def test_all_hints_are_shown_and_counted_at_once(gpututor: Call) -> None:
    gpututor("hint", "1.1")
    for _ in range(2):
        said = gpututor("hint", "1.1", "--all")
        assert said.out.count("Hint ") == 3
    store = ProgressStore(paths.progress_file("tiny"))
    assert store.hints_used("lesson_1/twice_1_1") == 3
    store.close()


@pytest.mark.parametrize("verb", ["solution", "diff"])
def test_the_solution_is_shown_after_a_pass_or_with_yes(gpututor: Call, verb: str) -> None:
    gpututor("init")
    refused = gpututor(verb, "1.1")
    assert (refused.code, refused.out) == (1, "")
    assert refused.err.startswith("gpututor: You have not passed 1.1 Twice 1 yet.\n")
    assert f"`gpututor {verb} twice_1_1 --yes`" in refused.err
    record("lesson_1/twice_1_1", Outcome.FAILED)
    assert gpututor(verb, "1.1").code == 1
    insisted = gpututor(verb, "1.1", "--yes")
    assert (insisted.code, insisted.err) == (0, "")
    assert "return 2 * number" in insisted.out
    record("lesson_1/twice_1_1", Outcome.PASSED)
    assert gpututor(verb, "1.1") == insisted


def test_the_solution_is_printed_as_it_is(gpututor: Call) -> None:
    assert gpututor("solution", "1.1", "--yes").out == FILES["solution.py"]


def test_diff_is_unified_and_shows_control_characters_as_text(gpututor: Call, course_folder: Path) -> None:
    workspace, _ = make_workspace(paths.default_workspace("tiny"), load_course(course_folder))
    exercise = load_course(course_folder).exercises[0]
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
    assert gpututor("diff", "1.1", "--yes").out == "Your file is the solution, line by line.\n"


def test_diff_without_a_workspace_says_how_to_make_one(gpututor: Call, tmp_path: Path) -> None:
    said = gpututor("diff", "1.1", "--yes")
    assert said.code == 2
    assert "`gpututor init` makes a folder with a file for each of the 4 exercises" in said.err
    said = gpututor("diff", "1.1", "--yes", "--workspace", str(tmp_path))
    assert said.code == 2
    assert f"`gpututor init {tmp_path}`" in said.err


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("YES\n", 0), ("n\n", 1), ("\n", 1), ("", 1)])
def test_reset_asks_and_does_what_was_answered(
    gpututor: Call, course_folder: Path, monkeypatch: pytest.MonkeyPatch, answer: str, code: int
) -> None:
    workspace, _ = make_workspace(paths.default_workspace("tiny"), load_course(course_folder))
    exercise = load_course(course_folder).exercises[0]
    workspace.write(exercise, "mine = 1\n")
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    said = gpututor("reset", "1.1")
    assert said.code == code
    assert "A backup is kept. [y/N]" in said.err
    assert workspace.read(exercise) == ("mine = 1\n" if code else FILES["starter.py"])


def test_reset_without_a_terminal_needs_yes_and_names_the_backup(gpututor: Call, course_folder: Path) -> None:
    workspace, _ = make_workspace(paths.default_workspace("tiny"), load_course(course_folder))
    exercise = load_course(course_folder).exercises[0]
    workspace.write(exercise, "mine = 1\n")
    refused = gpututor("reset", "1.1")
    assert (refused.code, workspace.read(exercise)) == (2, "mine = 1\n")
    assert "`--yes`" in refused.err
    said = gpututor("reset", "1.1", "--yes")
    (backup,) = (workspace.folder / ".backups").iterdir()
    assert said.code == 0
    assert str(backup) in said.out
    assert backup.read_text() == "mine = 1\n"
    workspace.path_of(exercise).unlink()
    assert "there was no file to keep" in gpututor("reset", "1.1").out
    assert workspace.read(exercise) == FILES["starter.py"]


def test_devices_are_told_in_words_and_as_json(gpututor: Call) -> None:
    said = gpututor("devices")
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith("cpu ")
    assert "virtual GPU" in said.out
    told = json.loads(gpututor("devices", "--json").out)
    assert sorted(told) == ["devices", "error", "probed_at", "schema_version", "torch"]
    assert told["devices"][0]["name"] == "cpu"


def test_devices_that_cannot_be_found_out_are_told_on_stderr(gpututor: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpututor.hardware.inventory.torch_version", lambda: "")
    said = gpututor("devices")
    assert (said.code, said.out) == (1, "")
    assert "pip install torch" in said.err
    assert "not installed" in json.loads(gpututor("devices", "--json").out)["error"]


def test_doctor_finds_nothing_wrong_here(gpututor: Call) -> None:
    gpututor("init")
    gpututor("hint", "1.1")
    said = gpututor("doctor")
    assert said.code == 0, said.out
    assert said.out.endswith("\nNothing is wrong.\n")
    for about in ("gpututor", "Python", "torch", "device", "isolation", "course", "workspace", "progress", "cache"):
        assert f"  {about:<12}  " in said.out


def test_doctor_says_what_is_wrong_and_ends_with_1(gpututor: Call, course_folder: Path) -> None:
    break_an_exercise(course_folder)
    paths.data_folder().parent.mkdir(exist_ok=True)
    paths.data_folder().write_text("in the way")
    said = gpututor("doctor")
    assert said.code == 1
    assert said.out.endswith("\n2 things to fix\n")
    wrong = [line.split()[1] for line in said.out.splitlines() if line.startswith("WRONG")]
    assert wrong == ["course", "progress"]


def test_an_exercise_that_is_not_there_is_told_with_the_nearest(gpututor: Call) -> None:
    said = gpututor("hint", "twise_1_1")
    assert (said.code, said.out) == (2, "")
    assert "Did you mean twice_1_1" in said.err
