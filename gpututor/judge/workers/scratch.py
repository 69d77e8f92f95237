"""The scratch folders of workers that the judge can see."""

from __future__ import annotations

import contextlib
import os
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
    except OSError:
        _open_all(folder)
        shutil.rmtree(folder, ignore_errors=True)


def _open_all(folder: Path) -> None:
    """A folder without rights cannot be emptied by who owns it, unless that is root."""
    with contextlib.suppress(OSError):
        folder.chmod(0o700)
    for at, names, _ in os.walk(folder):
        for name in names:
            inner = Path(at, name)
            if not inner.is_symlink():
                with contextlib.suppress(OSError):
                    inner.chmod(0o700)


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
