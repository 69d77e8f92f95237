"""What tools leave behind is passed over, and nobody's work or name with it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gpututor.classroom.intake import summary
from gpututor.course.model import Course
from tests.support.class_layouts import Content, Reader, facts, zipped

LaidOut = Callable[..., Path]
NAMES = ("kim~", "~kim", "lee.part", "zoe.pyc", "drafts 2")
"""Names of folders that only look like those of tools."""


@pytest.mark.parametrize("packed", [False, True])
def test_only_folders_with_the_very_names_of_tools_are_litter(
    laid_out: LaidOut, reading: Reader, tmp_path: Path, packed: bool
) -> None:
    files: dict[str, Content] = {f"{name}/5.1.py": f"# {name}" for name in (*NAMES, "ana")}
    files |= {"ana/drafts/in_place.py": "", "ana/venv/lib/code.py": "", ".git/5.1.py": "", "__pycache__/x.py": ""}
    files |= {"drafts/5.1.py": "", "__MACOSX/._my.py": ""}
    source = laid_out(files)
    if packed:
        source = tmp_path / "class.zip"
        source.write_bytes(zipped({f"export/{path}": content for path, content in files.items()}))
    found = reading(source)
    assert sorted(facts(found)) == sorted((name, "one_big_copy") for name in (*NAMES, "ana"))
    assert found.ignored == 6


def test_litter_does_not_keep_a_folder_around_everything_from_being_found(laid_out: LaidOut, reading: Reader) -> None:
    found = reading(laid_out({"all/ana/5.1.py": "a", "all/lee/5.1.py": "b", "__MACOSX/all/._5.1.py": "c"}))
    assert facts(found) == [("ana", "one_big_copy"), ("lee", "one_big_copy")]


def test_who_handed_in_nothing_but_litter_or_nothing_at_all_is_told(
    laid_out: LaidOut, reading: Reader, course: Course, tmp_path: Path
) -> None:
    files: dict[str, Content] = {"ana/5.1.py": "a", "kim/drafts/5.1.py": "b", "lee/5.1.py~": "c", "zoe.zip": zipped({})}
    source = laid_out(files)
    (source / "moe" / "05").mkdir(parents=True)
    (tmp_path / "class.zip").write_bytes(zipped({**files, "moe/": "", "moe/05/": ""}))
    for place in (source, tmp_path / "class.zip"):
        found = reading(place)
        assert [student.id for student in found.students] == ["ana", "kim", "lee", "moe", "zoe"]
        assert facts(found) == [("ana", "one_big_copy")]
        lines = summary(found, course)
        assert lines[lines.index("4 students handed in nothing that can be graded:") + 1 :][:4] == [
            "  kim",
            "  lee",
            "  moe",
            "  zoe",
        ]


def test_what_lies_in_an_exercises_folder_is_no_student(laid_out: LaidOut, reading: Reader) -> None:
    source = laid_out({"5.1/ana.py": "a", "5.1/README.md": "b", "5.1/.DS_Store": "c", "5.1/lee/solution.py": "d"})
    (source / "5.2").mkdir()
    found = reading(source)
    assert [student.id for student in found.students] == ["ana", "lee"]
    assert [one.source for one in found.unmatched] == ["5.1/README.md"]
