"""Pages `docs/dev/adding-*.md`: their worked diffs apply, and the tests that they name pass on the result."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT

PAGES = sorted((ROOT / "docs" / "dev").glob("adding-*.md"))
COPIED = ("gpututor", "docs", "exercises", "tests", "pyproject.toml", "README.md", "CONTRIBUTING.md")
_DIFF = re.compile(r"^```diff\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"^--- (\S+)\n\+\+\+ (\S+)\n", re.MULTILINE)


def diffs(page: Path) -> list[tuple[str, str, list[str]]]:
    """Return old path, new path and hunks of each file that the page's diffs change."""
    text = "\n".join(_DIFF.findall(page.read_text(encoding="utf-8")))
    _, *parts = _FILE.split(text)
    files = zip(parts[::3], parts[1::3], parts[2::3], strict=True)
    return [(old, new, re.split(r"^@@.*\n", hunks, flags=re.MULTILINE)[1:]) for old, new, hunks in files]


def named_tests(page: Path) -> list[str]:
    """Return the arguments of `pytest` in the page's console blocks."""
    commands = re.findall(r"^\$ pytest (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return [word for command in commands for word in command.split()]


def apply(root: Path, old: str, new: str, hunks: list[str]) -> None:
    """Apply one file's hunks. The old lines of each hunk must occur exactly once in the file."""
    if old != "/dev/null":
        assert old == new
    path = root / new
    text = "" if old == "/dev/null" else path.read_text(encoding="utf-8")
    for hunk in hunks:
        lines = [line or " " for line in hunk.splitlines()]
        before = "".join(f"{line[1:]}\n" for line in lines if line[0] in " -")
        after = "".join(f"{line[1:]}\n" for line in lines if line[0] in " +")
        assert old == "/dev/null" or text.count(before) == 1, f"{new}: not there once:\n{before}"
        text = after if old == "/dev/null" else text.replace(before, after)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_has_a_diff_and_names_the_tests_that_need_it(page: Path) -> None:
    assert diffs(page)
    for name in named_tests(page):
        file, _, test = name.partition("::")
        assert (ROOT / file).exists()
        assert not test or f"def {test}(" in (ROOT / file).read_text(encoding="utf-8"), name
    assert named_tests(page)
    assert len(page.read_text(encoding="utf-8").splitlines()) <= 120


@pytest.mark.long
def test_the_worked_diffs_pass_the_tests_that_their_pages_name(tmp_path: Path) -> None:
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, tmp_path / name)
    for page in PAGES:
        for old, new, hunks in diffs(page):
            apply(tmp_path, old, new, hunks)
    tests = sorted({name for page in PAGES for name in named_tests(page)})
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_page_is_linked_from_the_contributing_guide() -> None:
    guide = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    linked = set(re.findall(r"\((docs/dev/adding-[\w-]+\.md)\)", guide))
    assert linked == {str(page.relative_to(ROOT)) for page in PAGES}
