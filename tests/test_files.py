"""Atomic writing, guarded replacement, and backups: a file has its old text or its new text, never a part."""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from gpututor.files import (
    ChangedMeanwhile,
    back_up,
    create_atomically,
    replace_backed_up,
    replace_known,
    sweep_parts,
    write_atomically,
)
from gpututor.processes import is_alive
from tests.support.timeouts import no_waiting

LETTERS = 1 << 20
WRITER = """
import sys
from pathlib import Path
from gpututor.files import write_atomically
path, letters = Path(sys.argv[1]), int(sys.argv[2])
print("ready", flush=True)
while True:
    for letter in "abc":
        write_atomically(path, letter * letters)
"""


def test_texts_modes_and_links_are_written_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file.py"
    write_atomically(path, "é = 1\r\n")
    write_atomically(path, "é = 2\r\n")
    assert path.read_bytes() == "é = 2\r\n".encode()
    assert os.listdir(path.parent) == ["file.py"]
    path, usual = tmp_path / "file.py", tmp_path / "usual.py"
    usual.touch()
    write_atomically(path, "a")
    assert path.stat().st_mode == usual.stat().st_mode
    path.chmod(0o640)
    write_atomically(path, "b")
    assert path.stat().st_mode & 0o777 == 0o640
    create_atomically(tmp_path / "created.py", "c")
    assert (tmp_path / "created.py").stat().st_mode == usual.stat().st_mode
    target, link = tmp_path / "there" / "file.py", tmp_path / "link.py"
    link.symlink_to(target)
    assert create_atomically(link, "created")
    assert (link.is_symlink(), target.read_text()) == (True, "created")
    write_atomically(link, "written")
    assert (link.is_symlink(), target.read_text()) == (True, "written")


@pytest.mark.parametrize(("owner", "name"), [(os, "fsync"), (Path, "replace")])
def test_a_failed_write_leaves_only_the_old_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: object, name: str
) -> None:
    path = tmp_path / "file.py"
    path.write_text("old")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(owner, name, fail)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(path, "new")
    if owner is os:
        with pytest.raises(OSError, match="No space left"):
            create_atomically(tmp_path / "other.py", "new")
    assert (path.read_text(), os.listdir(tmp_path)) == ("old", ["file.py"])


def test_the_new_text_is_flushed_before_it_replaces_the_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file.py"
    path.write_text("old")
    inode = path.stat().st_ino
    done: list[tuple[str, str]] = []
    fsync, rename = os.fsync, Path.replace

    def note_fsync(descriptor: int) -> None:
        done.append(("fsync", os.pread(descriptor, 100, 0).decode()))
        fsync(descriptor)

    def note_replace(part: Path, target: Path) -> Path:
        done.append(("replace", path.read_text()))
        return rename(part, target)

    monkeypatch.setattr("os.fsync", note_fsync)
    monkeypatch.setattr(Path, "replace", note_replace)
    write_atomically(path, "new")
    assert done == [("fsync", "new"), ("replace", "old")]
    assert (path.read_text(), path.stat().st_ino != inode) == ("new", True)


def test_a_killed_writer_leaves_a_whole_text(tmp_path: Path) -> None:
    path = tmp_path / "file.py"
    whole = {letter * LETTERS for letter in "abc"}
    write_atomically(path, "a" * LETTERS)
    moments = random.Random(20_250_101)
    for _ in range(6):
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path), str(LETTERS)], stdout=subprocess.PIPE)
        assert writer.stdout is not None
        writer.stdout.readline()
        for _ in range(moments.randrange(5, 30)):
            assert path.read_text() in whole, "a reader saw a part"
        writer.kill()
        writer.communicate()
        assert path.read_text() in whole, "the kill left a part"


def test_only_ordinary_files_are_replaced_or_backed_up(tmp_path: Path) -> None:
    pipe, device = tmp_path / "pipe", tmp_path / "device"
    os.mkfifo(pipe)
    device.symlink_to("/dev/null")
    for path in (pipe, device):
        with no_waiting(), pytest.raises(OSError, match="Not an ordinary file"):
            back_up(path, tmp_path / "backups")
    # Not tried on the device itself: a fault here would replace it.
    with pytest.raises(OSError, match="Not an ordinary file"):
        write_atomically(pipe, "new")
    assert pipe.is_fifo()


@pytest.mark.parametrize("links", [True, False])
def test_create_does_not_replace_a_file_that_appears_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    path = tmp_path / "file.py"

    def appear(source: object, target: object) -> None:
        path.write_text("theirs")
        raise FileExistsError(17, "File exists") if links else PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("os.link", appear)
    assert not create_atomically(path, "ours")
    assert path.read_text() == "theirs"


@pytest.mark.parametrize("has_hard_links", [True, False])
def test_create_never_replaces_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_hard_links: bool) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    if not has_hard_links:
        monkeypatch.setattr("os.link", refuse)
    path = tmp_path / "file.py"
    assert create_atomically(path, "first")
    assert not create_atomically(path, "second")
    assert (path.read_text(), os.listdir(tmp_path)) == ("first", ["file.py"])


@contextlib.contextmanager
def meanwhile(patch: pytest.MonkeyPatch, owner: object, name: str, act: Callable[[], object]) -> Iterator[None]:
    """Another program acts in the moment before a function of the system is called for the first time."""
    real, waiting = getattr(owner, name), [act]

    def wrapped(*arguments: object) -> object:
        while waiting:
            waiting.pop()()
        return real(*arguments)

    with patch.context() as within:
        within.setattr(owner, name, wrapped)
        yield
    assert not waiting


def move_over(path: Path, text: str) -> None:
    new = path.with_suffix(".new")
    new.write_text(text)
    os.rename(new, path)


@pytest.mark.parametrize("write", [Path.write_text, move_over], ids=["in place", "moved over"])
def test_a_change_during_the_flush_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[Path, str], None]
) -> None:
    path = tmp_path / "file.py"
    path.write_text("old")
    for theirs in ("theirs", ""):
        with meanwhile(monkeypatch, os, "fsync", partial(write, path, theirs)), pytest.raises(ChangedMeanwhile):
            replace_known(path, "ours", b"old".__eq__)
        assert (path.read_text(), os.listdir(tmp_path)) == (theirs, ["file.py"])


def test_replace_known_keeps_a_file_that_appears_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file.py"
    with meanwhile(monkeypatch, os, "link", partial(path.write_text, "theirs")), pytest.raises(ChangedMeanwhile):
        replace_known(path, "ours", b"".__eq__)
    assert path.read_text() == "theirs"
    path.unlink()
    replace_known(path, "ours", b"".__eq__)
    assert (path.read_text(), os.listdir(tmp_path)) == ("ours", ["file.py"])


def test_replaced_content_is_backed_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, backups = tmp_path / "file.py", tmp_path / "backups"
    path.write_text("old")
    backups.mkdir()
    with meanwhile(monkeypatch, os, "fsync", lambda: path.write_text("theirs")):
        kept = replace_backed_up(path, "ours", backups)
    assert path.read_text() == "ours"
    assert kept.read_text() == "theirs"


def test_a_file_that_keeps_changing_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, fsync, texts = tmp_path / "file.py", os.fsync, iter(map(str, range(100)))
    path.write_text("old")

    def changed(descriptor: int) -> None:
        fsync(descriptor)
        path.write_text(next(texts))

    monkeypatch.setattr(os, "fsync", changed)
    with pytest.raises(OSError, match="keeps changing it"):
        replace_backed_up(path, "ours", tmp_path / "backups")
    assert path.read_text() != "ours"


def test_backups_of_the_same_second_have_different_names(tmp_path: Path) -> None:
    path = tmp_path / "file.py"
    copies = []
    for number in range(3):
        path.write_text(str(number))
        copies.append(back_up(path, tmp_path / "backups"))
    assert [copy.read_text() for copy in copies] == ["0", "1", "2"]
    assert all(copy.name.startswith("file.2") and copy.suffix == ".py" for copy in copies)


def test_the_part_of_a_killed_writer_is_swept(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    with subprocess.Popen([sys.executable, "-c", WRITER, path, str(LETTERS)], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        with no_waiting():
            while not any(tmp_path.glob(".*.part")):
                pass
        writer.kill()
    sweep_parts(tmp_path, is_alive)
    assert not any(tmp_path.glob(".*.part"))
    (tmp_path / "lesson").mkdir()
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    gone = [tmp_path / f".a.py.{ended.pid}-x1_.part", tmp_path / "lesson" / f".a.py.{ended.pid}-x2.part"]
    kept = [tmp_path / f".a.py.{os.getpid()}-x3.part", tmp_path / ".download.part", tmp_path / "a.py"]
    for path in (*gone, *kept):
        path.touch()

    sweep_parts(tmp_path, is_alive)

    assert not any(path.exists() for path in gone)
    assert all(path.exists() for path in kept)
