"""Targets of `gpututor verify`: parts of a course by word or path."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpututor.authoring.verify import targets_of
from gpututor.errors import UsageError
from tests.support.tiny_course import write_course


@pytest.fixture
def course(tmp_path: Path) -> Path:
    return write_course(tmp_path / "course", exercises=2, lessons=2)


def named(course: Path, *words: str) -> list[tuple[list[int], list[str]]]:
    """Return the lesson numbers and exercise labels of each course."""
    return [
        ([lesson.number for lesson in target.lessons], [exercise.label for exercise in target.exercises])
        for target in targets_of(course, words)
    ]


def test_without_words_the_target_is_the_whole_course_and_several_are_one(course: Path, tmp_path: Path) -> None:
    assert named(course) == [([1, 2], ["1.1", "1.2", "2.1", "2.2"])]
    other = write_course(tmp_path / "other", exercises=1)
    assert named(course, "2.2", "1", str(other / "01_lesson_1")) == [([1], ["1.1", "1.2", "2.2"]), ([1], ["1.1"])]


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("1.2", ([], ["1.2"])),
        ("twice_2_1", ([], ["2.1"])),
        ("2", ([2], ["2.1", "2.2"])),
        ("lesson_2", ([2], ["2.1", "2.2"])),
        ("02_lesson_2", ([2], ["2.1", "2.2"])),
    ],
)
def test_a_word_names_a_part_of_the_course(course: Path, word: str, expected: object) -> None:
    assert named(course, word) == [expected]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("01_lesson_1/02_twice_1_2", ([], ["1.2"])),
        ("01_lesson_1/02_twice_1_2/checks.py", ([], ["1.2"])),
        ("01_lesson_1/02_twice_1_2/wrong/once.py", ([], ["1.2"])),
        ("02_lesson_2", ([2], ["2.1", "2.2"])),
        ("02_lesson_2/lesson.md", ([2], ["2.1", "2.2"])),
        ("", ([1, 2], ["1.1", "1.2", "2.1", "2.2"])),
    ],
)
def test_a_path_names_its_own_course(course: Path, tmp_path: Path, path: str, expected: object) -> None:
    other = write_course(tmp_path / "other", exercises=1)
    assert named(other, str(course / path)) == [expected]


def test_only_problems_of_the_named_part_are_reported_and_unknown_words_refused(course: Path) -> None:
    for broken in ("01_twice_1_1", "02_twice_1_2"):
        (course / "01_lesson_1" / broken / "task.md").unlink()
    (targets,) = targets_of(course, [str(course / "01_lesson_1" / "02_twice_1_2")])
    assert targets.exercises == ()
    (problem,) = targets.problems
    assert problem.title.endswith("02_twice_1_2/task.md: the file is missing")
    folder = course / "01_lesson_1" / "02_twice_1_2"
    (folder / "exercise.toml").unlink()
    (folder / "task.md").write_text("")
    (targets,) = targets_of(course, [str(folder)])
    assert [problem.title for problem in targets.problems] == [f"{folder}/exercise.toml: the file is missing"]
    with pytest.raises(UsageError, match="no exercise called 'twise'"):
        targets_of(course, ["twise"])
