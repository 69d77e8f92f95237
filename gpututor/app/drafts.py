"""What was typed into a file and could not be saved in its place. No Textual.

Each running app has drafts of its own, and holds a lock on them: what nobody holds was left by an app that ended. On
a file system without locks all drafts look left: there they are copied, and only their owner removes them.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from gpututor.files import ordinary, written_beside
from gpututor.paths import drafts_folder

_copied: set[tuple[Path, str]] = set()
"""The drafts that cannot be locked, with their text, that this process has taken: they are still there."""


class Draft:
    """The draft of one file that this app has, if any."""

    def __init__(self, of: Path) -> None:
        import hashlib

        place = hashlib.sha256(os.fsencode(os.path.abspath(of))).hexdigest()[:16]
        self._begin = f"{of.stem}.{place}."
        self._path: Path | None = None
        self._lock: int | None = None

    def keep(self, text: str) -> None:
        """Put `text` in the draft, which is made if need be. Raises `OSError`."""
        path = self._path or drafts_folder() / f"{self._begin}{os.urandom(4).hex()}.py"
        encodable = text.encode("utf-8", errors="replace").decode()  # halves of surrogate pairs may be why it is one
        with written_beside(path, encodable) as part:
            lock, _ = _locked(part) or (None, False)  # before it has its name: nobody else ever sees it as left
            part.replace(path)
        self.let_go()
        self._path, self._lock = path, lock

    def take_left(self, known: str) -> str | None:
        """The oldest draft that an app left, which is ours from now on; None where none is.

        One that holds nothing but `known`, the text of the file, is removed.
        """
        for path in self._all():
            if path == self._path or (held := _locked(path)) is None:
                continue
            lock, is_ours = held
            try:
                with open(path, encoding="utf-8", newline="", opener=ordinary) as stream:
                    text = stream.read()
            except (OSError, UnicodeDecodeError):
                os.close(lock)
                continue
            if is_ours:
                self.let_go()
                self._path, self._lock = path, lock
                if text != known:
                    return text
                self.forget()
                continue
            os.close(lock)
            if text != known and (path, text) not in _copied:
                self.let_go()
                with contextlib.suppress(OSError):  # it is there all the same
                    self.keep(text)
                _copied.add((path, text))
                return text
        return None

    def forget(self) -> None:
        """There is nothing any more that is not saved."""
        if self._path is not None:
            with contextlib.suppress(OSError):
                self._path.unlink(missing_ok=True)
        self.let_go()

    def let_go(self) -> None:
        """From now on it is a draft that was left, to be found by whoever opens the file next."""
        if self._lock is not None:
            os.close(self._lock)
        self._path = self._lock = None

    def _all(self) -> Iterator[Path]:
        """The oldest first."""
        try:
            found = [path for path in drafts_folder().iterdir() if path.name.startswith(self._begin)]
            found.sort(key=lambda path: path.stat().st_mtime_ns)
        except OSError:  # no folder yet; or one of them was just taken by another app
            return
        yield from found


def _locked(path: Path) -> tuple[int, bool] | None:
    """A descriptor of the file, and whether it holds the lock: False on a file system without locks.

    None where another has it, or the file is gone.
    """
    try:
        descriptor = ordinary(str(path), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    is_ours = True
    with contextlib.suppress(FileNotFoundError):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        except OSError:
            is_ours = False
        if os.path.samestat(os.fstat(descriptor), path.stat()):
            return descriptor, is_ours
    os.close(descriptor)  # its owner just wrote a newer one, or ended with it
    return None
