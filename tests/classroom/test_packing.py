"""`gpututor pack` and `gpututor pack-course`: what students submit, and a course without solutions."""

from __future__ import annotations

import json
import os
import shutil
import stat
import tomllib
import zipfile
from pathlib import Path

import pytest

from gpututor.authoring.lint import UNWRITTEN
from gpututor.classroom.folder import ClassFolder
from gpututor.classroom.intake import read_class
from gpututor.classroom.intake.archive import MANIFEST
from gpututor.classroom.intake.layouts import METADATA
from gpututor.classroom.packing import named, pack_of, student_course, without_comments, write_student_course, zip_of
from gpututor.cli.main import main
from gpututor.course.loader import COURSE_KEYS, STUDENT_FILES, load_course
from gpututor.course.model import Course
from gpututor.course.workspace import Workspace, make_workspace
from gpututor.errors import CourseError, UsageError
from tests.support.class_layouts import hand_in
from tests.support.command_line import Call, Said
from tests.support.shipped_course import COURSE
from tests.support.tiny_course import FILES, write_course

MINE = "def twice(number):\n    return number + number  # é\n"


@pytest.fixture
def course(tmp_path: Path) -> Course:
    return load_course(write_course(tmp_path / "course", exercises=3, lessons=2))


@pytest.fixture
def workspace(course: Course, tmp_path: Path) -> Workspace:
    return make_workspace(tmp_path / "work", course)[0]


@pytest.fixture
def gpututor(course: Course, workspace: Workspace, capfd: pytest.CaptureFixture[str]) -> Call:
    """Call a verb with the course and the workspace; later options override both."""

    def call(*words: str) -> Said:
        capfd.readouterr()
        code = main(["--course", str(course.folder), "--workspace", str(workspace.folder), *words])
        return Said(code, *capfd.readouterr())

    return call


def path_of(workspace: Workspace, course: Course, label: str) -> Path:
    return workspace.path_of(course.find(label))


def names_in(path: Path) -> list[str]:
    with zipfile.ZipFile(path) as archive:
        return archive.namelist()


def test_changed_files_are_packed_and_all_others_are_listed(
    gpututor: Call, course: Course, workspace: Workspace, tmp_path: Path
) -> None:
    path_of(workspace, course, "1.3").write_bytes(b"\xef\xbb\xbf" + MINE.encode())
    path_of(workspace, course, "2.2").write_text("def twice(:\n")
    path_of(workspace, course, "2.3").unlink()
    (workspace.folder / "01_lesson_1" / "notes.py").write_text("mine")
    said = gpututor("pack", "--out", str(tmp_path / "my.zip"), "--name", "Kim Lee")
    assert said.code == 0, said.err
    assert names_in(tmp_path / "my.zip") == ["01_lesson_1/03_twice_1_3.py", "02_lesson_2/02_twice_2_2.py", MANIFEST]
    made, first, _, warning, _, *others = said.out.splitlines()
    assert str(tmp_path / "my.zip") in made
    assert "Kim Lee" in made
    assert first.split() == ["1.3", "01_lesson_1/03_twice_1_3.py", str(len(MINE.encode())), "bytes"]
    assert "line 1" in warning
    lists = [line.rpartition(": ")[2] for line in others]
    assert lists == ["1.1, 1.2, 2.1.", "2.3.", "01_lesson_1/notes.py."]
    with zipfile.ZipFile(tmp_path / "my.zip") as archive:
        assert archive.read("01_lesson_1/03_twice_1_3.py") == MINE.encode()
        packed = json.loads(archive.read(MANIFEST))
    assert (packed["course"], packed["student"]) == ("tiny", "Kim Lee")
    assert packed["exercises"]["01_lesson_1/03_twice_1_3.py"] == "lesson_1/twice_1_3"


@pytest.mark.parametrize("source", ["-" * 500_000 + "1\n", "x = " + "not " * 200_000 + "1\n"], ids=["-", "not"])
def test_source_that_is_nested_too_deeply_is_packed_with_a_warning(
    workspace: Workspace, course: Course, source: str
) -> None:
    path_of(workspace, course, "1.1").write_text(source)
    (packed,) = pack_of(course, workspace, [course.find("1.1")]).files
    assert packed.warning


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
def test_files_packed_with_the_students_course_are_read_in_every_layout(
    course: Course, tmp_path: Path, layout: str
) -> None:
    write_student_course(course, tmp_path / "students")
    theirs = load_course(tmp_path / "students")
    mine = make_workspace(tmp_path / "mine", theirs)[0]
    for label in ("1.2", "2.3"):
        path_of(mine, theirs, label).write_text(f"{MINE}# {label}\n")
    submitted = tmp_path / "submitted"
    place = submitted / PLACES[layout]
    place.parent.mkdir(parents=True)
    if layout == "gradescope":
        (submitted / METADATA).write_text(METADATA_TEXT)
    if layout == "folders":
        (submitted / "lee").mkdir()  # a lone folder would count as a wrapper
        (submitted / "lee" / "notes.txt").write_text("")
    pack_of(theirs, mine, theirs.exercises).write(place, "Kim Roe")
    out = ClassFolder(tmp_path / "out")
    class_ = read_class(submitted, course, out, layout=layout)
    student = class_.students[0]
    assert (student.id, student.name) == {
        "folders": ("kim", "Kim Roe"),
        "gradescope": ("5", "Kim Roe"),
        "moodle": ("77", "Kim Roe"),
        "canvas": ("12", "roekim"),
    }[layout]
    assert [(file.exercise, file.refusal, out.submission(file.sha256).read_text()) for file in class_.submissions] == [
        ("lesson_1/twice_1_2", "", f"{MINE}# 1.2\n"),
        ("lesson_2/twice_2_3", "", f"{MINE}# 2.3\n"),
    ]
    assert [file.source for file in class_.unmatched] == ["lee/notes.txt"] * (layout == "folders")


def test_the_same_files_make_the_same_zip_which_replaces_only_its_own(
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
    path_of(workspace, course, "1.1").write_text(MINE)
    mine = tmp_path / "my.zip"
    assert gpututor("pack", "--out", str(mine)).code == 0
    path_of(workspace, course, "1.2").write_text(MINE)
    assert gpututor("pack", "--out", str(mine)).code == 0
    assert len(names_in(mine)) == 3
    for content in (b"thesis", zip_of({"thesis.txt": b""})):
        mine.write_bytes(content)
        assert (gpututor("pack", "--out", str(mine)).code, mine.read_bytes()) == (2, content)
    assert gpututor("pack", "--out", str(tmp_path / "my.tar")).code == 2
    assert not list(tmp_path.glob(".*.part"))


@pytest.mark.parametrize(
    ("words", "labels"),
    [
        ((), "1.1 1.2 1.3 2.1 2.2 2.3"),
        (("2",), "2.1 2.2 2.3"),
        (("2.1", "lesson_1", "2.1"), "1.1 1.2 1.3 2.1"),
        (("02_lesson_2", "twice_1_3"), "1.3 2.1 2.2 2.3"),
    ],
)
def test_words_name_lessons_and_exercises(course: Course, words: tuple[str, ...], labels: str) -> None:
    assert " ".join(exercise.label for exercise in named(course, words)) == labels


def test_links_and_other_unpackable_files_are_listed_with_a_reason(
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
    errors = said.err.splitlines()
    assert [line.split(" ")[1] for line in errors] == ["1.2", "1.3", "2.1", "2.2", "2.3"]
    assert all(word in line for word, line in zip(("link", "link", "UTF-8", "NUL", "1 MiB"), errors, strict=True))


def test_older_starters_are_unchanged_and_links_not_followed(
    course: Course, workspace: Workspace, tmp_path: Path
) -> None:
    exercise = course.find("1.1")
    (exercise.folder / "starter.py").write_text("def twice(number):\n    ...  # TODO\n")
    assert exercise in pack_of(course, workspace, course.exercises).unchanged
    (workspace.folder / "01_lesson_1").rename(tmp_path / "elsewhere")
    (workspace.folder / "01_lesson_1").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "01_twice_1_1.py").write_text(MINE)
    pack = pack_of(course, workspace, course.exercises)
    assert (pack.files, len(pack.left_out), pack.others) == ([], 3, ())


def test_nothing_to_pack_makes_no_zip_nor_a_students_course_marks(
    gpututor: Call, tmp_path: Path, course: Course
) -> None:
    said = [gpututor("pack", *words, "--out", str(tmp_path / "my.zip")) for words in ((), ("thrice",))]
    assert [each.code for each in said] == [2, 2]
    assert "'thrice'" in said[1].err
    assert not (tmp_path / "my.zip").exists()
    write_student_course(course, tmp_path / "students")
    words = ["classroom", "grade", str(hand_in(tmp_path / "class", {"kim": MINE})), "--out", str(tmp_path / "out")]
    assert gpututor("--course", str(tmp_path / "students"), *words, "--isolation", "process").code == 2
    assert not list((tmp_path / "out").glob("journal/*"))
    assert not (tmp_path / "out" / "class.json").exists()


def test_in_another_courses_workspace_pack_names_that_course(
    course: Course, workspace: Workspace, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    path_of(workspace, course, "1.1").write_text(MINE)
    monkeypatch.chdir(workspace.folder / "01_lesson_1")
    assert main(["pack"]) == 2
    assert "'tiny'" in capfd.readouterr().err


CANARY = "c4n4ry"
PRIVATE = (
    *("solution.py", "checks.py", "given.py", "baseline.py", "right/added.py", "wrong/once.py", "data.txt"),
    *("wrong/deep/a.py", "solution.py~", "starter.py.bak", "#task.md#", ".task.md.swp", "notes.md"),
    "__pycache__/solution.cpython-311.pyc",
)


@pytest.fixture
def private(course: Course) -> Course:
    """A course whose private files and comments contain `CANARY`."""
    for exercise in course.exercises:
        for name in PRIVATE:
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


def test_the_students_course_equals_the_whole_one_without_private_things(private: Course, tmp_path: Path) -> None:
    assert not private.problems
    files = student_course(private)
    assert not [path for path, content in files.items() if CANARY.encode() in content or CANARY in path]
    names = {Path(path).name for path in files}
    assert names == {"course.toml", "lesson.toml", "lesson.md", "exercise.toml", *STUDENT_FILES}
    write_student_course(private, tmp_path / "out")
    made = load_course(tmp_path / "out")
    assert (made.problems, made.for_students, made.id, made.title) == ((), True, private.id, private.title)
    assert not private.for_students
    for ours, theirs in zip(private.exercises, made.exercises, strict=True):
        assert (ours.key, ours.starter, len(ours.hints)) == (theirs.key, theirs.starter, len(theirs.hints))
        assert (ours.scenarios, ours.limits, ours.devices) == (theirs.scenarios, theirs.limits, theirs.devices)
        assert theirs.excused_mutants == ()
    assert [lesson.text for lesson in private.lessons] == [lesson.text for lesson in made.lessons]
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
def test_comments_are_removed_but_not_from_code(text: str, left: str) -> None:
    assert without_comments(text) == left


def test_the_course_zip_replaces_an_older_one_and_has_notebooks(gpututor: Call, course: Course, tmp_path: Path) -> None:
    out = tmp_path / "tiny.zip"
    (course.lessons[1].folder / "lesson.md").write_text(f"# Two\n\nThis is {UNWRITTEN}.\n")
    words = ("pack-course", "--for", "students", "--out", str(out))
    for _ in range(2):
        said = gpututor(*words)
        assert said.code == 0, said.err
    assert "29 files" in said.out
    assert "02_lesson_2/lesson.md" in said.out
    assert {name.partition("/")[0] for name in names_in(out)} == {"tiny"}
    shutil.unpack_archive(out, tmp_path / "student")
    assert load_course(tmp_path / "student" / "tiny").for_students
    out.write_bytes(zip_of({"tiny/course.toml": (course.folder / "course.toml").read_bytes()}))
    assert gpututor(*words).code == 2
    out = tmp_path / "out"
    assert gpututor("pack-course", "--for", "students", "--notebooks", "--out", str(out)).code == 0
    assert not load_course(out).problems
    (tmp_path / "class" / "kim").mkdir(parents=True)
    for notebook in out.rglob("*.ipynb"):
        notebook.rename(tmp_path / "class" / "kim" / notebook.name)
    class_ = read_class(tmp_path / "class", course, ClassFolder(tmp_path / "graded"))
    assert [file.exercise for file in class_.submissions] == [exercise.key for exercise in course.exercises]
    assert not class_.unmatched
    text = ClassFolder(tmp_path / "graded").read_submission(class_.submissions[0].sha256) or ""
    assert text.endswith(f"# code cell 1\n{FILES['starter.py']}\n")


def test_neither_full_folders_are_replaced_nor_broken_courses_packed(course: Course, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    write_student_course(course, tmp_path / "out")
    with pytest.raises(UsageError):
        write_student_course(course, tmp_path / "out")
    (course.exercises[0].folder / "hints.md").unlink()
    with pytest.raises(CourseError, match=r"hints\.md"):
        student_course(load_course(course.folder))


def test_students_use_their_course_but_it_does_not_grade(gpututor: Call, course: Course, tmp_path: Path) -> None:
    write_student_course(course, tmp_path / "out")
    common = ["--course", str(tmp_path / "out"), "--workspace", str(tmp_path / "mine")]
    assert gpututor(*common, "init", str(tmp_path / "mine")).code == 0
    assert "1.1 twice_1_1  Twice 1" in gpututor(*common, "list").out
    assert "Hint 1 of 3" in gpututor(*common, "hint", "1.1").out
    for words in ("grade 1.1", "watch 1.1", "solution 1.1 --yes", "diff 1.1 --yes", "verify"):
        said = gpututor(*common, *words.split())
        assert (said.code, "`gpututor pack`" in said.err) == (2, True), words
    (tmp_path / "mine" / "01_lesson_1" / "01_twice_1_1.py").write_text(MINE)
    assert gpututor(*common, "pack", "--out", str(tmp_path)).code == 0
    assert json.loads(zipfile.ZipFile(tmp_path / "tiny-pack.zip").read(MANIFEST))["course"] == course.id


PUBLIC = "from gpututor.checks import Check\n\n\ndef find(run):\n    return {finding}\n\n\nchecks = [{check}]\n"
SHOWN = 'Check("shown", lambda machine: "The copy has this check", find)'


@pytest.mark.long
def test_a_packed_course_grades_with_public_checks_alone(gpututor: Call, course: Course, tmp_path: Path) -> None:
    exercise = course.exercises[0]
    finding = "None if all(1 / (call.output - 7) for call in run.calls) else None"
    (exercise.folder / "public_checks.py").write_text(PUBLIC.format(finding=finding, check=SHOWN))
    said = gpututor("pack-course", "--for", "students", "--out", str(tmp_path / "out"))
    assert said.code == 0, said.err
    made = load_course(tmp_path / "out")
    assert [other.key for other in made.exercises if other.has_checks] == [exercise.key]
    assert made.exercises[0].left_to_instructor == ("value",)
    rules = tmp_path / "classroom.toml"
    rules.write_text('hidden = ["value"]\n')
    said = gpututor("pack-course", "--for", "students", "--rules", str(rules), "--out", str(tmp_path / "less"))
    assert said.code == 0, said.err
    assert load_course(tmp_path / "less").exercises[0].left_to_instructor == ("more checks",)
    rules.write_text('hidden = ["valeu"]\n')
    said = gpututor("pack-course", "--for", "students", "--rules", str(rules), "--out", str(tmp_path / "misspelled"))
    assert (said.code, "valeu" in said.err, "value" in said.err) == (2, True, True)
    assert not (tmp_path / "misspelled").exists()
    assert not (made.exercises[0].folder / "solution.py").exists()
    common = ["--course", str(tmp_path / "out"), "--workspace", str(tmp_path / "mine")]
    assert gpututor(*common, "init", str(tmp_path / "mine")).code == 0
    file = tmp_path / "mine" / "01_lesson_1" / "01_twice_1_1.py"
    file.write_text(MINE)
    (tmp_path / "mine" / "01_lesson_1" / "02_twice_1_2.py").write_text(MINE)
    said = gpututor(*common, "grade", "1.1")
    assert (said.code, "The copy has this check" in said.out) == (0, True), said.out + said.err
    assert "Left to your instructor: value." in said.out
    said = gpututor(*common, "grade", "--all")
    assert (said.code, "1 file graded: 1 passed" in said.out) == (0, True), said.out + said.err
    file.write_text("def twice(number):\n    return 7\n")  # an error of the check, without a solution to compare with
    assert gpututor(*common, "grade", "1.1").code == 3
    file.write_text("import os\n\n\ndef twice(number):\n    os._exit(3)\n")
    assert gpututor(*common, "grade", "1.1").code == 1
    for words in ("grade 1.2", "solution 1.1 --yes", "diff 1.1 --yes", "verify"):
        said = gpututor(*common, *words.split())
        assert (said.code, "`gpututor pack`" in said.err) == (2, True), words


@pytest.mark.parametrize("checks", ["value(lambda drawn, machine: 0)", "speed(1.0)"])
def test_public_checks_that_the_solution_does_not_pass_are_an_error(course: Course, checks: str) -> None:
    path = course.exercises[0].folder / "public_checks.py"
    path.write_text(f"from gpututor.checks import speed, value\n\nchecks = [{checks}]\n")
    with pytest.raises(CourseError, match=r"public_checks\.py"):
        student_course(course)


def test_the_shipped_course_can_be_packed(tmp_path: Path) -> None:
    files = write_student_course(COURSE, tmp_path / "out")
    assert load_course(tmp_path / "out").learning_paths == COURSE.learning_paths
    assert len(files) == 3 + 2 * len(COURSE.lessons) + 4 * len(COURSE.exercises)
    assert files["glossary.md"].decode() == COURSE.glossary
    assert files["reading.md"].decode() == COURSE.reading
    shown = b"\n".join(files.values()).decode()
    for exercise in COURSE.exercises:
        for text in (exercise.solution, exercise.checks, *(path.read_text() for path in exercise.wrong_solutions)):
            assert text not in shown
        made = tomllib.loads(files[f"{exercise.folder.parent.name}/{exercise.folder.name}/exercise.toml"].decode())
        whole = tomllib.loads((exercise.folder / "exercise.toml").read_text())
        whole.pop("excused_mutant", None)
        whole.pop("timeline")
        assert made == whole


def test_the_for_key_accepts_only_students(course: Course) -> None:
    assert [key.choices for key in COURSE_KEYS if key.name == "for"] == [("students",)]
    manifest = course.folder / "course.toml"
    manifest.write_text(f'{manifest.read_text()}for = "teachers"\n')
    (problem,) = load_course(course.folder).problems
    assert problem.title.startswith(f"{manifest}: for:")
