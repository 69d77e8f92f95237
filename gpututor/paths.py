"""Paths of all files and folders; `GPUTUTOR_HOME` moves all of them, except the course, below one folder."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

PACKAGE = Path(__file__).resolve().parent


def builtin_course() -> Path:
    """Return the course that comes with gpututor: inside an installed package, or next to it in a checkout."""
    installed = PACKAGE / "exercises"
    return installed if installed.is_dir() else PACKAGE.parent / "exercises"


def _below_home(kind: str, default: str) -> Path:
    home = os.environ.get("GPUTUTOR_HOME")
    return Path(home).expanduser() / kind if home else Path(default)


def data_folder() -> Path:
    """Return the folder for progress."""
    return _below_home("data", platformdirs.user_data_dir("gpututor", appauthor=False))


def config_folder() -> Path:
    """Return the folder for settings and the path of the workspace."""
    return _below_home("config", platformdirs.user_config_dir("gpututor", appauthor=False))


def cache_folder() -> Path:
    """Return the folder for data that can be computed again, such as the devices of this machine."""
    return _below_home("cache", platformdirs.user_cache_dir("gpututor", appauthor=False))


def _of_course(folder: Path, course: str) -> Path:
    """Return a folder for a course other than the built-in one: two courses may have exercises of the same names."""
    return folder / "courses" / course if course else folder


def progress_file(course: str = "") -> Path:
    """Return the progress file of a course, by its `place`; "" for the course that comes with gpututor."""
    return _of_course(data_folder(), course) / "progress.sqlite3"


def drafts_folder() -> Path:
    """Return the folder for edits that could not be saved to the workspace."""
    return data_folder() / "drafts"


def devices_cache_file() -> Path:
    return cache_folder() / "devices.json"


def manifest_cache_file() -> Path:
    """Return the file of the parsed manifests of the course that was loaded last."""
    return cache_folder() / "manifests.json"


def descriptions_folder() -> Path:
    """Return the folder for descriptions of exercises' checks, a file for each version of an exercise."""
    return cache_folder() / "descriptions"


def device_locks_folder() -> Path:
    """Return the folder for locks of real devices, which all users of a machine share."""
    return Path("/tmp/gpututor-devices")


def log_file() -> Path:
    return cache_folder() / "gpututor.log"


def remembered_workspace_file(course: str = "") -> Path:
    """Return the file with the path of the workspace that `init` made last."""
    return _of_course(config_folder(), course) / "workspace.txt"


def settings_file() -> Path:
    return config_folder() / "settings.toml"


def default_workspace(course: str = "") -> Path:
    home = os.environ.get("GPUTUTOR_HOME")
    folder = Path(home).expanduser() / "workspace" if home else Path.home() / "gpututor"
    return folder.with_name(f"{folder.name}-{course}") if course else folder
