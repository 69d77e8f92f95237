"""Every file and folder that gpututor reads or writes, named in one place.

`GPUTUTOR_HOME` moves all of them (but the course) below one folder: tests and careful people use it.
"""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

PACKAGE = Path(__file__).resolve().parent


def builtin_course() -> Path:
    """The course that comes with gpututor: inside an installed package, or beside it in a checkout."""
    installed = PACKAGE / "exercises"
    return installed if installed.is_dir() else PACKAGE.parent / "exercises"


def _below_home(kind: str, default: str) -> Path:
    home = os.environ.get("GPUTUTOR_HOME")
    return Path(home).expanduser() / kind if home else Path(default)


def data_folder() -> Path:
    """Where progress is kept."""
    return _below_home("data", platformdirs.user_data_dir("gpututor", appauthor=False))


def config_folder() -> Path:
    """Where choices are kept, such as which folder is the workspace."""
    return _below_home("config", platformdirs.user_config_dir("gpututor", appauthor=False))


def cache_folder() -> Path:
    """Where answers are kept that can be found out again, such as the devices of this machine."""
    return _below_home("cache", platformdirs.user_cache_dir("gpututor", appauthor=False))


def _of_course(folder: Path, course: str) -> Path:
    """Two courses may have exercises of the same names: what is kept of another than the built-in one stands apart."""
    return folder / "courses" / course if course else folder


def progress_file(course: str = "") -> Path:
    """`course`: a course's `place`, here and below; "" for the one that comes with gpututor."""
    return _of_course(data_folder(), course) / "progress.sqlite3"


def drafts_folder() -> Path:
    """Where the app keeps what was typed and could not be saved in its place."""
    return data_folder() / "drafts"


def devices_cache_file() -> Path:
    return cache_folder() / "devices.json"


def descriptions_folder() -> Path:
    """Descriptions of exercises' checks, a file for each version of an exercise."""
    return cache_folder() / "descriptions"


def device_locks_folder() -> Path:
    """Where gradings on real devices keep out of each other's way, whoever runs them: the same for all of a machine."""
    return Path("/tmp/gpututor-devices")


def log_file() -> Path:
    return cache_folder() / "gpututor.log"


def remembered_workspace_file(course: str = "") -> Path:
    """Holds one line: the path of the workspace that `init` made last."""
    return _of_course(config_folder(), course) / "workspace.txt"


def settings_file() -> Path:
    """What a learner chose; see `gpututor.settings`."""
    return config_folder() / "settings.toml"


def default_workspace(course: str = "") -> Path:
    home = os.environ.get("GPUTUTOR_HOME")
    folder = Path(home).expanduser() / "workspace" if home else Path.home() / "gpututor"
    return folder.with_name(f"{folder.name}-{course}") if course else folder
