"""Courses: their files, broken entries, and installed packs."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpututor import __version__
from gpututor.cli.main import main
from gpututor.course.loader import EXERCISE_FILES, LANGUAGES, course_folder, load_course, load_exercise, version_mistake
from gpututor.course.model import Course
from gpututor.errors import CourseError, UsageError
from gpututor.hardware.scenario import Scenario
from tests.support.timeouts import no_waiting
from tests.support.tiny_course import write_course, write_exercise


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_course(tmp_path / "course", exercises=3, lessons=2)


@pytest.fixture
def broken(folder: Path) -> Path:
    """Return exercise 1.2, which a test breaks."""
    return folder / "01_lesson_1" / "02_twice_1_2"


ALL = ["1.1", "1.2", "1.3", "2.1", "2.2", "2.3"]


def labels(course: Course) -> list[str]:
    return [exercise.label for exercise in course.exercises]


def titles(course: Course) -> list[str]:
    return [problem.title.removeprefix(f"{course.folder}{os.sep}") for problem in course.problems]


def test_a_valid_course_loads_completely_and_finds_its_exercises(folder: Path) -> None:
    course = load_course(folder)
    assert (course.problems, course.id, course.title) == ((), "tiny", "A tiny course")
    assert labels(course) == ALL
    exercise = course.exercises[4]
    assert (exercise.key, exercise.title, exercise.entry) == ("lesson_2/twice_2_2", "Twice 2", "twice")
    assert exercise.scenarios == (Scenario("one GPU"),)
    assert (len(exercise.hints), len(exercise.wrong_solutions)) == (3, 3)
    assert course.lessons[1].text.startswith("# Lesson 2")
    for exercise in load_course(folder).exercises:
        assert load_exercise(exercise.folder) == exercise
    with pytest.raises(UsageError) as raised:
        course.find("twise_2_3")
    assert "twice_2_3" in raised.value.advice
    file, own_folder = "02_lesson_2/03_twice_2_3.py", str(course.exercises[5].folder)
    for words in ("2.3", "twice_2_3", "lesson_2/twice_2_3", file, own_folder):
        assert course.find(words).label == "2.3"


PATH = '[[path]]\nname = "core"\ntitle = "core path"\nexercises = ["twice_1_1", "{}"]\n'


def test_a_learning_path_names_exercises(folder: Path) -> None:
    manifest = folder / "course.toml"
    plain = manifest.read_text()
    manifest.write_text(plain + PATH.format("twice_2_2"))
    course = load_course(folder)
    assert course.problems == ()
    on_path = [exercise.label for exercise in course.exercises if course.paths_of(exercise)]
    assert (on_path, course.learning_path("core").title) == (["1.1", "2.2"], "core path")
    with pytest.raises(UsageError, match="short"):
        course.learning_path("short")
    manifest.write_text(plain + PATH.format("twice_2_9"))
    assert titles(load_course(folder)) == ["course.toml: path[0].exercises[1]: no exercise 'twice_2_9'"]
    manifest.write_text(plain + 2 * PATH.format("twice_2_2"))
    assert titles(load_course(folder)) == ["course.toml: path[1].name: a second path 'core'"]


@pytest.mark.parametrize(
    ("version", "wanted", "fits"),
    [
        ("0.1.0", ">=0.1,<0.2", True),
        ("0.1.0", "==0.1", True),
        ("0.10.0", ">= 0.9, < 1", True),
        ("0.2.0", ">=0.1,<0.2", False),
        ("0.1.1", "==0.1", False),
        ("0.0.9", ">=0.1", False),
    ],
)
def test_a_course_names_the_versions_that_it_works_with(version: str, wanted: str, fits: bool) -> None:
    mistake = version_mistake(wanted, version)
    assert (mistake is None) == fits
    if mistake is not None:
        assert mistake.problem == f"the course needs gpututor {wanted}, and this is {version}"


@pytest.mark.parametrize(
    ("wanted", "words"),
    [(">=99", f"course needs gpututor >=99, and this is {__version__}"), ("~=0.1", "got '~=0.1'"), (">=0.1,", "got")],
)
def test_a_course_for_another_version_is_not_loaded(folder: Path, wanted: str, words: str) -> None:
    manifest = folder / "course.toml"
    text = manifest.read_text()
    manifest.write_text(f'gpututor = ">=0"\n{text}')
    assert not load_course(folder).problems
    manifest.write_text(f'gpututor = "{wanted}"\n{text}')
    with pytest.raises(CourseError, match=words) as raised:
        load_course(folder)
    assert raised.value.title.startswith(f"{manifest}: gpututor: ")
    assert raised.value.advice


def test_prerequisites_are_earlier_exercises(folder: Path, broken: Path) -> None:
    manifest = broken / "exercise.toml"
    plain = manifest.read_text()
    manifest.write_text(f'prerequisites = ["twice_1_1"]\n{plain}')
    course = load_course(folder)
    assert [each.label for each in course.prerequisites_of(course.find("1.2"))] == ["1.1"]
    manifest.write_text(f'prerequisites = ["twice_1_1", "twice_1_3"]\n{plain}')
    (problem,) = titles(load_course(folder))
    assert problem.endswith("exercise.toml: prerequisites[1]: no earlier exercise 'twice_1_3'")


@pytest.mark.parametrize(("line", "processes"), [("", 2), ("processes = 3\n", 3)])
def test_the_default_number_of_processes_is_two(broken: Path, line: str, processes: int) -> None:
    manifest = broken / "exercise.toml"
    manifest.write_text(manifest.read_text().replace('kind = "function"\n', f'kind = "processes"\n{line}'))
    exercise = load_exercise(broken)
    assert (exercise.kind, exercise.processes) == ("processes", processes)


def remove(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink()


@pytest.mark.parametrize(
    ("changed", "content", "file", "words"),
    [
        ("exercise.toml", None, "exercise.toml", "missing"),
        ("exercise.toml", b"title = \n", "exercise.toml", "at line 1, column 9"),
        ("hints.md", b"## One\n\n## Two\n### Not one\n", "hints.md", "found 2"),
        ("hints.md", b"## \xff", "hints.md", "cannot be read"),
        *((name, None, name, "the file is missing") for name in EXERCISE_FILES),
    ],
)
def test_a_broken_exercise_is_reported_and_the_others_load(
    folder: Path, broken: Path, changed: str, content: bytes | None, file: str, words: str
) -> None:
    remove(broken / changed)
    if content is not None:
        (broken / changed).write_bytes(content)
    course = load_course(folder)
    assert labels(course) == ["1.1", "1.3", "2.1", "2.2", "2.3"]
    (title,) = titles(course)
    assert title.startswith(f"01_lesson_1/02_twice_1_2/{file}: ")
    assert words in title
    with pytest.raises(CourseError, match=words):
        load_exercise(broken)
    with pytest.raises(UsageError, match="is broken") as not_found:
        course.find("twice_1_2")
    assert title in not_found.value.advice


def test_all_mistakes_of_an_exercise_are_reported_together(broken: Path) -> None:
    (broken / "exercise.toml").write_text('title = 3\nsumary = "x"\n')
    (broken / "task.md").unlink()
    with pytest.raises(CourseError) as raised:
        load_exercise(broken)
    lines = raised.value.title.splitlines()
    assert all(line.startswith(str(broken)) for line in lines)
    for words in ("title: expected", "sumary: unknown key", "summary: missing", "task.md: the file"):
        assert any(words in line for line in lines), words


def test_a_broken_lesson_keeps_its_exercises(folder: Path) -> None:
    (folder / "01_lesson_1" / "lesson.toml").write_text("nothing")
    (folder / "02_lesson_2" / "lesson.md").unlink()
    course = load_course(folder)
    assert len(course.exercises) == 6
    assert [lesson.title for lesson in course.lessons] == ["Lesson 1", "Small things"]
    assert [title.partition(": ")[0] for title in titles(course)] == [
        "01_lesson_1/lesson.toml",
        "02_lesson_2/lesson.md",
    ]


@pytest.mark.parametrize(
    ("lesson", "number", "slug", "words"),
    [
        ("01_other", 1, "more", "01_other: the number 01"),
        ("03_lesson_1", 1, "more", "03_lesson_1: the name 'lesson_1'"),
        ("02_lesson_2", 3, "usurper", "02_lesson_2/03_usurper: the number 03"),
        ("02_lesson_2", 4, "twice_1_1", "02_lesson_2/04_twice_1_1: the name 'twice_1_1'"),
    ],
)
def test_a_duplicate_is_refused(folder: Path, lesson: str, number: int, slug: str, words: str) -> None:
    write_exercise(folder / lesson, number, slug)
    course = load_course(folder)
    assert len(course.exercises) == 6
    assert titles(course)[0].startswith(f"{words} is taken by {folder}")


def test_misnamed_lesson_folders_are_reported_but_no_hidden_ones(folder: Path) -> None:
    for lesson in (folder, folder / "01_lesson_1"):
        (lesson / ".git").mkdir()
        (lesson / "__pycache__").mkdir()
        (lesson / "README.md").write_text("")
    (folder / LANGUAGES).mkdir()
    assert load_course(folder).problems == ()
    (folder / "01_lesson_1" / LANGUAGES).mkdir()
    assert len(load_course(folder).problems) == 1
    (folder / "01_lesson_1" / LANGUAGES).rmdir()
    names = ["00_lesson", "003_lesson", "03-lesson", "03_", "03_Lesson", "1_lesson", "lesson"]
    for name in names:
        (folder / name).mkdir()
    assert {title.partition(": not the name ")[0] for title in titles(load_course(folder))} == set(names)


def test_a_lesson_without_exercises_is_reported(folder: Path) -> None:
    (folder / "03_empty").mkdir()
    (folder / "03_empty" / "lesson.md").write_text("")
    shutil.copy(folder / "01_lesson_1" / "lesson.toml", folder / "03_empty")
    course = load_course(folder)
    (title,) = titles(course)
    assert title.startswith("03_empty: ")
    assert len(course.lessons) == 3


def test_a_folder_without_lessons_is_refused_and_a_nested_course_suggested(tmp_path: Path) -> None:
    for load in (load_course, load_exercise):
        with pytest.raises(CourseError, match="no such folder"):
            load(tmp_path / "none")
    for name in ("empty", "with folders/notes"):
        (tmp_path / name).mkdir(parents=True)
    write_course(tmp_path / "unpacked" / "tiny")
    for name in ("empty", "with folders", "unpacked"):
        with pytest.raises(CourseError, match="no lessons") as refused:
            load_course(tmp_path / name)
    assert refused.value.advice.endswith(f": {tmp_path / 'unpacked' / 'tiny'}")


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(name=st.sampled_from(["exercise.toml", "hints.md", "task.md"]), content=st.binary(max_size=80))
def test_arbitrary_file_content_breaks_only_its_exercise(folder: Path, broken: Path, name: str, content: bytes) -> None:
    path = broken / name
    before = path.read_bytes()
    path.write_bytes(content)
    try:
        course = load_course(folder)
    finally:
        path.write_bytes(before)
    assert set(ALL) - {"1.2"} <= set(labels(course))
    assert all(str(path) in problem.title for problem in course.problems)
    assert ("1.2" in labels(course)) == (not course.problems)


def loop(path: Path) -> None:
    path.symlink_to(path.name)


def unreadable(path: Path) -> None:
    """Make an entry whose stat() fails, even for root."""
    path.symlink_to("x" * 300)


def link_to_a_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def listener(path: Path) -> None:
    short = Path("/tmp") / f"gpututor-{os.getpid()}.socket"  # the name of a socket has 107 bytes at most
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(short))
    shutil.move(short, path)


SPECIAL: list[Callable[[Path], None]] = [loop, unreadable, link_to_a_device, listener, os.mkfifo]


@pytest.mark.parametrize("make", [loop, unreadable])
@pytest.mark.parametrize("place", [".", "01_lesson_1"])
def test_a_broken_entry_is_reported_and_exercises_load(folder: Path, place: str, make: Callable[[Path], None]) -> None:
    make(folder / place / "05_broken")
    make(folder / place / ".hidden")
    course = load_course(folder)
    assert labels(course) == ALL
    (problem,) = course.problems
    assert problem.title.startswith(f"{folder / place / '05_broken'}: cannot be read (")


@pytest.mark.parametrize("make", SPECIAL)
def test_an_unused_special_file_is_ignored(folder: Path, make: Callable[[Path], None]) -> None:
    make(folder / "01_lesson_1" / "01_twice_1_1" / "notes")
    course = load_course(folder)
    assert (len(course.exercises), course.problems) == (6, ())


OF_AN_EXERCISE = ("exercise.toml", *EXERCISE_FILES)
OF_LESSONS = ("course.toml", "01_lesson_1/lesson.toml", "01_lesson_1/lesson.md")
FIRST = "01_lesson_1/01_twice_1_1"


@pytest.mark.parametrize("make", SPECIAL)
@pytest.mark.parametrize("name", [*OF_LESSONS, *(f"{FIRST}/{name}" for name in OF_AN_EXERCISE)])
def test_a_special_file_breaks_only_its_exercise(folder: Path, name: str, make: Callable[[Path], None]) -> None:
    path = folder / name
    remove(path)
    make(path)
    with no_waiting():
        course = load_course(folder)
    assert labels(course) == ALL[name not in OF_LESSONS :]
    (problem,) = course.problems
    assert problem.title.startswith(f"{path}: ")
    assert "missing" not in problem.title
    if name not in OF_LESSONS:
        with no_waiting(), pytest.raises(CourseError):
            load_exercise(folder / FIRST)


@pytest.mark.parametrize("make", SPECIAL)
def test_a_text_replaced_after_loading_is_refused(folder: Path, make: Callable[[Path], None]) -> None:
    course = load_course(folder)
    exercise = course.exercises[0]
    for path in (exercise.folder / "task.md", course.lessons[0].folder / "lesson.md"):
        path.unlink()
        make(path)
    for owner, text in ((exercise, "task"), (course.lessons[0], "text")):
        with no_waiting(), pytest.raises(CourseError, match="cannot be read"):
            getattr(owner, text)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install two packages with a course each, and an entry point without its package."""
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


def test_installed_packs_are_known_by_name_but_a_folder_comes_first(
    installed: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert course_folder("first") == installed / "first_pack" / "course"
    for name, has_two_lessons in (("second", True), ("first", False)):
        assert main(["list", "--course", name]) == 0
        assert ("2.2" in capsys.readouterr().out) is has_two_lessons
    with pytest.raises(CourseError, match="no installed course") as refused:
        course_folder("secnod")
    assert all(words in refused.value.advice for words in ("'second'?", "first, gone, second."))
    with pytest.raises(CourseError, match=r"gone_pack\.course, .* no such package"):
        course_folder("gone")
    monkeypatch.chdir(tmp_path)
    assert course_folder("./first") == Path("./first")
    write_course(tmp_path / "first")
    assert course_folder("first") == Path("first")


def test_without_packs_a_name_is_a_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--course", "nowhere"]) != 0
    assert "no such folder" in capsys.readouterr().err
