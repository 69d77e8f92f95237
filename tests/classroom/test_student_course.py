"""Handing out: a course with nothing in it that tells a solution."""

from __future__ import annotations

import json
import stat
import tomllib
import zipfile
from pathlib import Path
from typing import NamedTuple

import pytest

from gpututor.authoring.lint import UNWRITTEN
from gpututor.classroom.intake.archive import MANIFEST
from gpututor.classroom.packing import student_course, without_comments, write_student_course, zip_of
from gpututor.cli.main import main
from gpututor.course.loader import COURSE_KEYS, STUDENT_FILES, load_course
from gpututor.course.model import Course
from gpututor.errors import CourseError, UsageError
from gpututor.paths import builtin_course
from tests.support.tiny_course import FILES, write_course

MINE = "def twice(number):\n    return number + number  # é\n"


class Said(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def course(tmp_path: Path) -> Course:
    return load_course(write_course(tmp_path / "course", exercises=3, lessons=2))


def said_by(capfd: pytest.CaptureFixture[str], *words: str) -> Said:
    """What `gpututor WORDS` says."""
    capfd.readouterr()
    code = main(list(words))
    return Said(code, *capfd.readouterr())


def names_in(path: Path) -> list[str]:
    with zipfile.ZipFile(path) as archive:
        return archive.namelist()


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
            "right/added.py",
            "wrong/once.py",
            "data.txt",
            "wrong/deep/a.py",
            "solution.py~",
            "starter.py.bak",
            "#task.md#",
            ".task.md.swp",
            "notes.md",
            "__pycache__/solution.cpython-311.pyc",
        ):
            path = exercise.folder / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(f"{FILES.get(name, '')}# {CANARY} {name}\n")
        (exercise.folder / "task_2.md").symlink_to(exercise.folder / "solution.py")
        for name in ("task.md", "hints.md"):
            text = (exercise.folder / name).read_text()
            (exercise.folder / name).write_text(f"<!-- {CANARY}\n\n{CANARY} -->\n{text}\n<!-- {CANARY}, not closed\n")
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
        assert (ours.key, ours.starter, len(ours.hints)) == (theirs.key, theirs.starter, len(theirs.hints))
        assert (ours.scenarios, ours.limits, ours.devices) == (theirs.scenarios, theirs.limits, theirs.devices)
        assert theirs.excused_mutants == ()
    assert [lesson.text for lesson in telling.lessons] == [lesson.text for lesson in made.lessons]
    assert not list(tmp_path.glob(".*.part"))
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) & 0o055


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("a <!-- b --> c\nd\n", "a  c\nd\n"),
        ("# a <!-- b -->\nc\n", "# a \nc\n"),
        ("a\n<!-- b\n```\nc -->\nd\n", "a\nd\n"),
        ("a\n<!-- to the end\n## b\n", "a\n"),
        ("a `b\nc` d <!-- e `f` -->\n", "a `b\nc` d \n"),
        ("``a ` b`` c <!-- d `e` -->\n", "``a ` b`` c \n"),
        ("```a``` b <!-- c -->\n", "```a``` b \n"),
        ("a \\` b <!-- c ` d -->\n", "a \\` b \n"),
        ("a ` b\n<!-- c ` d -->\n", "a ` b\n"),
        ("- a ` b\n- <!-- c --> ` d\n", "- a ` b\n-  ` d\n"),
        *(
            (text, text)
            for text in (
                "a `<!-- b -->` c",
                "```html\n<!-- b -->\n```\n",
                "~~~\n<!-- b -->\n",
                "```\n```python\n<!-- a -->\n```\n",
                "a <!-- b\n",
                "1 < 2 <!- 3 --> 4\n",
            )
        ),
    ],
)
def test_comments_are_left_out_and_code_is_kept(text: str, left: str) -> None:
    assert without_comments(text) == left


def test_the_zip_holds_one_folder_and_only_an_older_one_is_replaced(
    course: Course, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "tiny.zip"
    (course.lessons[1].folder / "lesson.md").write_text(f"# Two\n\nThis is {UNWRITTEN}.\n")
    words = ("--course", str(course.folder), "pack-course", "--for", "students", "--out", str(out))
    for _ in range(2):
        said = said_by(capfd, *words)
        assert said.code == 0, said.err
    assert said.out.startswith(f"Made {out}: 2 lessons, 6 exercises, 29 files.\n")
    assert "! Not written yet: 02_lesson_2/lesson.md.\n" in said.out
    assert said.out.endswith("it with `gpututor --course tiny`,\nand hand in with `gpututor pack --course tiny`.\n")
    assert {name.partition("/")[0] for name in names_in(out)} == {"tiny"}
    with zipfile.ZipFile(out) as archive:
        archive.extractall(tmp_path / "student")
    assert load_course(tmp_path / "student" / "tiny").for_students
    out.write_bytes(zip_of({"tiny/course.toml": (course.folder / "course.toml").read_bytes()}))
    assert said_by(capfd, *words).code == 2


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
        return said_by(capfd, *common, *words)

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
    assert len(files) == 2 + 2 * len(course.lessons) + 4 * len(course.exercises)
    assert files["glossary.md"].decode() == course.glossary
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
