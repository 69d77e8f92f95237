"""The learner's files: created where missing, written whole, never lost."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gpututor import paths
from gpututor.course.loader import load_course
from gpututor.course.model import MAX_SUBMISSION_BYTES, OWN_ID, Course, Exercise
from gpututor.course.workspace import (
    MARKER,
    Workspace,
    check_not_missing,
    find_workspace,
    make_workspace,
    read_submission,
)
from gpututor.errors import WorkspaceError
from tests.support import ROOT
from tests.support.timeouts import no_waiting
from tests.support.tiny_course import FILES, write_course

STARTER = FILES["starter.py"]


@pytest.fixture
def course(tmp_path: Path) -> Course:
    return load_course(write_course(tmp_path / "course", exercises=2, lessons=2))


@pytest.fixture
def workspace(tmp_path: Path, course: Course) -> Workspace:
    return make_workspace(tmp_path / "mine", course)[0]


@pytest.fixture
def exercise(course: Course) -> Exercise:
    return course.exercises[0]


def test_a_new_workspace_has_a_file_per_exercise_and_replaces_no_file(tmp_path: Path, course: Course) -> None:
    workspace, new = make_workspace(tmp_path / "deep" / "mine", course)
    assert [str(path.relative_to(workspace.folder)) for path in new] == [
        "01_lesson_1/01_twice_1_1.py",
        "01_lesson_1/02_twice_1_2.py",
        "02_lesson_2/01_twice_2_1.py",
        "02_lesson_2/02_twice_2_2.py",
    ]
    assert [workspace.read(exercise) for exercise in course.exercises] == [STARTER] * 4
    assert find_workspace(course=course) == workspace
    assert paths.remembered_workspace_file("tiny").read_text() == f"{workspace.folder}\n"
    (tmp_path / "file").write_text("")
    with pytest.raises(WorkspaceError, match="cannot be made"):
        make_workspace(tmp_path / "file", course)


def test_making_a_workspace_adds_only_missing_files(tmp_path: Path, workspace: Workspace, course: Course) -> None:
    first, second = course.exercises[:2]
    workspace.write(first, "mine = 1\n")
    workspace.path_of(second).unlink()
    again, new = make_workspace(workspace.folder, course)
    assert (again, new) == (workspace, [workspace.path_of(second)])
    assert workspace.read(first) == "mine = 1\n"
    other = Workspace(tmp_path / "other")
    other.path_of(first).parent.mkdir(parents=True)
    other.path_of(first).write_text("old = 1\n")
    assert other.path_of(first) not in make_workspace(other.folder, course)[1]
    assert other.read(first) == "old = 1\n"


def test_removed_files_are_recreated_and_resets_back_up_any_content(workspace: Workspace, exercise: Exercise) -> None:
    shutil.rmtree(workspace.path_of(exercise).parent)
    with pytest.raises(WorkspaceError, match="is not there"):
        workspace.read(exercise)
    assert workspace.ensure(exercise).read_text() == STARTER
    workspace.write(exercise, "mine = 1\n")
    assert workspace.ensure(exercise).read_text() == "mine = 1\n"
    workspace.path_of(exercise).write_bytes(b"\xef\xbb\xbfa = 1\r\n\tb = 2\r\n")
    text = workspace.read(exercise)
    assert text == "a = 1\r\n\tb = 2\r\n"
    workspace.write(exercise, text + "c = 3\r\n")
    assert workspace.path_of(exercise).read_bytes() == b"\xef\xbb\xbfa = 1\r\n\tb = 2\r\nc = 3\r\n"
    backups = []
    for number in range(3):
        workspace.write(exercise, f"mine = {number}\n")
        backups.append(workspace.reset(exercise))
        assert workspace.read(exercise) == STARTER
    assert [backup.read_text("utf-8-sig") for backup in backups] == ["mine = 0\n", "mine = 1\n", "mine = 2\n"]
    assert {backup.parent for backup in backups} == {workspace.folder / ".backups"}
    assert len({backup.name for backup in backups}) == 3
    workspace.path_of(exercise).write_bytes(b"a\n\xff\xfe")
    with pytest.raises(WorkspaceError, match=r"UTF-8 text \(line 2\)") as raised:
        workspace.read(exercise)
    assert str(workspace.path_of(exercise)) in raised.value.title
    assert f"gpututor reset {exercise.slug}" in raised.value.advice
    assert workspace.reset(exercise).read_bytes() == b"a\n\xff\xfe"


def test_a_link_stays_a_link(tmp_path: Path, workspace: Workspace, exercise: Exercise) -> None:
    path, elsewhere = workspace.path_of(exercise), tmp_path / "elsewhere" / "mine.py"
    path.unlink()
    path.symlink_to(elsewhere)
    workspace.ensure(exercise)
    assert elsewhere.read_text() == STARTER
    workspace.write(exercise, "mine = 1\n")
    assert (path.is_symlink(), elsewhere.read_text()) == (True, "mine = 1\n")
    backup = workspace.reset(exercise)
    assert (path.is_symlink(), elsewhere.read_text(), backup.read_text()) == (True, STARTER, "mine = 1\n")
    assert read_submission(path, follow_links=True) == STARTER
    with pytest.raises(WorkspaceError, match="is a link"):
        read_submission(path, follow_links=False)


def test_a_huge_file_a_folder_and_a_pipe_are_refused(workspace: Workspace, exercise: Exercise) -> None:
    path = workspace.path_of(exercise)
    path.write_bytes(b"#" * MAX_SUBMISSION_BYTES)
    assert len(workspace.read(exercise)) == MAX_SUBMISSION_BYTES
    path.write_bytes(b"#" * (1024 * 1024 + 1))
    with pytest.raises(WorkspaceError, match="larger than 1 MiB"):
        workspace.read(exercise)
    path.unlink()
    os.mkfifo(path)
    uses = {"read": workspace.read, "written": lambda file: workspace.write(file, "a = 1\n"), "reset": workspace.reset}
    for verb, use in uses.items():
        with no_waiting(), pytest.raises(WorkspaceError, match=rf"{verb}: Not an ordinary"):
            use(exercise)
    assert path.is_fifo()
    path.unlink()
    path.mkdir()
    for verb in ("read", "written"):
        with pytest.raises(WorkspaceError, match=f"cannot be {verb}"):
            uses[verb](exercise)


def test_a_refused_text_or_write_leaves_the_file_unchanged(
    workspace: Workspace, exercise: Exercise, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(WorkspaceError, match="invalid character"):
        workspace.write(exercise, "a = '\ud800'\n")
    assert workspace.read(exercise) == STARTER

    def refuse(*arguments: object, **options: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("gpututor.files.tempfile.mkstemp", refuse)
    with pytest.raises(WorkspaceError) as raised:
        workspace.write(exercise, "a = 1\n")
    path = workspace.path_of(exercise)
    assert raised.value.title == f"{path} cannot be written: Permission denied."
    assert str(path.parent) in raised.value.advice
    assert workspace.read(exercise) == STARTER


def test_a_circular_link_is_refused_and_not_reported_as_missing(workspace: Workspace, exercise: Exercise) -> None:
    path = workspace.path_of(exercise)
    path.unlink()
    path.symlink_to(path)
    for follow_links, words in ((True, "Too many levels"), (False, "is a link")):
        with pytest.raises(WorkspaceError, match=words):
            read_submission(path, follow_links=follow_links)
    with pytest.raises(WorkspaceError, match="Too many levels"):
        workspace.read(exercise)
    with pytest.raises(WorkspaceError):
        workspace.ensure(exercise)


def test_named_files_have_the_same_errors_as_workspace_files(workspace: Workspace, exercise: Exercise) -> None:
    path = workspace.path_of(exercise)
    for content in (b"#" * (MAX_SUBMISSION_BYTES + 1), b"a\n\xff", None):
        path.unlink()
        path.write_bytes(content) if content is not None else os.mkfifo(path)
        with no_waiting(), pytest.raises(WorkspaceError) as own:
            workspace.read(exercise)
        with no_waiting(), pytest.raises(WorkspaceError) as named:
            read_submission(path, follow_links=False)
        assert own.value.title == named.value.title


def test_pipes_in_place_of_internal_files_never_block(
    tmp_path: Path, workspace: Workspace, course: Course, exercise: Exercise
) -> None:
    for path in (workspace.folder / MARKER, paths.remembered_workspace_file("tiny")):
        path.unlink()
        os.mkfifo(path)
    with no_waiting():
        assert find_workspace(course=course) is None
        assert not workspace.newer_starter(exercise)
        with pytest.raises(WorkspaceError, match="Not an ordinary file"):
            make_workspace(workspace.folder, course)


def test_a_newer_starter_is_announced_until_applied(workspace: Workspace, course: Course) -> None:
    first, second = course.exercises[:2]
    assert not workspace.newer_starter(first)
    (first.folder / "starter.py").write_text("def twice(number): ...\n")
    assert workspace.newer_starter(first)
    assert not workspace.newer_starter(second)
    assert workspace.read(first) == STARTER
    make_workspace(workspace.folder, course)
    assert workspace.newer_starter(first)
    workspace.reset(first)
    assert not workspace.newer_starter(first)
    assert workspace.read(first) == "def twice(number): ...\n"


@pytest.mark.parametrize("content", ["", "[]", "{", '{"handed_out": 3}', '{"handed_out": {"lesson_1/twice_1_1": 3}}'])
def test_a_damaged_marker_only_loses_starter_news(workspace: Workspace, exercise: Exercise, content: str) -> None:
    (workspace.folder / MARKER).write_text(content)
    assert find_workspace(workspace.folder) == workspace
    assert not workspace.newer_starter(exercise)
    workspace.reset(exercise)
    assert exercise.key in json.loads((workspace.folder / MARKER).read_text())["handed_out"]


def test_the_current_folder_precedes_the_remembered_and_the_default_workspace(
    tmp_path: Path, course: Course, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, _ = make_workspace(tmp_path / "other", course)
    monkeypatch.chdir(tmp_path)
    assert find_workspace(course=course) == other
    monkeypatch.chdir(workspace.folder / "02_lesson_2")
    assert find_workspace(course=course) == workspace
    assert find_workspace(other.folder) == other
    assert find_workspace(tmp_path) is None
    monkeypatch.chdir(tmp_path)
    shutil.rmtree(other.folder)
    assert find_workspace(course=course) is None
    default, _ = make_workspace(paths.default_workspace("tiny"), course)
    paths.remembered_workspace_file("tiny").unlink()
    assert find_workspace(course=course) == default


def test_a_removed_current_folder_and_a_missing_course_are_allowed(
    tmp_path: Path, course: Course, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert find_workspace(course=course) == workspace
    (workspace.folder / MARKER).write_text('{"schema_version": 1, "handed_out": {}}')
    monkeypatch.chdir(workspace.folder)
    assert find_workspace() == find_workspace(course=course) == workspace


def test_a_folder_named_once_becomes_only_the_first_remembered(
    tmp_path: Path, course: Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    first, _ = make_workspace(tmp_path / "first", course, remember=False)
    make_workspace(tmp_path / "second", course, remember=False)
    assert find_workspace(course=course) == first


def test_a_missing_remembered_folder_is_not_replaced(
    tmp_path: Path, course: Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    default, _ = make_workspace(paths.default_workspace("tiny"), course)
    mine, _ = make_workspace(tmp_path / "mine", course)
    check_not_missing(course)
    mine.folder.rename(tmp_path / "moved")
    assert find_workspace(course=course) is None
    with pytest.raises(WorkspaceError) as raised:
        check_not_missing(course)
    assert str(mine.folder) in raised.value.title
    assert f"`gpututor init {default.folder}`" in raised.value.advice
    make_workspace(tmp_path / "moved", course)
    assert find_workspace(course=course) == Workspace(tmp_path / "moved")


def test_an_unreadable_path_of_the_folder_never_leads_to_an_older_folder(
    tmp_path: Path, course: Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    make_workspace(paths.default_workspace("tiny"), course)
    mine, _ = make_workspace(tmp_path / "mine", course)
    file = paths.remembered_workspace_file("tiny")
    file.write_bytes(b"\xff\xfe")
    assert find_workspace(course=course) is None
    with pytest.raises(WorkspaceError) as raised:
        check_not_missing(course)
    assert str(file) in raised.value.title
    make_workspace(tmp_path / "named", course, remember=False)
    assert file.read_bytes() == b"\xff\xfe", "a folder that is named once replaces nothing"
    make_workspace(mine.folder, course)
    assert find_workspace(course=course) == mine


def test_each_course_has_its_own_folder_and_progress(
    tmp_path: Path, course: Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = load_course(paths.builtin_course())
    other = dataclasses.replace(course, id="My course!")
    assert own.id == OWN_ID
    assert [each.place for each in (own, course, other)] == ["", "tiny", "My-course--e2dfdd26"]
    monkeypatch.chdir(tmp_path)
    for each in (course, other):
        make_workspace(paths.default_workspace(each.place), each)
    folders = [workspace.folder for each in (course, other) if (workspace := find_workspace(course=each))]
    assert folders == [paths.default_workspace(each.place) for each in (course, other)]
    assert find_workspace() is None
    assert len({paths.progress_file(each.place) for each in (own, course, other)}) == 3
    monkeypatch.chdir(folders[0])
    assert find_workspace(course=course) == Workspace(folders[0])
    assert find_workspace(course=other) == Workspace(folders[1]), "a workspace of another course is passed by"


RESETTER = """
import sys
from pathlib import Path
from gpututor.course.loader import load_course
from gpututor.course.workspace import Workspace
workspace = Workspace(Path(sys.argv[2]))
for exercise in load_course(Path(sys.argv[1])).exercises[int(sys.argv[3])::2]:
    workspace.write(exercise, f"mine = {exercise.label}\\n")
    workspace.reset(exercise)
"""


def test_concurrent_resets_lose_no_text_and_no_starter(tmp_path: Path) -> None:
    course_folder = write_course(tmp_path / "course", exercises=15, lessons=4)
    exercises = load_course(course_folder).exercises
    workspace, _ = make_workspace(tmp_path / "mine", load_course(course_folder))
    (workspace.folder / MARKER).write_text("{}")
    command = [sys.executable, "-c", RESETTER, str(course_folder), str(workspace.folder)]
    resetters = [subprocess.Popen([*command, str(number)], cwd=ROOT) for number in range(2)]
    assert [resetter.wait(timeout=60) for resetter in resetters] == [0, 0]
    backups = sorted(path.read_text() for path in (workspace.folder / ".backups").iterdir())
    assert backups == sorted(f"mine = {exercise.label}\n" for exercise in exercises)
    handed_out = json.loads((workspace.folder / MARKER).read_text())["handed_out"]
    assert set(handed_out) == {exercise.key for exercise in exercises}
