"""Courses that come with other installed packages: entry points of the group `gpututor.courses`.

A package names the folder of its course, as a module, in its `pyproject.toml`:

    [project.entry-points."gpututor.courses"]
    first_steps = "my_package.first_steps"
"""

from __future__ import annotations

import difflib
import importlib.metadata
import importlib.util
from pathlib import Path

from gpututor.errors import CourseError

GROUP = "gpututor.courses"


def course_folder(word: str) -> Path:
    """The folder that `--course` means: the one of that path, else that of the installed course of that name.

    Nothing of the package is run but what stands in the packages around the folder. Raises `CourseError` for a name
    that nobody has, and for an entry point that leads nowhere.
    """
    folder = Path(word).expanduser()  # a shell leaves the ~ of --course=~/mine alone
    if folder.exists() or len(folder.parts) != 1 or not word.isidentifier():
        return folder
    packs = {entry.name: entry for entry in importlib.metadata.entry_points(group=GROUP)}
    if word not in packs:
        return folder if not packs else _unknown(word, sorted(packs))
    module = packs[word].module
    try:
        found = importlib.util.find_spec(module)
    except ImportError:
        found = None
    if found is None or not found.submodule_search_locations:
        problem = f"the course {word!r} is said to be in {module}, and there is no such package"
        raise CourseError(problem, "Install the package that brings it again, or name a folder.")
    return Path(found.submodule_search_locations[0])


def _unknown(word: str, names: list[str]) -> Path:
    near = difflib.get_close_matches(word, names, n=1)
    question = f"Did you mean {near[0]!r}? " if near else ""
    problem = f"{word}: there is no such folder, and no installed course of that name"
    raise CourseError(problem, f"{question}Installed: {', '.join(names)}.")
