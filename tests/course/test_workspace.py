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


def test_a_new_workspace_has_one_file_per_exercise_and_is_remembered(tmp_path: Path, course: Course) -> None:
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


def test_making_a_workspace_again_makes_only_what_is_missing(workspace: Workspace, course: Course) -> None:
    first, second = course.exercises[:2]
    workspace.write(first, "mine = 1\n")
    workspace.path_of(second).unlink()
    again, new = make_workspace(workspace.folder, course)
    assert (again, new) == (workspace, [workspace.path_of(second)])
    assert workspace.read(first) == "mine = 1\n"


def test_files_that_were_there_before_the_workspace_stay(tmp_path: Path, course: Course, exercise: Exercise) -> None:
    path = Workspace(tmp_path / "old").path_of(exercise)
    path.parent.mkdir(parents=True)
    path.write_text("old = 1\n")
    workspace, new = make_workspace(tmp_path / "old", course)
    assert path not in new
    assert workspace.read(exercise) == "old = 1\n"


def test_a_removed_file_is_made_again(workspace: Workspace, exercise: Exercise) -> None:
    shutil.rmtree(workspace.path_of(exercise).parent)
    with pytest.raises(WorkspaceError, match="is not there"):
        workspace.read(exercise)
    assert workspace.ensure(exercise).read_text() == STARTER
    workspace.write(exercise, "mine = 1\n")
    assert workspace.ensure(exercise).read_text() == "mine = 1\n"


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


def test_newlines_are_read_as_they_are_and_a_byte_order_mark_stays(workspace: Workspace, exercise: Exercise) -> None:
    workspace.path_of(exercise).write_bytes(b"\xef\xbb\xbfa = 1\r\n\tb = 2\r\n")
    text = workspace.read(exercise)
    assert text == "a = 1\r\n\tb = 2\r\n"
    workspace.write(exercise, text + "c = 3\r\n")
    assert workspace.path_of(exercise).read_bytes() == b"\xef\xbb\xbfa = 1\r\n\tb = 2\r\nc = 3\r\n"


def test_reset_keeps_a_dated_backup_and_names_it(workspace: Workspace, exercise: Exercise) -> None:
    backups = []
    for number in range(3):
        workspace.write(exercise, f"mine = {number}\n")
        backups.append(workspace.reset(exercise))
        assert workspace.read(exercise) == STARTER
    assert [backup.read_text() for backup in backups] == ["mine = 0\n", "mine = 1\n", "mine = 2\n"]
    assert {backup.parent for backup in backups} == {workspace.folder / ".backups"}
    assert len({backup.name for backup in backups}) == 3


def test_a_file_that_is_no_text_can_be_reset_and_is_kept(workspace: Workspace, exercise: Exercise) -> None:
    workspace.path_of(exercise).write_bytes(b"a\n\xff\xfe")
    with pytest.raises(WorkspaceError, match=r"is not UTF-8 text \(line 2\)") as raised:
        workspace.read(exercise)
    assert str(workspace.path_of(exercise)) in raised.value.title
    assert f"gpututor reset {exercise.slug}" in raised.value.advice
    assert workspace.reset(exercise).read_bytes() == b"a\n\xff\xfe"


def test_a_huge_file_a_folder_and_a_pipe_are_refused_in_words(workspace: Workspace, exercise: Exercise) -> None:
    path = workspace.path_of(exercise)
    path.write_bytes(b"#" * (1024 * 1024 + 1))
    with pytest.raises(WorkspaceError, match="larger than 1 MiB"):
        workspace.read(exercise)
    path.unlink()
    os.mkfifo(path)
    with no_waiting():
        with pytest.raises(WorkspaceError, match="cannot be read: Not an ordinary file"):
            workspace.read(exercise)
        with pytest.raises(WorkspaceError, match="cannot be reset: Not an ordinary file"):
            workspace.reset(exercise)
        with pytest.raises(WorkspaceError, match="cannot be written: Not an ordinary file"):
            workspace.write(exercise, "a = 1\n")
    assert path.is_fifo()
    path.unlink()
    path.mkdir()
    with pytest.raises(WorkspaceError, match="cannot be read: Not an ordinary file"):
        workspace.read(exercise)
    with pytest.raises(WorkspaceError, match="cannot be written"):
        workspace.write(exercise, "a = 1\n")


def test_a_text_that_cannot_be_saved_is_refused_and_the_old_one_stays(workspace: Workspace, exercise: Exercise) -> None:
    with pytest.raises(WorkspaceError, match="is not text"):
        workspace.write(exercise, "a = '\ud800'\n")
    assert workspace.read(exercise) == STARTER


def test_a_refusal_of_rights_names_the_file_and_what_to_do(
    workspace: Workspace, exercise: Exercise, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object, **options: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("gpututor.files.tempfile.mkstemp", refuse)
    with pytest.raises(WorkspaceError) as raised:
        workspace.write(exercise, "a = 1\n")
    path = workspace.path_of(exercise)
    assert raised.value.title == f"{path} cannot be written: Permission denied."
    assert str(path.parent) in raised.value.advice
    assert workspace.read(exercise) == STARTER


def test_a_file_in_the_way_of_the_workspace_is_told(tmp_path: Path, course: Course) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(WorkspaceError, match="cannot be made"):
        make_workspace(tmp_path / "file", course)


def test_links_that_lead_to_themselves_are_told(workspace: Workspace, exercise: Exercise) -> None:
    path = workspace.path_of(exercise)
    path.unlink()
    path.symlink_to(path)
    with pytest.raises(WorkspaceError):
        workspace.ensure(exercise)


def test_a_file_that_is_a_link_to_itself_is_not_called_missing(workspace: Workspace, exercise: Exercise) -> None:
    path = workspace.path_of(exercise)
    path.unlink()
    path.symlink_to(path)
    for follow_links, words in ((True, "cannot be read: Too many levels"), (False, "is a link")):
        with pytest.raises(WorkspaceError, match=words):
            read_submission(path, follow_links=follow_links)
    with pytest.raises(WorkspaceError, match="cannot be read: Too many levels"):
        workspace.read(exercise)


def test_a_link_to_a_good_file_is_read_only_where_links_may_be_followed(tmp_path: Path) -> None:
    (tmp_path / "good.py").write_text("a = 1\n")
    (tmp_path / "link.py").symlink_to("good.py")
    assert read_submission(tmp_path / "link.py", follow_links=True) == "a = 1\n"
    with pytest.raises(WorkspaceError, match="is a link"):
        read_submission(tmp_path / "link.py", follow_links=False)


def test_ones_own_file_and_a_named_one_are_refused_in_the_same_words(workspace: Workspace, exercise: Exercise) -> None:
    path = workspace.path_of(exercise)
    for content in (b"#" * (MAX_SUBMISSION_BYTES + 1), b"a\n\xff", None):
        path.unlink()
        path.write_bytes(content) if content is not None else os.mkfifo(path)
        with no_waiting(), pytest.raises(WorkspaceError) as own:
            workspace.read(exercise)
        with no_waiting(), pytest.raises(WorkspaceError) as named:
            read_submission(path, follow_links=False)
        assert own.value.title == named.value.title


def test_a_file_of_just_the_largest_size_is_read(workspace: Workspace, exercise: Exercise) -> None:
    workspace.path_of(exercise).write_bytes(b"#" * MAX_SUBMISSION_BYTES)
    assert len(workspace.read(exercise)) == MAX_SUBMISSION_BYTES


def test_pipes_in_the_place_of_gpututors_own_files_hold_nothing_up(
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


def test_a_newer_starter_is_announced_until_it_is_taken(workspace: Workspace, course: Course) -> None:
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
def test_a_damaged_marker_costs_only_the_news_of_starters(
    workspace: Workspace, exercise: Exercise, content: str
) -> None:
    (workspace.folder / MARKER).write_text(content)
    assert find_workspace(workspace.folder) == workspace
    assert not workspace.newer_starter(exercise)
    workspace.reset(exercise)
    assert exercise.key in json.loads((workspace.folder / MARKER).read_text())["handed_out"]


def test_a_workspace_is_found_from_its_folders_then_as_remembered_then_by_default(
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


def test_a_current_folder_that_was_removed_does_not_matter(
    tmp_path: Path, course: Course, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert find_workspace(course=course) == workspace


def test_a_folder_that_was_named_for_once_is_remembered_only_where_there_is_no_other(
    tmp_path: Path, course: Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    first, _ = make_workspace(tmp_path / "first", course, remember=False)
    make_workspace(tmp_path / "second", course, remember=False)
    assert find_workspace(course=course) == first


def test_nothing_stands_in_for_a_folder_that_is_not_there_now(
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
    assert raised.value.title == f"Your files are in {mine.folder}, and that folder is not there now."
    assert f"`gpututor init {default.folder}`" in raised.value.advice
    make_workspace(tmp_path / "moved", course)
    assert find_workspace(course=course) == Workspace(tmp_path / "moved")


def test_each_course_has_a_folder_and_progress_of_its_own(
    tmp_path: Path, course: Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = load_course(paths.builtin_course())
    other = dataclasses.replace(course, id="My course!")
    assert own.id == OWN_ID
    assert [each.place for each in (own, course, other)] == ["", "tiny", "My-course--e2dfdd26"]
    monkeypatch.chdir(tmp_path)
    for each in (course, other):
        make_workspace(paths.default_workspace(each.place), each)
    folders = [found.folder for each in (course, other) if (found := find_workspace(course=each))]
    assert folders == [paths.default_workspace(each.place) for each in (course, other)]
    assert find_workspace() is None
    assert len({paths.progress_file(each.place) for each in (own, course, other)}) == 3
    monkeypatch.chdir(folders[0])
    assert find_workspace(course=course) == Workspace(folders[0])
    assert find_workspace(course=other) == Workspace(folders[1]), "a workspace of another course is passed by"


def test_a_workspace_that_names_no_course_is_found_for_each(
    tmp_path: Path, course: Course, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workspace.folder / MARKER).write_text('{"schema_version": 1, "handed_out": {}}')
    monkeypatch.chdir(workspace.folder)
    assert find_workspace() == find_workspace(course=course) == workspace


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


def test_two_processes_in_one_workspace_lose_no_text_and_forget_no_starter(tmp_path: Path) -> None:
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
