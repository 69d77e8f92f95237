"""Sizes of modules, no generated files among the exercises, and tests in folders that mirror the package's."""

from __future__ import annotations

import ast
import re

import grimp
import pytest

from gpututor.cli.main import VERBS
from tests.support import ROOT

LARGEST, SMALLEST = 510, 60
"""Lines of a module."""
SOURCES = {".md", ".py", ".toml"}
"""Endings of an exercise's files."""


def modules() -> dict[str, str]:
    """Return the text of each module, by its dotted name."""
    paths = {path: path.relative_to(ROOT).with_suffix("") for path in (ROOT / "gpututor").rglob("*.py")}
    return {".".join(dotted.parts): path.read_text(encoding="utf-8") for path, dotted in paths.items()}


def test_no_module_is_too_long() -> None:
    lengths = {name: len(text.splitlines()) for name, text in modules().items()}
    assert {name: lines for name, lines in lengths.items() if lines > LARGEST} == {}


def test_a_short_module_is_an_entry_point_a_contract_or_shared() -> None:
    graph = grimp.build_graph("gpututor", cache_dir=None)
    entries = {verb.module for verb in VERBS}
    for name, text in modules().items():
        is_special = name.endswith((".__init__", ".__main__")) or name in entries
        if len(text.splitlines()) < SMALLEST and not is_special:
            users = graph.find_modules_that_directly_import(name) if name in graph.modules else ()
            words = ast.get_docstring(ast.parse(text)) or ""
            assert len(users) > 1 or re.search("entry point|contract", words, re.IGNORECASE), name


STORED_TEXTS = {"tests/app/goldens", "tests/devices/virtual/data"}
"""Folders of tests with other files than Python's: texts of screens, and facts measured on a real GPU."""


def test_stored_texts_are_in_known_folders_only() -> None:
    files = [path for path in (ROOT / "tests").rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert {str(path.parent.relative_to(ROOT)) for path in files if path.suffix != ".py"} == STORED_TEXTS


def test_exercises_contain_no_generated_files() -> None:
    files = [path for path in (ROOT / "exercises").rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert [path for path in files if path.suffix not in SOURCES] == []


OTHERS = {"docs", "exercises", "fidelity", "hostile", "packaging", "rules", "support", "tools"}
"""Folders of tests without a package of the same name."""
IMPORT_OF_A_TEST = re.compile(r"^(?:from|import) tests\.[\w.]*\btest_\w+|^from tests[\w.]* import test_", re.MULTILINE)


def test_no_test_file_imports_another() -> None:
    files = sorted((ROOT / "tests").rglob("*.py"))
    assert [str(file) for file in files if IMPORT_OF_A_TEST.search(file.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize(
    "line", ["from tests.app.test_path import run", "import tests.test_files", "from tests.app import test_path"]
)
def test_an_import_of_a_test_file_is_noticed(line: str) -> None:
    assert IMPORT_OF_A_TEST.search(line)


def test_folders_mirror_the_package() -> None:
    folders = {path.name for path in (ROOT / "tests").iterdir() if (path / "__init__.py").exists()}
    packages = {path.stem for path in (ROOT / "gpututor").iterdir() if path.suffix == ".py" or path.is_dir()}
    assert folders - OTHERS <= packages
