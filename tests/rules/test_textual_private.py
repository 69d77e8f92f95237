"""Private names of Textual are reached in one file, so that a new version of Textual has one file to check."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import textual

from gpututor.app.textual_private import MODULES, OVERRIDDEN
from tests.support import ROOT

APP = ROOT / "gpututor" / "app"
ONE_PLACE = APP / "textual_private.py"
PRIVATE = re.compile(r"(?:\bself\.|\bdef |\bcls\.)(_[a-z]\w*)")
TEXTUALS = {
    name
    for path in Path(textual.__file__).parent.rglob("*.py")
    for name in PRIVATE.findall(path.read_text(encoding="utf-8"))
}
"""Private attributes and methods of Textual's classes."""


def _own(tree: ast.Module) -> set[str]:
    """Return names that a file defines itself."""
    names = {node.name for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}
    stored = (node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store))
    declared = (node.target for node in ast.walk(tree) if isinstance(node, ast.AnnAssign))
    names |= {target.id for target in declared if isinstance(target, ast.Name)}
    return names | {node.attr for node in stored} | {"_replace", "_asdict"}


def _private_names(source: str) -> set[str]:
    """Find Textual's private names in a file."""
    tree = ast.parse(source)
    others = TEXTUALS - _own(tree)
    names = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr in others}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and re.match(r"textual\b.*\._", node.module or ""):
            names.add(node.module or "")
        above = node.value if isinstance(node, ast.Attribute) else None
        if isinstance(above, ast.Call) and isinstance(above.func, ast.Name) and above.func.id == "super":
            names |= {node.attr} & TEXTUALS if isinstance(node, ast.Attribute) else set()
    return names


def _sources() -> dict[Path, str]:
    return {path: path.read_text(encoding="utf-8") for path in APP.rglob("*.py") if path != ONE_PLACE}


def test_private_names_of_textual_are_reached_in_one_file() -> None:
    allowed = OVERRIDDEN.keys() | MODULES.keys()
    for path, source in _sources().items():
        assert _private_names(source) <= allowed, path


def test_each_name_that_is_listed_is_used_and_is_textuals() -> None:
    sources = "\n".join(_sources().values())
    assert {name for name in (*OVERRIDDEN, *MODULES) if name not in sources} == set()
    assert OVERRIDDEN.keys() <= TEXTUALS
    assert all(reason.endswith(".") for reason in (*OVERRIDDEN.values(), *MODULES.values()))


def test_a_private_name_elsewhere_would_be_seen() -> None:
    assert _private_names("def f(screen): return screen._compositor") == {"_compositor"}
    assert _private_names("class A(B):\n    def _on_key(self, event): super()._on_key(event)") == {"_on_key"}
    assert _private_names("from textual._xterm_parser import XTermParser") == {"textual._xterm_parser"}
    assert _private_names("def f(self):\n    self._title = 1\n    return self._title") == set()
