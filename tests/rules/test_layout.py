"""Tests share helpers by way of `tests/support`, and their folders mirror the package's."""

from __future__ import annotations

import re

import pytest

from tests.support import ROOT

OTHERS = {"docs", "exercises", "fidelity", "hostile", "packaging", "rules", "support", "tools"}
"""Folders of tests without a package of the same name."""
_IMPORT = re.compile(r"^(?:from|import) tests\.[\w.]*\btest_\w+|^from tests[\w.]* import test_", re.MULTILINE)


def test_no_test_file_imports_another() -> None:
    files = sorted((ROOT / "tests").rglob("*.py"))
    assert [str(file) for file in files if _IMPORT.search(file.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize(
    "line", ["from tests.app.test_path import run", "import tests.test_files", "from tests.app import test_path"]
)
def test_an_import_of_a_test_file_is_noticed(line: str) -> None:
    assert _IMPORT.search(line)


def test_folders_mirror_the_package() -> None:
    folders = {path.name for path in (ROOT / "tests").iterdir() if (path / "__init__.py").exists()}
    packages = {path.stem for path in (ROOT / "gpututor").iterdir() if path.suffix == ".py" or path.is_dir()}
    assert folders - OTHERS <= packages
