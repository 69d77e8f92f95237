"""Python files of the repository that follow its rules."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

from tests.hostile.members import FOLDER, KINDS
from tests.support import ROOT

TREES = ("benchmarks", "docs", "exercises", "gpututor", "tests", "tools")


def python_files() -> list[Path]:
    """Return all Python files, except hostile submissions and their course."""
    submissions = {FOLDER / name for name in (*KINDS, "course")}
    files = chain.from_iterable((ROOT / name).rglob("*.py") for name in TREES)
    return sorted(path for path in files if submissions.isdisjoint(path.parents))
