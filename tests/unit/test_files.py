"""A file that is written holds the old text or the new one, whatever happens, and keeps its mode and its links."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpututor.files import back_up, create_atomically, write_atomically


def test_the_text_is_written_as_it_is_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file.py"
    write_atomically(path, "é = 1\r\n")
    write_atomically(path, "é = 2\r\n")
    assert path.read_bytes() == "é = 2\r\n".encode()
    assert os.listdir(path.parent) == ["file.py"]


def test_a_write_that_breaks_leaves_the_old_text_and_nothing_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file.py"
    path.write_text("old")

    def break_down(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", break_down)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(path, "new")
    with pytest.raises(OSError, match="No space left"):
        create_atomically(tmp_path / "other.py", "new")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["file.py"]


def test_the_mode_of_a_file_is_kept_and_a_new_one_gets_the_usual_mode(tmp_path: Path) -> None:
    path, usual = tmp_path / "file.py", tmp_path / "usual.py"
    usual.touch()
    write_atomically(path, "a")
    assert path.stat().st_mode == usual.stat().st_mode
    path.chmod(0o640)
    write_atomically(path, "b")
    assert path.stat().st_mode & 0o777 == 0o640
    create_atomically(tmp_path / "created.py", "c")
    assert (tmp_path / "created.py").stat().st_mode == usual.stat().st_mode


def test_a_link_is_followed_even_to_a_file_that_is_not_there_yet(tmp_path: Path) -> None:
    target, link = tmp_path / "there" / "file.py", tmp_path / "link.py"
    link.symlink_to(target)
    assert create_atomically(link, "created")
    assert (link.is_symlink(), target.read_text()) == (True, "created")
    write_atomically(link, "written")
    assert (link.is_symlink(), target.read_text()) == (True, "written")


def test_create_leaves_what_is_there_alone(tmp_path: Path) -> None:
    path = tmp_path / "file.py"
    assert create_atomically(path, "first")
    assert not create_atomically(path, "second")
    assert path.read_text() == "first"
    assert os.listdir(tmp_path) == ["file.py"]


@pytest.mark.parametrize("links", [True, False])
def test_create_leaves_alone_what_appears_in_the_meantime(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    path = tmp_path / "file.py"

    def appear(source: object, target: object) -> None:
        path.write_text("theirs")
        raise FileExistsError(17, "File exists") if links else PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("os.link", appear)
    assert not create_atomically(path, "ours")
    assert path.read_text() == "theirs"


def test_create_works_on_file_systems_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(source: object, target: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("os.link", refuse)
    assert create_atomically(tmp_path / "file.py", "ours")
    assert (tmp_path / "file.py").read_text() == "ours"
    assert os.listdir(tmp_path) == ["file.py"]


def test_backups_of_the_same_second_get_names_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "file.py"
    copies = []
    for number in range(3):
        path.write_text(str(number))
        copies.append(back_up(path, tmp_path / "backups"))
    assert [copy.read_text() for copy in copies] == ["0", "1", "2"]
    assert all(copy.name.startswith("file.2") and copy.suffix == ".py" for copy in copies)
