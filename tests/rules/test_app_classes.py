"""Classes of the app are composed: each inherits from a library, a protocol, or from one of few documented bases."""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path

from textual.dom import DOMNode

import gpututor.app

BASES = {"BaseApp", "BaseScreen", "BaseModal", "ListTab", "CodeArea", "OptionRows"}
"""Documented bases; each inherits from a library's class alone."""


def _is_ours(kind: type) -> bool:
    return kind.__module__.startswith("gpututor.") and not getattr(kind, "_is_protocol", False)


def _classes() -> list[type]:
    names = [module.name for module in pkgutil.walk_packages(gpututor.app.__path__, "gpututor.app.")]
    modules = [importlib.import_module(name) for name in names if not name.endswith(".child")]
    return [
        kind
        for module in modules
        for kind in vars(module).values()
        if isinstance(kind, type) and kind.__module__ == module.__name__
    ]


def test_app_classes_inherit_only_from_libraries_protocols_and_documented_bases() -> None:
    classes = _classes()
    assert len(classes) > 150
    inherited = {kind.__qualname__: {base.__name__ for base in kind.__bases__ if _is_ours(base)} for kind in classes}
    assert {name: bases for name, bases in inherited.items() if bases - BASES} == {}
    assert {name for name, bases in inherited.items() if name in BASES and bases} == set()
    assert inherited.keys() >= BASES


def _all_subclasses(kind: type) -> set[str]:
    derived: list[type] = kind.__subclasses__()
    return {kind.__name__}.union(*map(_all_subclasses, derived))


def test_style_sheets_name_classes_that_exist() -> None:
    _classes()
    names = _all_subclasses(DOMNode)
    for path in sorted(Path(gpututor.app.__file__).parent.glob("styles/*.tcss")):
        selectors = re.sub(r"/\*.*?\*/|\{[^}]*\}", "", path.read_text(), flags=re.DOTALL)
        assert set(re.findall(r"(?<![\w.#:-])[A-Z]\w*", selectors)) <= names, path.name
