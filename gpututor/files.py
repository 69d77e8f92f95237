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
_NO_REPLACE, _EXCHANGE = 1, 2  # of renameat2
_HERE = -100  # its AT_FDCWD: relative to the working directory


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
    """The file is not the one that was to be replaced."""


class Replaced:
    """A file that another took the place of, held open: whoever has it open, too, may go on writing it."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.content = self._read()
        """What it held when it was replaced, or when that was last kept."""

    def __del__(self) -> None:
        os.close(self._descriptor)

    @property
    def status(self) -> os.stat_result:
        return os.fstat(self._descriptor)

    def back_up_newer(self, name: str, folder: Path) -> Path | None:
        """Keep in `folder` what somebody wrote into it since; None where nobody did, or it is about to be written.

        Where that raises `OSError` it is as new at the next call.
        """
        content = self._read()
        if content in (self.content, b""):
            return None
        copy = back_up_content(content, name, folder)
        self.content = content
        return copy

    def _read(self) -> bytes:
        with open(os.dup(self._descriptor), "rb") as stream:
            stream.seek(0)
            return stream.read()


def replace_known(path: Path, text: str, is_known: Callable[[bytes], bool]) -> Replaced | None:
    """Replace `path` as `write_atomically` does, but only if what stands there is known; returns what stood there.

    That is looked at when the new text is on the disk already. What another program writes between this look and the
    move, into the file or as a new one in its place, is in what is returned, for `back_up_newer`. Only where two files
    cannot be exchanged in one step (other systems than Linux, exFAT, some network disks) is a new one lost that comes
    in the time of two calls to the system. Where nothing is, nothing that appears is replaced.
    Raises `ChangedMeanwhile` for what is not known, and `OSError`.
    """
    target = path.resolve()
    with written_beside(target, text) as part:
        try:
            replaced = Replaced(ordinary(str(target), os.O_RDONLY | os.O_CLOEXEC))
        except FileNotFoundError:
            if not _put_where_nothing_is(part, target):
                raise ChangedMeanwhile from None
            return None
        if not is_known(replaced.content):
            raise ChangedMeanwhile
        before = replaced.status
        part.chmod(before.st_mode & 0o777)
        try:
            is_same = os.path.samestat(before, target.stat())
        except FileNotFoundError:
            is_same = False
        if not is_same:
            raise ChangedMeanwhile
        return _replace(part, target, replaced)


def _replace(part: Path, target: Path, known: Replaced) -> Replaced:
    """Move `part` to `target`, where `known` is; returns what was there in this moment."""
    try:
        _rename(part, target, _EXCHANGE)
    except FileNotFoundError:
        raise ChangedMeanwhile from None
    except OSError:  # the system or the file system cannot
        part.replace(target)
        return known
    try:
        replaced = Replaced(ordinary_and_no_link(str(part), os.O_RDONLY | os.O_CLOEXEC))
    except OSError:
        _rename(part, target, _EXCHANGE)  # a link, a folder: they stay
        raise ChangedMeanwhile from None
    replaced.content = known.content
    return replaced


def replace_backed_up(path: Path, text: str, folder: Path) -> tuple[Path, Replaced | None]:
    """Replace what stands at `path`, whatever it is.

    Returns where in `folder` it is kept, as `back_up` keeps it, and the file that was replaced, which may have newer
    content by now. Raises `OSError`, also where nothing stands, or another program writes it again and again.
    """
    for _ in range(_MOST_TRIES):
        copy = back_up(path, folder)
        try:
            replaced = replace_known(path, text, copy.read_bytes().__eq__)
        except ChangedMeanwhile:
            continue
        if replaced is not None:
            with contextlib.suppress(OSError):  # it is replaced: whoever has `replaced` tries again
                copy = replaced.back_up_newer(path.name, folder) or copy
        return copy, replaced
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
        try:
            _rename(part, target, _NO_REPLACE)
        except FileExistsError:
            return False
        except OSError:  # nor that: what appears in the time of two calls to the system is replaced
            if target.exists():
                return False
            part.replace(target)
    return True


def _rename(source: Path, target: Path, how: int) -> None:
    """Linux's renameat2, of which Python knows nothing. Raises `OSError`, also where there is no such thing."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "renameat2"):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    if libc.renameat2(_HERE, os.fsencode(source), _HERE, os.fsencode(target), how) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(source), None, str(target))


@contextlib.contextmanager
def written_beside(target: Path, text: str | bytes) -> Iterator[Path]:
    """A file in the folder of `target` (made when it is not there) that holds `text` on the disk, and is gone after."""
    target.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.{os.getpid()}-", suffix=".part", dir=target.parent)
    part = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(text.encode() if isinstance(text, str) else text)
            stream.flush()
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
