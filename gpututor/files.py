"""Atomic writes and backups.

After a crash at any moment, a file has its old text or its new text, never half of it. Reading never blocks: opening a
pipe or a device instead of a file raises `OSError`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import tempfile
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

_MOST_TRIES = 10
_PART = re.compile(r"\.(\d+)-\w+\.part$")


def ordinary(path: str, flags: int, *, folder: int | None = None) -> int:
    """Open a file for `open(path, opener=ordinary)`; follow links, and raise `OSError` unless it is an ordinary file.

    A named pipe would make the reader wait for a writer, for ever; a device may never end. `folder`: the descriptor of
    the folder for a relative `path`.
    """
    try:
        descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a socket
            raise _not_ordinary(path) from error
        raise
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    raise _not_ordinary(path)


def ordinary_and_no_link(path: str, flags: int, *, folder: int | None = None) -> int:
    """Open a file as `ordinary` does, but raise `OSError` for a symbolic link, too."""
    return ordinary(path, flags | os.O_NOFOLLOW, folder=folder)


def read_beginning(path: str | Path, most: int) -> bytes:
    """Return up to `most` bytes of an ordinary file, in a third of the time of a file object. Raises `OSError`."""
    descriptor = ordinary(os.fspath(path), os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, most)
    finally:
        os.close(descriptor)


def _target_of(path: Path) -> Path:
    """Follow links. Raises `OSError` or `RuntimeError`, which depends on Python's version, for circular ones."""
    try:
        return path.resolve(strict=True)
    except FileNotFoundError:
        return path.resolve()


def _not_ordinary(path: str) -> OSError:
    return OSError(errno.EINVAL, "Not an ordinary file", path)


def write_atomically(path: Path, text: str | bytes, *, sync: bool = True) -> None:
    """Replace `path` by `text` (as UTF-8, newlines as they are). A missing folder is created.

    The text is written next to its target, flushed to the disk if `sync`, and moved over the target, whose mode stays.
    A symbolic link is followed: the file it points to is replaced, and the link stays.
    Raises `OSError` if `path` is a pipe, a device or a folder: only an ordinary file is replaced.
    """
    target = _target_of(path)
    if target.exists() and not target.is_file() and not target.is_dir():
        raise _not_ordinary(str(target))
    with temporary_file_for(target, text, sync=sync) as part:
        part.chmod(target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask())
        part.replace(target)


Stamp = tuple[int, int, int]
"""Modification time in ns, size in bytes, inode."""


def stamp_of(path: Path, missing: type[OSError] = OSError) -> Stamp | None:
    """Return the file's stamp; None for an error of the kind `missing`, as for a file that is not there."""
    try:
        status = path.stat()
    except missing:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def sync_folder(folder: Path) -> None:
    """Flush a folder's entries to the disk. Raises `OSError`."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # not supported by the file system
            raise
    finally:
        os.close(descriptor)


class ChangedMeanwhile(Exception):
    """Another program has changed the file."""


def replace_known(path: Path, text: str, is_known: Callable[[bytes], bool]) -> None:
    """Replace `path` as `write_atomically` does, but only if its content is known.

    The content is compared after the new text is on the disk. If there is no file, a file that appears meanwhile stays.
    Raises `ChangedMeanwhile` for unknown content, and `OSError`.
    """
    target = _target_of(path)
    with temporary_file_for(target, text) as part:
        try:
            with open(target, "rb", opener=ordinary) as stream:
                content, mode = stream.read(), os.fstat(stream.fileno()).st_mode
        except FileNotFoundError:
            if not _rename_to_free_name(part, target):
                raise ChangedMeanwhile from None
            return
        if not is_known(content):
            raise ChangedMeanwhile
        part.chmod(mode & 0o777)
        part.replace(target)


def replace_backed_up(path: Path, text: str, folder: Path) -> Path:
    """Replace `path` whatever its content; return its backup. Raises `OSError`, also if the file keeps changing."""
    for _ in range(_MOST_TRIES):
        copy = back_up(path, folder)
        with contextlib.suppress(ChangedMeanwhile):
            replace_known(path, text, copy.read_bytes().__eq__)
            return copy
    raise OSError(errno.EBUSY, "Another program keeps changing it", str(path))


def create_atomically(path: Path, text: str) -> bool:
    """Write `text` to `path` as `write_atomically` does, but never replace a file; return True if it was written."""
    target = _target_of(path)
    if target.exists():
        return False
    with temporary_file_for(target, text) as part:
        return _rename_to_free_name(part, target)


def _rename_to_free_name(part: Path, target: Path) -> bool:
    part.chmod(0o666 & ~_umask())
    try:
        os.link(part, target)
    except FileExistsError:
        return False
    except OSError:  # a file system without hard links, such as exFAT
        if target.exists():
            return False
        part.replace(target)
    return True


@contextlib.contextmanager
def temporary_file_for(target: Path, text: str | bytes, *, sync: bool = True) -> Iterator[Path]:
    """Yield a temporary file with `text` in the folder of `target`; flush it to the disk if `sync`."""
    target.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.{os.getpid()}-", suffix=".part", dir=target.parent)
    part = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(text.encode() if isinstance(text, str) else text)
            stream.flush()
            if sync:
                os.fsync(stream.fileno())
        yield part
    finally:
        with contextlib.suppress(FileNotFoundError):
            part.unlink()


def sweep_parts(folder: Path, is_alive: Callable[[int], bool]) -> None:
    """Remove the temporary files of killed processes in `folder`, and one level below."""
    for part in (*folder.glob(".*.part"), *folder.glob("*/.*.part")):
        process = _PART.search(part.name)
        if process is not None and not is_alive(int(process[1])):
            with contextlib.suppress(OSError):  # another process may be removing it, too
                part.unlink()


def back_up(path: Path, folder: Path) -> Path:
    """Copy `path` into `folder` under a free dated name; return the copy's path."""
    with open(path, "rb", opener=ordinary) as stream:
        return _back_up_content(stream.read(), path.name, folder)


def back_up_text(text: str, name: str, folder: Path) -> Path:
    """Back up the text of a file called `name` as `back_up` does."""
    return _back_up_content(text.encode("utf-8", errors="surrogateescape"), name, folder)


def _back_up_content(content: bytes, name: str, folder: Path) -> Path:
    stamp = datetime.now().strftime("%Y-%m-%dT%H-%M-%S")
    folder.mkdir(parents=True, exist_ok=True)
    original = Path(name)
    number = 0
    while True:
        copy = folder / f"{original.stem}.{stamp}{f'.{number}' if number else ''}{original.suffix}"
        with contextlib.suppress(FileExistsError), copy.open("xb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
            return copy
        number += 1


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
