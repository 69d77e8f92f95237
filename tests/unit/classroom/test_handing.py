"""Handing in: a student's zip. Handing out: a course with nothing in it that tells a solution."""

from __future__ import annotations

import io
import json
import os
import stat
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from gpututor.classroom.folder import ClassFolder
from gpututor.classroom.handing.pack import named, pack_of
from gpututor.classroom.handing.student_course import student_course, write_student_course
from gpututor.classroom.handing.zips import zip_of
from gpututor.classroom.intake import read_class
from gpututor.classroom.intake.manifest import MANIFEST, manifest_of
from gpututor.cli.main import main
from gpututor.course.catalogue import STUDENT_FILES, load_course
from gpututor.course.exercise import Course
from gpututor.course.manifest import COURSE_KEYS
from gpututor.course.workspace import Workspace, make_workspace
from gpututor.errors import CourseError, UsageError
from gpututor.paths import builtin_course
from tests.unit.course.tiny import FILES, write_course

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
        "Not in it, as you have not changed: 1.1 to 1.2, 2.1.",
        "Not in it, as there is no file of: 2.3.",
        "Not in it, as no exercise is called so: 01_lesson_1/notes.py.",
    ]


def test_the_intake_reads_what_was_packed(gpututor: Call, course: Course, workspace: Workspace, tmp_path: Path) -> None:
    path_of(workspace, course, "1.1").write_bytes(b"\xef\xbb\xbf" + MINE.encode())
    handed_in = tmp_path / "handed in"
    handed_in.mkdir()
    assert gpututor("pack", "--out", str(handed_in / "kim.zip"), "--name", "Kim Lee").code == 0
    with zipfile.ZipFile(handed_in / "kim.zip") as archive, archive.open(MANIFEST) as stream:
        packed = manifest_of(io.BytesIO(stream.read()))
    assert packed is not None
    assert (packed.course, packed.student) == ("tiny", "Kim Lee")
    assert packed.exercises == (("01_lesson_1/01_twice_1_1.py", "lesson_1/twice_1_1"),)
    out = ClassFolder(tmp_path / "out")
    found = read_class(handed_in, course, out)
    (student,), (one,) = found.students, found.handed_in
    assert (student.id, student.name, one.exercise, found.unmatched) == ("kim", "Kim Lee", "lesson_1/twice_1_1", ())
    assert out.submission(one.sha256).read_text() == MINE


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
    assert [word in line for word, line in zip(("link", "link", "UTF-8", "zero", "1 MiB"), told, strict=True)] == [
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


# pack-course


CANARY = "c4n4ry"


@pytest.fixture
def telling(course: Course) -> Course:
    """A course in which all that must not be handed out says a word of its own."""
    for exercise in course.exercises:
        for name in (
            "solution.py",
            "checks.py",
            "given.py",
            "baseline.py",
            "wrong/once.py",
            "data.txt",
            "wrong/deep/a.py",
        ):
            path = exercise.folder / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(f"{FILES.get(name, '')}# {CANARY} {name}\n")
        manifest = exercise.folder / "exercise.toml"
        more = '\n[[scenario]]\nname = "no GPU \\"at all\\""\ngpus = 0\n\n[limits]\nwall_s = 2.5\n'
        excuse = f'\n[[excused_mutant]]\nchange = "line 2: {CANARY}"\nreason = "{CANARY}"\n'
        manifest.write_text(f"# {CANARY}\n{manifest.read_text()}{more}{excuse}")
    (course.folder / "course.toml").write_text(f"# {CANARY}\n{(course.folder / 'course.toml').read_text()}")
    (course.folder / f"{CANARY}.md").write_text(CANARY)
    (course.lessons[0].folder / "lesson_notes.md").write_text(CANARY)
    return load_course(course.folder)


def test_a_students_course_tells_nothing_of_solutions(telling: Course) -> None:
    assert not telling.problems
    files = student_course(telling)
    assert not [path for path, content in files.items() if CANARY.encode() in content or CANARY in path]
    names = {Path(path).name for path in files}
    assert names == {"course.toml", "lesson.toml", "lesson.md", "exercise.toml", *STUDENT_FILES}


def test_it_is_the_same_course_for_students(telling: Course, tmp_path: Path) -> None:
    write_student_course(telling, tmp_path / "out")
    made = load_course(tmp_path / "out")
    assert (made.problems, made.for_students, made.id, made.title) == ((), True, telling.id, telling.title)
    assert not telling.for_students
    for ours, theirs in zip(telling.exercises, made.exercises, strict=True):
        assert (ours.key, ours.task, ours.starter, ours.hints) == (
            theirs.key,
            theirs.task,
            theirs.starter,
            theirs.hints,
        )
        assert (ours.scenarios, ours.limits, ours.devices) == (theirs.scenarios, theirs.limits, theirs.devices)
        assert theirs.excused_mutants == ()
    assert [lesson.text for lesson in telling.lessons] == [lesson.text for lesson in made.lessons]
    assert not list(tmp_path.glob(".*.part"))
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) & 0o055


def test_the_zip_holds_one_folder_and_only_an_older_one_is_replaced(
    gpututor: Call, course: Course, tmp_path: Path
) -> None:
    out = tmp_path / "tiny.zip"
    for _ in range(2):
        said = gpututor("pack-course", "--for", "students", "--out", str(out))
        assert said.code == 0, said.err
    assert said.out.startswith(f"Made {out}: 2 lessons, 6 exercises, 29 files.\n")
    assert {name.partition("/")[0] for name in names_in(out)} == {"tiny"}
    with zipfile.ZipFile(out) as archive:
        archive.extractall(tmp_path / "student")
    assert load_course(tmp_path / "student" / "tiny").for_students
    out.write_bytes(zip_of({"tiny/course.toml": (course.folder / "course.toml").read_bytes()}))
    assert gpututor("pack-course", "--for", "students", "--out", str(out)).code == 2


def test_a_folder_that_holds_something_is_left_alone(course: Course, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    write_student_course(course, tmp_path / "out")
    with pytest.raises(UsageError, match="is there already"):
        write_student_course(course, tmp_path / "out")


def test_a_course_with_mistakes_is_not_handed_out(course: Course) -> None:
    (course.exercises[0].folder / "hints.md").unlink()
    with pytest.raises(CourseError, match=r"hints.md: the file is missing"):
        student_course(load_course(course.folder))


def test_students_list_read_run_and_hand_in_and_are_told_that_it_does_not_grade(
    course: Course, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    write_student_course(course, tmp_path / "out")
    common = ["--course", str(tmp_path / "out"), "--workspace", str(tmp_path / "mine")]

    def call(*words: str) -> Said:
        capfd.readouterr()
        code = main([*common, *words])
        return Said(code, *capfd.readouterr())

    assert call("init", str(tmp_path / "mine")).code == 0
    assert "1.1   twice_1_1  Twice 1" in call("list").out
    assert "Hint 1 of 3" in call("hint", "1.1").out
    for words in (
        ["grade", "1.1"],
        ["watch", "1.1"],
        ["solution", "1.1", "--yes"],
        ["diff", "1.1", "--yes"],
        ["verify"],
    ):
        said = call(*words)
        assert said.code == 2, words
        assert said.err.startswith(
            "gpututor: This course comes without checks and solutions: hand in with `gpututor pack`.\n"
        )
    (tmp_path / "mine" / "01_lesson_1" / "01_twice_1_1.py").write_text(MINE)
    assert call("pack", "--out", str(tmp_path)).code == 0
    assert json.loads(zipfile.ZipFile(tmp_path / "tiny-pack.zip").read(MANIFEST))["course"] == course.id


def test_the_course_that_comes_with_gpututor_can_be_handed_out() -> None:
    course = load_course(builtin_course())
    files = student_course(course)
    assert len(files) == 1 + 2 * len(course.lessons) + 4 * len(course.exercises)
    shown = b"\n".join(files.values()).decode()
    for exercise in course.exercises:
        for text in (exercise.solution, exercise.checks, *(path.read_text() for path in exercise.wrong_solutions)):
            assert text not in shown
        made = tomllib.loads(files[f"{exercise.folder.parent.name}/{exercise.folder.name}/exercise.toml"].decode())
        whole = tomllib.loads((exercise.folder / "exercise.toml").read_text())
        whole.pop("excused_mutant", None)
        assert made == whole


def test_a_course_is_for_students_or_for_nobody_in_particular(course: Course) -> None:
    assert [key.choices for key in COURSE_KEYS if key.name == "for"] == [("students",)]
    manifest = course.folder / "course.toml"
    manifest.write_text(f'{manifest.read_text()}for = "teachers"\n')
    (problem,) = load_course(course.folder).problems
    assert problem.title == f"{manifest}: for: expected 'students', got 'teachers'"
