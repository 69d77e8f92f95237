"""Imports: none of torch in the front end, none of Textual for a plain verb, and no cycle of modules."""

from __future__ import annotations

import ast
import graphlib
import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

import grimp
import pytest

from tests.support import ROOT

DISTRIBUTIONS = {"markdown_it": "markdown-it-py", "yaml": "pyyaml"}
"""Distributions whose names differ from those of their modules."""

TORCH_FREE = [
    "gpututor.cli.main",
    "gpututor.cli.grade",
    "gpututor.cli.run",
    "gpututor.app.app",
    "gpututor.app.start",
    "gpututor.app.classroom.app",
    "gpututor.grading.client",
    "gpututor.hardware.inventory",
    "gpututor.course.loader",
    "gpututor.course.workspace",
    "gpututor.authoring.verify",
    "gpututor.authoring.scaffold",
    "gpututor.cli.verify",
    "gpututor.progress.store",
    "gpututor.trace.columns",
    "gpututor.trace.events",
    "gpututor.trace.serialization",
    "gpututor.devices.recorder",
    "gpututor.protocol.frames",
    "gpututor.protocol.messages",
    "gpututor.hardware.gpus",
    "gpututor.pytest_plugin",
]


def modules_after(code: str) -> set[str]:
    """Return the names in `sys.modules` of a fresh interpreter that ran `code`."""
    printed = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys\nprint('\\n'.join(sys.modules))"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return set(printed.split())


@pytest.mark.parametrize("module", TORCH_FREE)
def test_torch_and_outside_the_app_textual_are_not_imported_by(module: str) -> None:
    heavy = {"torch", "numpy"} if module.startswith("gpututor.app") else {"torch", "numpy", "textual"}
    assert not modules_after(f"import {module}") & heavy


@pytest.mark.parametrize("module", ["gpututor.devices.virtual.session", "gpututor.worker.submission"])
def test_neither_textual_nor_the_judge_is_imported_by(module: str) -> None:
    assert not modules_after(f"import {module}") & {"textual", "gpututor.judge", "gpututor.checks"}


def cycle(imports: Mapping[str, set[str]]) -> list[str]:
    """Return the modules of an import cycle; none if there is no cycle."""
    try:
        graphlib.TopologicalSorter(imports).prepare()
    except graphlib.CycleError as error:
        modules: list[str] = error.args[1]
        return modules
    return []


def test_a_cycle_is_noticed() -> None:
    imports = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": set()}
    assert set(cycle(imports)) == {"a", "b", "c"}
    assert cycle({**imports, "c": {"d"}}) == []


def test_no_module_is_in_an_import_cycle() -> None:
    """Late imports and those for types count."""
    graph = grimp.build_graph("gpututor", cache_dir=None)
    assert cycle({module: graph.find_modules_directly_imported_by(module) for module in graph.modules}) == []


def imported_packages(file: Path) -> set[str]:
    """Return the top-level packages that a file imports, at its top or later, without those of Python."""
    packages = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            packages |= {name.name.partition(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            packages.add(node.module.partition(".")[0])
    return packages - sys.stdlib_module_names - {"gpututor"}


def test_each_imported_package_is_a_declared_dependency() -> None:
    """A package that only another package brings can be gone tomorrow. Extras count; pytest loads its own plugin."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = {name: words for name, words in project["optional-dependencies"].items() if name != "test"}
    lines = [*project["dependencies"], *(line for words in extras.values() for line in words)]
    declared = {re.split(r"[<>=;\[ ]", line)[0] for line in lines}
    imported = {name for file in (ROOT / "gpututor").rglob("*.py") for name in imported_packages(file)}
    assert {DISTRIBUTIONS.get(name, name.replace("_", "-")) for name in imported} - {"pytest"} == declared
