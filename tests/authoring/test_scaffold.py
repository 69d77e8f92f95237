"""`gpututor new` makes a skeleton with the next number and overwrites nothing; `gpututor verify` as a verb."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpututor.authoring.scaffold import make_exercise
from gpututor.cli.main import main
from gpututor.course.loader import load_course
from gpututor.errors import CourseError, UsageError
from tests.support.command_line import run_gpututor
from tests.support.skeletons import Change, skeleton


def content_of(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.long
def test_verify_accepts_a_new_exercise(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    course = tmp_path / "pack"
    assert main(["new", "--course", str(course), "first_steps/one_product"]) == 0
    out = capsys.readouterr().out
    made = course / "01_first_steps" / "01_one_product"
    assert f"made {made}\n" in out
    for name in ("lesson.md", "task.md", "solution.py", "given.py", "checks.py", "wrong", "starter.py", "hints.md"):
        assert f"\n  {name} " in out
    loaded = load_course(course)
    assert (loaded.problems, loaded.id, loaded.title) == ((), "pack", "Pack")
    assert [(exercise.label, exercise.entry) for exercise in loaded.exercises] == [("1.1", "one_product")]

    assert main(["verify", "--course", str(course)]) == 0
    out = capsys.readouterr().out
    assert "✓ lesson 1 first_steps" in out
    assert "✓ 1.1 one_product: 2" in out
    assert "(100 %)" in out
    assert "note: " in out
    assert out.splitlines()[-1].startswith("1 exercise: 1 of 1 ")
    assert out.splitlines()[-1].endswith("; no problems")


def test_new_exercises_get_the_next_number(tmp_path: Path) -> None:
    course = tmp_path / "pack"
    made = [make_exercise(course, words) for words in ("a/one", "b/two", "1/three", "02_b/four", "01/five", "b/six")]
    assert [made.exercise.relative_to(course).as_posix() for made in made] == [
        "01_a/01_one",
        "02_b/01_two",
        "01_a/02_three",
        "02_b/02_four",
        "01_a/03_five",
        "02_b/03_six",
    ]
    assert [made.lesson_is_new for made in made] == [True, True, False, False, False, False]
    (course / "02_b" / "07_gap").mkdir()
    assert make_exercise(course, "b/after").exercise.name == "08_after"


@pytest.mark.parametrize(
    "words", ["one", "a/", "/one", "a/One", "a/one two", "a/../one", "A/one", "a/pass", "a/b/c", ""]
)
def test_invalid_names_are_refused(tmp_path: Path, words: str) -> None:
    with pytest.raises(UsageError):
        make_exercise(tmp_path / "pack", words)
    assert not (tmp_path / "pack").exists()


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    course = tmp_path / "pack"
    folder = skeleton(course, "one", Change("task.md", "", "My own words.\n"))
    before = content_of(course)
    for words in ("lesson/one", "another/one", "1/one"):
        with pytest.raises(UsageError, match=str(folder)):
            make_exercise(course, words)
    make_exercise(course, "lesson/two")
    after = content_of(course)
    assert {name: after[name] for name in before} == before


def test_an_unwritable_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "pack").write_text("a file\n")
    with pytest.raises(CourseError, match="pack"):
        make_exercise(tmp_path / "pack", "a/one")


@pytest.mark.long
def test_verify_prints_problems_and_ends_with_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = skeleton(tmp_path / "pack", "one", Change("wrong/signs_lost.py", ".abs()", ""))
    assert main(["verify", str(folder), "--workers", "1", "--no-mutants"]) == 1
    out = capsys.readouterr().out
    assert "✗ 1.1 one: " in out
    assert f"  {folder}/wrong/signs_lost.py:1: it passes\n    → Add a check that detects the mistake" in out
    assert out.splitlines()[-1].endswith("; 1 problem")


@pytest.mark.long
def test_verify_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = skeleton(tmp_path / "pack", "one", Change("starter.py", "# TODO", "# todo"))
    assert main(["verify", str(folder), "--json"]) == 1
    out, err = capsys.readouterr()
    said = json.loads(out)
    assert "✗ 1.1 one: " in err
    assert (said["schema_version"], said["exercises"], said["lessons"], said["green"]) == (1, 1, 0, False)
    (subject,) = said["subjects"]
    (problem,) = subject["problems"]
    assert problem["file"] == str(folder / "starter.py")
    assert "`# TODO`" in problem["problem"]
    # Of the solution's five mutants, the detach has no effect.
    assert subject["mutants"]["killed"] == said["mutants"]["killed"] == 4
    assert said["gradings"] == subject["gradings"]


@pytest.mark.parametrize("words", [["nothing_of_the_kind"], ["--workers", "0"], ["--course", "/nowhere"], ["/"]])
def test_wrong_usage_ends_with_2(words: list[str]) -> None:
    ended = run_gpututor("verify", *words)
    assert ended.returncode == 2
    assert "Traceback" not in ended.stderr
