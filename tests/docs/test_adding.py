"""Pages `docs/dev/adding-*.md`: their worked diffs apply, and the tests that they name pass on the result."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
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


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package, its docs and tests."""
    folder = tmp_path_factory.mktemp("copy")
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, folder / name)
    return folder


@contextmanager
def applied(copy: Path, files: Iterable[tuple[str, str, list[str]]]) -> Iterator[None]:
    """Apply diffs to the copy; undo them after the block."""
    before: dict[Path, str | None] = {}
    try:
        for old, new, hunks in files:
            path = copy / new
            before.setdefault(path, path.read_text(encoding="utf-8") if path.exists() else None)
            apply(copy, old, new, hunks)
        yield
    finally:
        for path, text in before.items():
            if text is None:
                path.unlink(missing_ok=True)
            else:
                path.write_text(text, encoding="utf-8")


def run_tests(copy: Path, names: Iterable[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *sorted(set(names))],
        cwd=copy,
        env={**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.long
def test_the_worked_diffs_pass_the_tests_that_their_pages_name(copy: Path) -> None:
    with applied(copy, [file for page in PAGES for file in diffs(page)]):
        done = run_tests(copy, [name for page in PAGES for name in named_tests(page)])
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("page", "left_out"),
    [
        pytest.param(page, new, id=f"{page.stem}-{new}", marks=pytest.mark.long)
        for page in PAGES
        for _, new, _ in diffs(page)
        if len(diffs(page)) > 1
    ],
)
def test_a_named_test_fails_if_a_file_is_left_out(copy: Path, page: Path, left_out: str) -> None:
    with applied(copy, [file for file in diffs(page) if file[1] != left_out]):
        done = run_tests(copy, named_tests(page))
    assert done.returncode in (pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED), done.stdout + done.stderr


def test_every_page_is_linked_from_the_contributing_guide() -> None:
    guide = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    linked = set(re.findall(r"\((docs/dev/adding-[\w-]+\.md)\)", guide))
    assert linked == {str(page.relative_to(ROOT)) for page in PAGES}
