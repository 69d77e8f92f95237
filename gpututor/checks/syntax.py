"""What a Python file uses, told by its syntax tree: calls, `with` blocks, attributes and imports, each with its line.

Nothing is run. A name is followed through imports and plain assignments (`import torch as t`, `wait = t.synchronize`),
a call through the file's own functions: what a function does that is called in a loop is done in a loop. Dead is what
follows a `return` or `if False`, and what stands in functions that neither the entry nor the file's own level reaches.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from gpututor.checks.dead_code import called_by_torch, never, parts_that_run

Kind = Literal["call", "with", "attribute", "import"]
MODULE = ""
"""The owner of what stands in no function."""
UNKNOWN = object()
"""The value of a keyword that no tree tells."""


@dataclass(frozen=True)
class Use:
    """One use of a name."""

    kind: Kind
    names: tuple[str, ...]
    """The dotted names that it may have, aliases resolved, such as `torch.cuda.synchronize`; `item` for `f(x).item`."""
    line: int
    owner: str
    """The function around it: its path such as `Net.forward`; `MODULE` for none."""
    in_loop: bool
    alive: bool
    keywords: Mapping[str, Any] = field(default_factory=dict)
    """For calls: constants by keyword, else `UNKNOWN`."""


def uses_of(text: str, entry: str) -> list[Use]:
    """Every use in a Python text, in the file's order. Raises `SyntaxError` for what is none."""
    tree = ast.parse(text)
    reader = _Reader(tree)
    reader.block(tree.body, _Place())
    reached, looped = _reached(reader, entry), _looped(reader)
    return sorted(
        (
            replace(use, alive=use.alive and use.owner in reached, in_loop=use.in_loop or use.owner in looped)
            for use in reader.uses
        ),
        key=lambda use: use.line,
    )


@dataclass(frozen=True)
class _Place:
    owner: str = MODULE
    in_loop: bool = False
    alive: bool = True


class _Reader:
    """Reads a tree once; `uses` and `mentions` are what it found."""

    def __init__(self, tree: ast.Module) -> None:
        self.uses: list[Use] = []
        self.mentions: list[tuple[str, _Place]] = []
        """Simple names that are read, and where: they may be functions of the file."""
        self.functions: dict[str, str] = {}
        """The class that each function of the file belongs to, or nothing, by its path."""
        self.classes: set[str] = set()
        self._aliases = dict(_aliases(tree))
        self._stars = [one.module for one in ast.walk(tree) if _is_star(one) and isinstance(one, ast.ImportFrom)]

    def block(self, statements: list[ast.stmt], place: _Place) -> None:
        for statement, runs in parts_that_run(statements):
            self._statement(statement, replace(place, alive=place.alive and runs))

    def _statement(self, node: ast.stmt, place: _Place) -> None:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._function(node, place, "")
            case ast.ClassDef():
                self.classes.add(node.name)
                for one in (*node.bases, *node.decorator_list, *(keyword.value for keyword in node.keywords)):
                    self._expression(one, place)
                for inner in node.body:
                    if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
                        self._function(inner, place, node.name)
                    else:
                        self._statement(inner, place)
            case ast.If():
                self._expression(node.test, place)
                self.block(node.body, replace(place, alive=place.alive and not never(node.test, True)))
                self.block(node.orelse, replace(place, alive=place.alive and not never(node.test, False)))
            case ast.For() | ast.AsyncFor():
                self._expression(node.iter, place)
                self._expression(node.target, place)
                self.block(node.body, replace(place, in_loop=True))
                self.block(node.orelse, place)
            case ast.While():
                inside = replace(place, in_loop=True, alive=place.alive and not never(node.test, True))
                self._expression(node.test, replace(place, in_loop=True))
                self.block(node.body, inside)
                self.block(node.orelse, place)
            case ast.With() | ast.AsyncWith():
                for item in node.items:
                    self._context(item.context_expr, place)
                    if item.optional_vars is not None:
                        self._expression(item.optional_vars, place)
                self.block(node.body, place)
            case ast.Import() | ast.ImportFrom():
                for name in _imported(node):
                    self._use("import", (name,), node, place)
            case _:
                for child in ast.iter_child_nodes(node):
                    if isinstance(child, ast.expr):
                        self._expression(child, place)
                for part in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
                    for child in ast.iter_child_nodes(part):
                        if not isinstance(child, ast.stmt):
                            self._expression(child, place)
                for body in _bodies(node):
                    self.block(body, place)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef, place: _Place, class_name: str) -> None:
        outer = class_name or place.owner
        path = f"{outer}.{node.name}" if outer else node.name
        self.functions[path] = class_name
        inside = _Place(path, alive=place.alive)
        for decorator in node.decorator_list:
            self._context(decorator, inside)
        for one in filter(None, (node.args, node.returns)):
            self._expression(one, place)
        self.block(node.body, inside)

    def _context(self, node: ast.expr, place: _Place) -> None:
        """What a `with` enters, or a function is decorated with."""
        called = node.func if isinstance(node, ast.Call) else node
        self._use("with", self._names(called), node, place, _keywords(node))
        self._expression(node, place)

    def _expression(self, node: ast.AST, place: _Place) -> None:
        match node:
            case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(value=str())]):
                # An attribute in other words.
                self._use("attribute", self._names(node), node, place)
            case ast.Call():
                self._use("call", self._names(node.func), node, place, _keywords(node))
            case ast.Attribute():
                self._use("attribute", self._names(node), node, place)
                self.mentions.append((node.attr, place))
            case ast.Name():
                self.mentions.append((node.id, place))
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                first = node.generators[0].iter
                self._expression(first, place)
                for child in ast.iter_child_nodes(node):
                    self._comprehended(child, first, replace(place, in_loop=True))
                return
            case ast.IfExp():
                self._expression(node.test, place)
                self._expression(node.body, replace(place, alive=place.alive and not never(node.test, True)))
                self._expression(node.orelse, replace(place, alive=place.alive and not never(node.test, False)))
                return
        for child in ast.iter_child_nodes(node):
            self._expression(child, place)

    def _comprehended(self, node: ast.AST, first: ast.expr, place: _Place) -> None:
        for child in ast.iter_child_nodes(node) if isinstance(node, ast.comprehension) else (node,):
            if child is not first:
                self._expression(child, place)

    def _use(
        self, kind: Kind, names: tuple[str, ...], node: Any, place: _Place, keywords: Mapping[str, Any] | None = None
    ) -> None:
        if names:
            use = Use(kind, names, node.lineno, place.owner, place.in_loop, place.alive, keywords or {})
            self.uses.append(use)

    def _names(self, node: ast.expr) -> tuple[str, ...]:
        dotted = dotted_name(node)
        first, _, rest = dotted.partition(".")
        if not dotted or first not in self._aliases:
            return (dotted, *(f"{module}.{dotted}" for module in self._stars)) if dotted else ()
        whole = self._aliases[first]
        return (f"{whole}.{rest}" if rest else whole,)


def dotted_name(node: ast.expr) -> str:
    """`torch.cuda.synchronize` as it is written; `item` for `f(x).item`; empty for what has no name."""
    parts: list[str] = []
    while True:
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


def _aliases(tree: ast.Module) -> Iterator[tuple[str, str]]:
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
    for name in found:
        whole, seen = name, set[str]()
        while (first := whole.partition(".")[0]) in found and first not in seen:
            seen.add(first)
            whole = found[first] + whole[len(first) :]
        yield name, whole


def _is_star(node: ast.AST) -> bool:
    return isinstance(node, ast.ImportFrom) and bool(node.module) and any(one.name == "*" for one in node.names)


def _imported(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (one.name for one in node.names)
    elif node.module:
        yield from (f"{node.module}.{one.name}" for one in node.names)


def _keywords(node: ast.expr) -> dict[str, Any]:
    if not isinstance(node, ast.Call):
        return {}
    return {
        one.arg or "**": one.value.value if isinstance(one.value, ast.Constant) else UNKNOWN for one in node.keywords
    }


def _bodies(node: ast.stmt) -> Iterator[list[ast.stmt]]:
    """The blocks of `try`, `match` and whatever else has some."""
    for name in ("body", "orelse", "finalbody"):
        yield getattr(node, name, [])
    for part in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
        yield part.body


def _reached(reader: _Reader, entry: str) -> set[str]:
    """The functions that the entry, or what stands in none, may call."""
    mentioned: dict[str, set[str]] = {}
    for name, place in reader.mentions:
        if place.alive:
            mentioned.setdefault(place.owner, set()).add(name)
    reached, waiting = {MODULE}, [MODULE, entry]
    names: set[str] = {entry}
    while waiting:
        reached.add(owner := waiting.pop())
        names |= mentioned.get(owner, set())
        waiting += [
            path
            for path, class_name in reader.functions.items()
            if path not in reached
            and (path.rpartition(".")[2] in names or (class_name in names and called_by_torch(path)))
        ]
    return reached


def _looped(reader: _Reader) -> set[str]:
    """The functions that are called in a loop, or by one of these."""
    looped: set[str] = set()
    while True:
        names = {name for name, place in reader.mentions if place.in_loop or place.owner in looped}
        more = {path for path in reader.functions if path.rpartition(".")[2] in names} - looped
        if not more:
            return looped
        looped |= more
