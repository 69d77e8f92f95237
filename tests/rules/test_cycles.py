"""No module of gpututor imports itself by way of others; late imports and those for types count."""

from __future__ import annotations

import graphlib
from collections.abc import Mapping

import grimp


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
    graph = grimp.build_graph("gpututor", cache_dir=None)
    assert cycle({module: graph.find_modules_directly_imported_by(module) for module in graph.modules}) == []
