"""The scratch folders of workers that the judge can see."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import tempfile
from pathlib import Path

from gpututor.processes import is_alive

PREFIX = "gpututor-"
"""Of a scratch folder's name; its judge's process id follows."""


def make_scratch() -> Path:
    return Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))


def remove_scratch(folder: Path) -> None:
    """With all that is in it, also what was made unreadable. Nothing happens where it is gone."""
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:
        return
    except (OSError, RecursionError):
        with contextlib.suppress(OSError):
            _remove_flat(folder)


def _remove_flat(folder: Path) -> None:
    """Remove it without descending: what is deep inside comes to the top first, so no path is ever long.

    A folder without rights cannot be emptied by who owns it, unless that is root.
    """
    waiting, emptied = [folder], []
    while waiting:
        top = waiting.pop()
        top.chmod(0o700)
        for name in os.listdir(top):
            inner = top / name
            if inner.is_symlink() or not inner.is_dir():
                inner.unlink()
                continue
            inner.chmod(0o700)
            waiting.append(inner.rename(folder / secrets.token_hex(16)))
        emptied.append(top)
    for one in reversed(emptied):
        one.rmdir()


def remove_own_scratch() -> None:
    """All scratch folders of this judge."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}{os.getpid()}-*"):
        remove_scratch(folder)


def sweep_scratch() -> None:
    """Remove the scratch folders of judges that were killed before they could do so themselves."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*-*"):
        owner = folder.name.removeprefix(PREFIX).partition("-")[0]
        if owner.isdigit() and not is_alive(int(owner)) and folder.stat().st_uid == os.getuid():
            remove_scratch(folder)
