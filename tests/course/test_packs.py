"""Courses that other packages bring: found by their name, side by side, and told where they are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpututor.cli.main import main
from gpututor.course.loader import course_folder
from gpututor.errors import CourseError
from tests.support.tiny_course import write_course


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two packages with a course each, and one whose course is gone, as an installer leaves them."""
    site = tmp_path / "site"
    for name, lessons in (("first_pack", 1), ("second_pack", 2)):
        write_course(site / name / "course", lessons=lessons)
        (site / name / "__init__.py").write_text("")
    for name, line in (
        ("first_pack", "first = first_pack.course"),
        ("second_pack", "second = second_pack.course"),
        ("gone", "gone = gone_pack.course"),
    ):
        about = site / f"{name}-1.0.dist-info"
        about.mkdir(parents=True)
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (about / "entry_points.txt").write_text(f"[gpututor.courses]\n{line}\n")
    monkeypatch.syspath_prepend(str(site))
    return site


def test_two_packs_stand_side_by_side(installed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert course_folder("first") == installed / "first_pack" / "course"
    assert main(["list", "--course", "second"]) == 0
    listed = capsys.readouterr().out
    assert "2.2" in listed
    assert main(["list", "--course", "first"]) == 0
    assert "2.2" not in capsys.readouterr().out


def test_a_folder_comes_before_a_name(installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert course_folder("./first") == Path("./first")
    write_course(tmp_path / "first")
    assert course_folder("first") == Path("first")


def test_a_name_that_nobody_has_is_told_with_the_nearest(installed: Path) -> None:
    with pytest.raises(CourseError) as told:
        course_folder("secnod")
    assert "no installed course of that name" in told.value.title
    assert "Did you mean 'second'? Installed: first, gone, second." in told.value.advice


def test_an_entry_point_that_leads_nowhere_is_told(installed: Path) -> None:
    with pytest.raises(CourseError, match=r"gone_pack\.course, and there is no such package"):
        course_folder("gone")


def test_without_packs_a_word_is_a_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--course", "nowhere"]) != 0
    assert "there is no such folder" in capsys.readouterr().err
