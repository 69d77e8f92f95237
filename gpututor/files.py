"""Writing files so that a crash at any moment leaves the old text or the new text, never half of one.

And reading them without ever waiting: a pipe or a device in the place of a file is refused.
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
    """For `open(path, opener=ordinary)`: raises `OSError` for what is no ordinary file, links followed.

    A named pipe would make the reader wait for a writer, for ever; a device may never end. `folder`: an open one, from
    which `path` is looked up.
    """
    try:
        descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.ENXIO:  # what a socket answers
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
    """As `ordinary`, but a symbolic link is refused as well."""
    return ordinary(path, flags | os.O_NOFOLLOW, folder=folder)


def _not_ordinary(path: str) -> OSError:
    return OSError(errno.EINVAL, "Not an ordinary file", path)


def write_atomically(path: Path, text: str | bytes) -> None:
    """Replace `path` by `text` (as UTF-8, newlines as they are). The folder is made when it is not there.

    The text is written beside its target, flushed to disk, and moved over it, keeping the target's mode.
    A symbolic link is followed, so that the file it points to is replaced and the link stays.
    Raises `OSError` where a pipe, a device or a folder stands: only an ordinary file is replaced.
    """
    target = path.resolve()
    if target.exists() and not target.is_file() and not target.is_dir():
        raise _not_ordinary(str(target))
    with written_beside(target, text) as part:
        part.chmod(target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask())
        part.replace(target)


def sync_folder(folder: Path) -> None:
    """Flush to the disk which files are in a folder. Raises `OSError`."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # a file system that cannot
            raise
    finally:
        os.close(descriptor)


class ChangedMeanwhile(Exception):
    """The content of the file is not what was to be replaced."""


def replace_known(path: Path, text: str, is_known: Callable[[bytes], bool]) -> None:
    """Replace `path` as `write_atomically` does, but only if its content is known.

    The content is compared when the new text is on the disk already. Where there is no file, one that appears
    meanwhile stays. Raises `ChangedMeanwhile` for an unknown content, and `OSError`.
    """
    target = path.resolve()
    with written_beside(target, text) as part:
        try:
            with open(target, "rb", opener=ordinary) as stream:
                content, mode = stream.read(), os.fstat(stream.fileno()).st_mode
        except FileNotFoundError:
            if not _put_where_nothing_is(part, target):
                raise ChangedMeanwhile from None
            return
        if not is_known(content):
            raise ChangedMeanwhile
        part.chmod(mode & 0o777)
        part.replace(target)


def replace_backed_up(path: Path, text: str, folder: Path) -> Path:
    """Replace the file at `path`, whatever it holds; return where in `folder` that is kept, as by `back_up`.

    Raises `OSError`, also where there is no file, or where another program writes it again and again.
    """
    for _ in range(_MOST_TRIES):
        copy = back_up(path, folder)
        with contextlib.suppress(ChangedMeanwhile):
            replace_known(path, text, copy.read_bytes().__eq__)
            return copy
    raise OSError(errno.EBUSY, "Another program writes it all the time", str(path))


def create_atomically(path: Path, text: str) -> bool:
    """Write `text` to `path` as `write_atomically` does, but only where nothing is yet; say whether it was written.

    Whoever writes the same file at the same moment wins: nothing is ever replaced.
    """
    target = path.resolve()
    if target.exists():
        return False
    with written_beside(target, text) as part:
        return _put_where_nothing_is(part, target)


def _put_where_nothing_is(part: Path, target: Path) -> bool:
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
def written_beside(target: Path, text: str | bytes, *, sync: bool = True) -> Iterator[Path]:
    """A file in the folder of `target` (made when it is not there) that holds `text`, and is gone after.

    `sync`: it is flushed to the disk.
    """
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
    """Remove what `written_beside` left in `folder`, or one level below, when its process was killed."""
    for part in (*folder.glob(".*.part"), *folder.glob("*/.*.part")):
        process = _PART.search(part.name)
        if process is not None and not is_alive(int(process[1])):
            with contextlib.suppress(OSError):
                part.unlink()


def back_up(path: Path, folder: Path) -> Path:
    """Copy `path` into `folder` under a dated name that is not taken yet, and return the copy's path."""
    with open(path, "rb", opener=ordinary) as stream:
        return back_up_content(stream.read(), path.name, folder)


def back_up_text(text: str, name: str, folder: Path) -> Path:
    """Keep `text`, which a file called `name` would hold, in `folder` as `back_up` does."""
    return back_up_content(text.encode("utf-8", errors="surrogateescape"), name, folder)


def back_up_content(content: bytes, name: str, folder: Path) -> Path:
    """Keep what a file called `name` held in `folder` as `back_up` does."""
    stamp = datetime.now().strftime("%Y-%m-%dT%H-%M-%S")
    folder.mkdir(parents=True, exist_ok=True)
    original = Path(name)
    attempt = 0
    while True:
        suffix = f".{attempt}" if attempt else ""
        copy = folder / f"{original.stem}.{stamp}{suffix}{original.suffix}"
        try:
            with copy.open("xb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            return copy
        except FileExistsError:
            attempt += 1


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
