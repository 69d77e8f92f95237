"""The scratch folders of workers that the judge can see."""

from __future__ import annotations

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
    """With all that is in it, also what was made unreadable."""
    shutil.rmtree(folder, onerror=_open_and_retry)


def _open_and_retry(function: object, path: str, _: object) -> None:
    """A folder without rights cannot be emptied by who owns it, unless that is root."""
    parent = os.path.dirname(path)
    try:
        os.chmod(parent, 0o700, follow_symlinks=False)
    except (OSError, NotImplementedError):
        return
    if os.path.isdir(path) and not os.path.islink(path):
        os.chmod(path, 0o700)
        shutil.rmtree(path, ignore_errors=True)
    elif os.path.lexists(path):
        os.unlink(path)


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
