"""No module imports itself by way of others; late imports and those for types count."""

from __future__ import annotations

from collections.abc import Iterator

import grimp


def cycles(imports: dict[str, set[str]]) -> Iterator[set[str]]:
    """Yield the sets of modules that all reach each other (Tarjan's strongly connected components)."""
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    for start in sorted(imports):
        waiting = [] if start in order else [(start, iter(sorted(imports[start])))]
        while waiting:
            module, further = waiting[-1]
            if module not in order:
                order[module] = lowest[module] = len(order)
                stack.append(module)
            target = next((name for name in further if name not in order or name in stack), None)
            if target is not None:
                if target in order:
                    lowest[module] = min(lowest[module], order[target])
                else:
                    waiting.append((target, iter(sorted(imports[target]))))
                continue
            waiting.pop()
            if waiting:
                above = waiting[-1][0]
                lowest[above] = min(lowest[above], lowest[module])
            if lowest[module] == order[module]:
                at = stack.index(module)
                component = set(stack[at:])
                del stack[at:]
                if len(component) > 1:
                    yield component


def test_cycles_are_found() -> None:
    imports = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": set(), "f": {"g", "d"}, "g": {"f"}}
    assert sorted(map(sorted, cycles(imports))) == [["a", "b", "c"], ["f", "g"]]


def test_no_module_is_in_an_import_cycle() -> None:
    graph = grimp.build_graph("gpututor", cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    assert sorted(map(sorted, cycles(imports))) == []
