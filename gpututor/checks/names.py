"""Names in a syntax tree: dotted ones, and what they stand for by imports and plain assignments."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

MOST_PARTS = 32
"""Of a dotted name that is followed: of a longer one, which nothing has, the last."""
MOST_STARS = 50
"""Modules of which everything is imported: each name may be of any of them."""
LONGEST_NAME = 200
"""Characters. One that is longer, in thousands of places, would fill our memory."""
_LONGEST = 500
"""Characters of what a name stands for; of more, the last."""


def check_names(tree: ast.Module) -> None:
    """Raises `ValueError` for a name that is too long."""
    for node in ast.walk(tree):
        for field in ("id", "attr", "name", "asname", "module", "arg"):
            name = getattr(node, field, None)
            if isinstance(name, str) and len(name) > LONGEST_NAME:
                raise ValueError(f"a name of more than {LONGEST_NAME} characters")


def stars(tree: ast.Module) -> list[str]:
    """The modules of which everything is imported. Raises `ValueError` for too many."""
    found = [one.module for one in ast.walk(tree) if isinstance(one, ast.ImportFrom) and one.module and _is_star(one)]
    modules = list(dict.fromkeys(found))
    if len(modules) > MOST_STARS:
        raise ValueError(f"everything of more than {MOST_STARS} modules is imported")
    return modules


def dotted_name(node: ast.expr) -> str:
    """`torch.cuda.synchronize` as it is written; `item` for `f(x).item`; empty for what has no name."""
    parts: list[str] = []
    while True:
        if len(parts) > MOST_PARTS:
            return ".".join(reversed(parts[:MOST_PARTS]))
        match node:
            case ast.Attribute():
                parts.append(node.attr)
                node = node.value
            case ast.Call(func=ast.Name(id="getattr"), args=[inner, ast.Constant(value=str(name)), *_]):
                parts.append(name)
                node = inner
            case ast.Name():
                return ".".join(reversed([*parts, node.id]))
            case _:
                return ".".join(reversed(parts))


def aliases(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """(name, what it stands for) of imports and plain assignments, followed to their end."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Import():
                found |= {one.asname: one.name for one in node.names if one.asname}
            case ast.ImportFrom() if node.module and not node.level:
                found |= {one.asname or one.name: f"{node.module}.{one.name}" for one in node.names if one.name != "*"}
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Attribute() | ast.Name() as value):
                if dotted := dotted_name(value):
                    found.setdefault(name, dotted)
    yield from _followed(found).items()


def _followed(found: Mapping[str, str]) -> dict[str, str]:
    """What each name stands for in the end; a ring is followed once."""
    ends: dict[str, str] = {}
    for name in found:
        way: dict[str, None] = {}
        while name in found and name not in ends and name not in way:
            way[name] = None
            name = found[name].partition(".")[0]
        whole = ends.get(name, name)
        for one in reversed(way):
            _, dot, rest = found[one].partition(".")
            whole = ends[one] = f"{whole}{dot}{rest}"[-_LONGEST:]
    return ends


def _is_star(node: ast.ImportFrom) -> bool:
    return any(one.name == "*" for one in node.names)


def imported(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    """The dotted names that a statement imports."""
    if isinstance(node, ast.Import):
        yield from (one.name for one in node.names)
    elif node.module:
        yield from (f"{node.module}.{one.name}" for one in node.names)
