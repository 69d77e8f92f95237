"""Syntax trees: which calls, names and attributes a Python file uses, and which of its code runs.

Nothing is run. A name is followed through imports and plain assignments (`import torch as t`, `wait = t.synchronize`),
a call through the file's own functions: what a function does that is called in a loop is done in a loop. Dead is what
follows a `return` or `if False`, and what stands in functions that neither the entry nor the file's own level reaches.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

_BY_TORCH = frozenset({"forward", "backward", "setup_context", "step"})
"""Methods that PyTorch calls of a class that is used."""


def reachable_statements(statements: Sequence[ast.stmt]) -> Iterator[tuple[ast.stmt, bool]]:
    """Each statement of a block, and whether it can be reached: nothing after a `return` is."""
    runs = True
    for statement in statements:
        yield statement, runs
        runs = runs and not _leaves(statement)


def never(test: ast.expr, wanted: bool) -> bool:
    """Whether a condition can never be `wanted`: `False`, `0`, `not True`, `__name__ == "__main__"` of a module."""
    known = _truth(test)
    return known is not None and known is not wanted


def as_main(tree: ast.Module) -> ast.Module:
    """The same file when it is run as a script: what stands below `if __name__ == "__main__":` runs too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id == "__name__":
            node.id = "__main__"
    return tree


def called_by_torch(path: str) -> bool:
    """Whether a method is called though nobody names it: `Net.forward`, `Net.__init__`."""
    name = path.rpartition(".")[2]
    return name in _BY_TORCH or (name.startswith("__") and name.endswith("__"))


def _leaves(node: ast.stmt) -> bool:
    """Whether what follows in the block cannot be reached. Asked for each block around it: each node looks once."""
    known: bool | None = getattr(node, "leaves", None)
    if known is None:
        known = node.leaves = _looked_at(node)  # type: ignore[attr-defined]
    return known


def _looked_at(node: ast.stmt) -> bool:
    match node:
        case ast.Return() | ast.Raise() | ast.Break() | ast.Continue():
            return True
        case ast.If():
            body, orelse = any(map(_leaves, node.body)), any(map(_leaves, node.orelse))
            return (body or never(node.test, True)) and (orelse or never(node.test, False))
        case ast.With():
            return any(map(_leaves, node.body))
    return False


def _truth(test: ast.expr) -> bool | None:
    match test:
        case ast.Constant():
            return bool(test.value)
        case ast.UnaryOp(op=ast.Not()):
            inner = _truth(test.operand)
            return None if inner is None else not inner
        case ast.Compare(left=ast.Name(id="__name__"), ops=[ast.Eq()]):
            return False
        case ast.Name(id="TYPE_CHECKING"):
            return False
    return None


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
        for attribute in ("id", "attr", "name", "asname", "module", "arg"):
            name = getattr(node, attribute, None)
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
    bare: bool = False
    """A call of a simple name, as `eval()` is and `model.eval()` and `f().eval()` are not."""


def uses_of(text: str, entry: str) -> list[Use]:
    """Every use in a Python text, in the file's order; `entry` is empty where it is run as a script.

    Raises `SyntaxError` for what is no Python, `ValueError` and `RecursionError` for what is beyond measure.
    The time taken grows with the text, not faster.
    """
    tree = ast.parse(text)
    check_names(tree)
    if not entry:
        tree = as_main(tree)
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
        self._aliases = dict(aliases(tree))
        self._stars = stars(tree)

    def block(self, statements: list[ast.stmt], place: _Place) -> None:
        for statement, runs in reachable_statements(statements):
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
                for name in imported(node):
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
            if not isinstance(decorator, ast.Call):  # it is called with the function
                self._use("call", self._names(decorator), decorator, place)
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
            case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(value=str()), *_]):
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
            bare = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
            use = Use(kind, names, node.lineno, place.owner, place.in_loop, place.alive, keywords or {}, bare)
            self.uses.append(use)

    def _names(self, node: ast.expr) -> tuple[str, ...]:
        dotted = dotted_name(node)
        first, _, rest = dotted.partition(".")
        if not dotted or first not in self._aliases:
            return (dotted, *(f"{module}.{dotted}" for module in self._stars)) if dotted else ()
        whole = self._aliases[first]
        return (f"{whole}.{rest}" if rest else whole,)


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
    mentioned = _by_owner(reader, lambda place: place.alive)
    called_in = defaultdict[str, list[str]](list)
    for path, class_name in reader.functions.items():
        called_in[path.rpartition(".")[2]].append(path)
        if class_name and called_by_torch(path):
            called_in[class_name].append(path)
    return _spread([MODULE, entry], {entry}, mentioned, called_in)


def _looped(reader: _Reader) -> set[str]:
    """The functions that are called in a loop, or by one of these."""
    called_in = defaultdict[str, list[str]](list)
    for path in reader.functions:
        called_in[path.rpartition(".")[2]].append(path)
    names = {name for name, place in reader.mentions if place.in_loop}
    return _spread([], names, _by_owner(reader, lambda _: True), called_in)


def _by_owner(reader: _Reader, counts: Callable[[_Place], bool]) -> dict[str, set[str]]:
    """The names that each function mentions, where that counts."""
    mentioned = defaultdict[str, set[str]](set)
    for name, place in reader.mentions:
        if counts(place):
            mentioned[place.owner].add(name)
    return mentioned


def _spread(
    paths: list[str], names: set[str], mentioned: Mapping[str, set[str]], called_in: Mapping[str, list[str]]
) -> set[str]:
    """`paths`, what is called by one of `names`, and by what any of these mentions. Each is looked at once."""
    found, known = set(paths), set(names)
    waiting, asked = list(paths), list(names)
    while waiting or asked:
        if waiting:
            new = mentioned.get(waiting.pop(), set()) - known
            known |= new
            asked += new
        else:
            more = [path for path in called_in.get(asked.pop(), ()) if path not in found]
            found.update(more)
            waiting += more
    return found


def return_line(source: str, entry: str) -> int | None:
    """The line of the last `return` of the function `entry`, of the function itself without one, or None.

    Of a script, whose `entry` is empty: that of the last `print`.
    """
    if (tree := _parsed(source)) is None:
        return None
    if not entry:
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
        return max((node.lineno for node in calls if ast.unparse(node.func) == "print"), default=None)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == entry:
            returns = [inner.lineno for inner in ast.walk(node) if isinstance(inner, ast.Return)]
            return max(returns, default=node.lineno)
    return None


def naming_line(source: str, word: str) -> int | None:
    """The last line in which `word` stands as a text of the program, such as a file's name; None where none does."""
    tree = _parsed(source)
    texts = [node for node in ast.walk(tree) if isinstance(node, ast.Constant)] if tree is not None else []
    return max((node.lineno for node in texts if node.value == word), default=None)


def _parsed(source: str) -> ast.Module | None:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
