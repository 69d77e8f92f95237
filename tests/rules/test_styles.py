"""Style sheets name widgets that exist: a widget that is renamed takes its rules along."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from textual.dom import DOMNode

import gpututor.app

STYLES = sorted((Path(gpututor.app.__path__[0]) / "styles").glob("*.tcss"))


def _classes(base: type[Any]) -> Iterator[str]:
    yield base.__name__
    for kind in base.__subclasses__():
        yield from _classes(kind)


@pytest.fixture(scope="module")
def widgets() -> set[str]:
    for module in pkgutil.walk_packages(gpututor.app.__path__, "gpututor.app."):
        if "process" not in module.name:  # an entry point
            importlib.import_module(module.name)
    return set(_classes(DOMNode))


@pytest.mark.parametrize("path", STYLES, ids=lambda path: path.stem)
def test_every_widget_of_a_style_sheet_exists(path: Path, widgets: set[str]) -> None:
    rules = re.sub(r"/\*.*?\*/", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    selectors = " ".join(re.findall(r"([^{}]+)\{", rules))
    assert set(re.findall(r"(?<![\w.#:$-])[A-Z]\w+", selectors)) <= widgets
