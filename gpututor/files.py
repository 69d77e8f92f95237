"""Writing files so that a crash at any moment leaves the old text or the new text, never half of one."""

from __future__ import annotations

import contextlib
import os
import tempfile
from datetime import datetime
from pathlib import Path


def write_atomically(path: Path, text: str) -> None:
    """Replace `path` by `text` (UTF-8, newlines as they are). The folder is made when it is not there.

    The text is written beside its target, flushed to disk, and moved over it, keeping the target's mode.
    A symbolic link is followed, so that the file it points to is replaced and the link stays.
    """
    target = path.resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
    part = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        part.chmod(target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask())
        part.replace(target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            part.unlink()
        raise


def back_up(path: Path, folder: Path) -> Path:
    """Copy `path` into `folder` under a dated name that is not taken yet, and return the copy's path."""
    stamp = datetime.now().strftime("%Y-%m-%dT%H-%M-%S")
    folder.mkdir(parents=True, exist_ok=True)
    content = path.read_bytes()
    attempt = 0
    while True:
        suffix = f".{attempt}" if attempt else ""
        copy = folder / f"{path.stem}.{stamp}{suffix}{path.suffix}"
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
