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

    def open_and_retry(function: object, path: str, _: object) -> None:
        """A folder without rights cannot be emptied by who owns it, unless that is root."""
        for shut in (Path(path).parent, Path(path)):
            # Never above: what holds the scratch folders is not ours.
            if shut.is_relative_to(folder) and shut.is_dir() and not shut.is_symlink():
                with contextlib.suppress(OSError):
                    shut.chmod(0o700)
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path, ignore_errors=True)
        elif os.path.lexists(path):
            with contextlib.suppress(OSError):
                os.unlink(path)

    shutil.rmtree(folder, onerror=open_and_retry)
    if folder.is_dir():
        shutil.rmtree(folder, ignore_errors=True)


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
