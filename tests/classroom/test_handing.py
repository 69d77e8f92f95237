"""Handing in: a student's zip."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from gpututor.classroom.folder import ClassFolder
from gpututor.classroom.intake import read_class
from gpututor.classroom.intake.archive import MANIFEST
from gpututor.classroom.intake.layouts import METADATA
from gpututor.classroom.packing import named, pack_of, write_student_course, zip_of
from gpututor.cli.main import main
from gpututor.course.loader import load_course
from gpututor.course.model import Course
from gpututor.course.workspace import Workspace, make_workspace
from tests.support.tiny_course import write_course

MINE = "def twice(number):\n    return number + number  # é\n"


class Said(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def course(tmp_path: Path) -> Course:
    return load_course(write_course(tmp_path / "course", exercises=3, lessons=2))


@pytest.fixture
def workspace(course: Course, tmp_path: Path) -> Workspace:
    return make_workspace(tmp_path / "work", course)[0]


@pytest.fixture
def gpututor(course: Course, workspace: Workspace, capfd: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    def call(*words: str) -> Said:
        capfd.readouterr()
        code = main(["--course", str(course.folder), "--workspace", str(workspace.folder), *words])
        return Said(code, *capfd.readouterr())

    return call


Call = Callable[..., Said]


def path_of(workspace: Workspace, course: Course, label: str) -> Path:
    return workspace.path_of(course.find(label))


def names_in(path: Path) -> list[str]:
    with zipfile.ZipFile(path) as archive:
        return archive.namelist()


# pack


def test_what_was_changed_is_packed_and_all_else_is_told(
    gpututor: Call, course: Course, workspace: Workspace, tmp_path: Path
) -> None:
    path_of(workspace, course, "1.3").write_text(MINE)
    path_of(workspace, course, "2.2").write_text("def twice(:\n")
    path_of(workspace, course, "2.3").unlink()
    (workspace.folder / "01_lesson_1" / "notes.py").write_text("mine")
    said = gpututor("pack", "--out", str(tmp_path / "my.zip"), "--name", "Kim Lee")
    assert said.code == 0, said.err
    assert names_in(tmp_path / "my.zip") == ["01_lesson_1/03_twice_1_3.py", "02_lesson_2/02_twice_2_2.py", MANIFEST]
    lines = said.out.splitlines()
    assert lines[0] == f"Made {tmp_path / 'my.zip'}: 2 files to hand in, with the name Kim Lee."
    assert lines[1].split() == ["1.3", "01_lesson_1/03_twice_1_3.py", str(len(MINE.encode())), "bytes"]
    assert lines[3].strip().startswith("! Python cannot read it: line 1:")
    assert lines[5:] == [
        "Not in it, as you have not changed: 1.1, 1.2, 2.1.",
        "Not in it, as there is no file of: 2.3.",
        "Not in it, as no exercise is called so: 01_lesson_1/notes.py.",
    ]


def test_the_intake_reads_what_was_packed(gpututor: Call, course: Course, workspace: Workspace, tmp_path: Path) -> None:
    path_of(workspace, course, "1.1").write_bytes(b"\xef\xbb\xbf" + MINE.encode())
    handed_in = tmp_path / "handed in"
    handed_in.mkdir()
    assert gpututor("pack", "--out", str(handed_in / "kim.zip"), "--name", "Kim Lee").code == 0
    with zipfile.ZipFile(handed_in / "kim.zip") as archive, archive.open(MANIFEST) as stream:
        packed = json.loads(stream.read())
    assert (packed["course"], packed["student"]) == ("tiny", "Kim Lee")
    assert packed["exercises"] == {"01_lesson_1/01_twice_1_1.py": "lesson_1/twice_1_1"}
    out = ClassFolder(tmp_path / "out")
    found = read_class(handed_in, course, out)
    (student,), (one,) = found.students, found.handed_in
    assert (student.id, student.name, one.exercise, found.unmatched) == ("kim", "Kim Lee", "lesson_1/twice_1_1", ())
    assert out.submission(one.sha256).read_text() == MINE


@pytest.mark.parametrize("label", ["1.1", "1.2"])
def test_what_python_gives_up_on_is_told_in_words(workspace: Workspace, course: Course, label: str) -> None:
    deep = {"1.1": "-" * 500_000 + "1\n", "1.2": "x = " + "not " * 200_000 + "1\n"}[label]
    path_of(workspace, course, label).write_text(deep)
    (packed,) = pack_of(course, workspace, [course.find(label)]).files
    assert packed.warning == "Python cannot read it: it is nested too deeply."


PLACES = {
    "folders": "kim/gpututor-pack.zip",
    "gradescope": "submission_1/gpututor-pack.zip",
    "moodle": "Kim Roe_77_assignsubmission_file_/gpututor-pack.zip",
    "canvas": "roekim_12_90_gpututor-pack.zip",
}
METADATA_TEXT = """\
submission_1:
  :submitters:
  - :name: Kim Roe
    :sid: '5'
    :email: kim@example.org
  :created_at: 2026-03-01 12:00:00.861687000 Z
  :history: []
"""


@pytest.mark.parametrize("layout", PLACES)
def test_what_students_pack_with_their_course_is_known_in_every_layout_for_the_whole_one(
    course: Course, tmp_path: Path, layout: str
) -> None:
    write_student_course(course, tmp_path / "students")
    theirs = load_course(tmp_path / "students")
    mine = make_workspace(tmp_path / "mine", theirs)[0]
    for label in ("1.2", "2.3"):
        path_of(mine, theirs, label).write_text(f"{MINE}# {label}\n")
    handed_in = tmp_path / "handed in"
    place = handed_in / PLACES[layout]
    place.parent.mkdir(parents=True)
    if layout == "gradescope":
        (handed_in / METADATA).write_text(METADATA_TEXT)
    if layout == "folders":
        (handed_in / "lee").mkdir()  # a lone folder would be one that only holds all the rest
        (handed_in / "lee" / "notes.txt").write_text("")
    pack_of(theirs, mine, theirs.exercises).write(place, "Kim Roe")
    out = ClassFolder(tmp_path / "out")
    found = read_class(handed_in, course, out, layout=layout)
    student = found.students[0]
    assert (student.id, student.name) == {
        "folders": ("kim", "Kim Roe"),
        "gradescope": ("5", "Kim Roe"),
        "moodle": ("77", "Kim Roe"),
        "canvas": ("12", "roekim"),
    }[layout]
    assert [(one.exercise, one.refusal) for one in found.handed_in] == [
        ("lesson_1/twice_1_2", ""),
        ("lesson_2/twice_2_3", ""),
    ]
    assert [out.submission(one.sha256).read_text() for one in found.handed_in] == [
        f"{MINE}# {label}\n" for label in ("1.2", "2.3")
    ]
    assert [one.source for one in found.unmatched] == ["lee/notes.txt"] * (layout == "folders")


def test_a_class_is_not_graded_with_the_students_course(
    course: Course, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    write_student_course(course, tmp_path / "students")
    (tmp_path / "class" / "kim").mkdir(parents=True)
    (tmp_path / "class" / "kim" / "twice_1_1.py").write_text(MINE)
    words = ["classroom", "grade", str(tmp_path / "class"), "--out", str(tmp_path / "out")]
    assert main(["--course", str(tmp_path / "students"), *words, "--isolation", "process"]) == 2
    assert "This course comes without checks and solutions" in capfd.readouterr().err
    assert not list((tmp_path / "out").glob("journal/*")), "nothing was graded"
    assert not (tmp_path / "out" / "class.json").exists()


def test_the_same_files_make_the_same_bytes(
    gpututor: Call, course: Course, workspace: Workspace, tmp_path: Path
) -> None:
    file = path_of(workspace, course, "1.1")
    file.write_text(MINE)
    for name in ("a.zip", "b.zip"):
        assert gpututor("pack", "--out", str(tmp_path / name)).code == 0
        os.utime(file, (1, 1))
        file.chmod(0o600)
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()
    assert zip_of({"b": b"2", "a": b"1"}) == zip_of({"a": b"1", "b": b"2"})


@pytest.mark.parametrize(
    ("words", "labels"),
    [
        ((), "1.1 1.2 1.3 2.1 2.2 2.3"),
        (("2",), "2.1 2.2 2.3"),
        (("2.1", "lesson_1", "2.1"), "1.1 1.2 1.3 2.1"),
        (("02_lesson_2", "twice_1_3"), "1.3 2.1 2.2 2.3"),
    ],
)
def test_lessons_and_exercises_are_named_as_everywhere(course: Course, words: tuple[str, ...], labels: str) -> None:
    assert " ".join(exercise.label for exercise in named(course, words)) == labels


def test_a_name_that_nothing_has_is_refused(gpututor: Call) -> None:
    said = gpututor("pack", "thrice")
    assert (said.code, said.err.splitlines()[0]) == (2, "gpututor: There is no exercise called 'thrice'.")


def test_no_link_is_followed_and_what_cannot_be_packed_is_told(
    gpututor: Call, course: Course, workspace: Workspace, tmp_path: Path
) -> None:
    secret = tmp_path / "secret.py"
    secret.write_text("password = 1\n")
    path_of(workspace, course, "1.1").write_text(MINE)
    for label in ("1.2", "1.3"):
        path_of(workspace, course, label).unlink()
    path_of(workspace, course, "1.2").symlink_to(secret)
    path_of(workspace, course, "1.3").symlink_to(tmp_path / "nowhere")
    path_of(workspace, course, "2.1").write_bytes(b"x = '\xe9'\n")
    path_of(workspace, course, "2.2").write_bytes(b"x = 1\0\n")
    path_of(workspace, course, "2.3").write_bytes(b"#" * ((1 << 20) + 1))
    said = gpututor("pack", "--out", str(tmp_path))
    assert said.code == 1
    assert names_in(tmp_path / "tiny-pack.zip") == ["01_lesson_1/01_twice_1_1.py", MANIFEST]
    told = said.err.splitlines()
    assert [line.split(" ")[1] for line in told] == ["1.2", "1.3", "2.1", "2.2", "2.3"]
    assert all("is NOT in it" in line for line in told)
    assert [word in line for word, line in zip(("link", "link", "UTF-8", "NUL", "1 MiB"), told, strict=True)] == [
        True
    ] * 5


def test_a_folder_that_is_a_link_is_not_followed(course: Course, workspace: Workspace, tmp_path: Path) -> None:
    (workspace.folder / "01_lesson_1").rename(tmp_path / "elsewhere")
    (workspace.folder / "01_lesson_1").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "01_twice_1_1.py").write_text(MINE)
    pack = pack_of(course, workspace, course.exercises)
    assert (pack.files, len(pack.left_out), pack.others) == ((), 3, ())


def test_a_starter_of_before_is_no_work(course: Course, workspace: Workspace) -> None:
    exercise = course.find("1.1")
    (exercise.folder / "starter.py").write_text("def twice(number):\n    ...  # TODO\n")
    assert exercise in pack_of(course, workspace, course.exercises).unchanged


def test_nothing_to_hand_in_makes_no_zip(gpututor: Call, tmp_path: Path) -> None:
    said = gpututor("pack", "--out", str(tmp_path / "my.zip"))
    assert (said.code, (tmp_path / "my.zip").exists()) == (2, False)
    assert "There is nothing to hand in" in said.err


def test_only_a_zip_of_its_own_is_replaced(
    gpututor: Call, course: Course, workspace: Workspace, tmp_path: Path
) -> None:
    path_of(workspace, course, "1.1").write_text(MINE)
    mine = tmp_path / "my.zip"
    assert gpututor("pack", "--out", str(mine)).code == 0
    path_of(workspace, course, "1.2").write_text(MINE)
    assert gpututor("pack", "--out", str(mine)).code == 0
    assert len(names_in(mine)) == 3
    for content in (b"thesis", zip_of({"thesis.txt": b""})):
        mine.write_bytes(content)
        said = gpututor("pack", "--out", str(mine))
        assert (said.code, "is another file, and is not replaced" in said.err, mine.read_bytes()) == (2, True, content)
    said = gpututor("pack", "--out", str(tmp_path / "my.tar"))
    assert (said.code, "is not called .zip" in said.err) == (2, True)
    assert not list(tmp_path.glob(".*.part"))


def test_who_stands_in_another_courses_folder_is_told_to_name_the_course(
    course: Course, workspace: Workspace, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    path_of(workspace, course, "1.1").write_text(MINE)
    monkeypatch.chdir(workspace.folder / "01_lesson_1")
    assert main(["pack"]) == 2
    assert "is a workspace of the course 'tiny'.\nName that course with --course DIR.\n" in capfd.readouterr().err
