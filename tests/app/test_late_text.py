"""What another program writes into a file that a save took the place of, or in the moment of it, is kept."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from gpututor.app.desk import Desk as OpenFile
from gpututor.app.desk import Kept
from tests.app.conftest import Desk
from tests.app.test_files import backups

LATE = "theirs = 2\n"


def write_late(descriptor: int) -> None:
    """What a program does that has the file open, whatever has its name by now."""
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, LATE.encode(), 0)
    os.close(descriptor)


def saved_while_open_elsewhere(desk: Desk) -> tuple[OpenFile, int]:
    """A file that was saved, and a descriptor of the one that stood there before."""
    opened = OpenFile(desk.workspace, desk.course.exercises[0])
    opened.read()
    descriptor = os.open(opened.path, os.O_WRONLY)
    assert opened.save("mine = 1\n")
    return opened, descriptor


@pytest.mark.parametrize("end", [OpenFile.leave, lambda opened: opened.rescue("mine = 1\n")], ids=["leave", "rescue"])
def test_what_comes_late_is_kept_also_by_who_leaves(desk: Desk, end: Callable[[OpenFile], None]) -> None:
    opened, descriptor = saved_while_open_elsewhere(desk)
    write_late(descriptor)
    end(opened)
    assert backups(desk) == [LATE]


def test_leaving_is_possible_where_nothing_can_be_kept(desk: Desk) -> None:
    opened, descriptor = saved_while_open_elsewhere(desk)
    (desk.workspace_folder / ".backups").write_text("in the way")
    write_late(descriptor)
    opened.leave()


def test_what_comes_late_is_kept_at_the_next_look_where_it_could_not_be_at_once(desk: Desk) -> None:
    opened, descriptor = saved_while_open_elsewhere(desk)
    in_the_way = desk.workspace_folder / ".backups"
    in_the_way.write_text("")
    write_late(descriptor)
    with pytest.raises(OSError, match="File exists"):
        opened.look("mine = 1\n")
    assert opened.save("mine = 2\n"), "the edits themselves can be saved"
    in_the_way.unlink()
    assert isinstance(opened.look("mine = 2\n"), Kept)
    assert backups(desk) == [LATE]


def test_what_comes_late_is_kept_after_a_conflict_too(desk: Desk) -> None:
    opened = OpenFile(desk.workspace, desk.course.exercises[0])
    opened.read()
    opened.path.write_text("theirs = 1\n")
    descriptor = os.open(opened.path, os.O_WRONLY)
    kept = opened.keep_mine("mine = 1\n")
    assert kept is not None
    assert kept.read_text() == "theirs = 1\n"
    write_late(descriptor)
    assert isinstance(opened.look("mine = 1\n"), Kept)
    assert sorted(backups(desk)) == ["theirs = 1\n", LATE]


def test_a_file_that_is_there_again_in_the_last_moment_is_kept(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = OpenFile(desk.workspace, desk.course.exercises[0])
    opened.read()
    opened.path.unlink()
    fsync = os.fsync

    def there_again(descriptor: int) -> None:
        fsync(descriptor)
        monkeypatch.undo()
        opened.path.write_text(LATE)

    monkeypatch.setattr(os, "fsync", there_again)
    opened.keep_mine("mine = 1\n")
    assert opened.path.read_text() == "mine = 1\n"
    assert backups(desk) == [LATE]
