"""What programs leave behind that were killed while they wrote a report; see `gpututor.files.written_beside`."""

from __future__ import annotations

import contextlib
import glob
import shutil
import time
from pathlib import Path

OLD_S = 600
"""No file takes so long to write: what is younger may be another report's."""


def clear_parts(folder: Path, name: str = "") -> None:
    """Remove old parts of the file called `name`; without one, all of them in the folder and below.

    What cannot be removed stays.
    """
    pattern = f".{glob.escape(name)}.*.part" if name else "**/.*.part"
    for part in list(folder.glob(pattern)):
        with contextlib.suppress(OSError):
            if time.time() - part.lstat().st_mtime < OLD_S:
                continue
            if part.is_dir() and not part.is_symlink():
                shutil.rmtree(part)
            else:
                part.unlink()
