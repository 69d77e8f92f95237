"""Syntax trees: the calls, names and attributes that a Python file uses, and which of its code can run.

Nothing is executed. Names are followed through imports and plain assignments (`import torch as t`,
`wait = t.synchronize`). Calls are followed through the file's own functions. So the body of a function that is called
in a loop is in a loop. Dead code follows a `return` or `if False`, or is in functions that neither the entry nor the
module reaches.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

Kind = Literal["call", "with", "attribute", "import"]
MODULE = ""
"""Owner of code outside of functions."""
UNKNOWN = object()
"""Value of a keyword that is not a constant."""
UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError)
"""Errors of `uses_of` and `ast.parse` for text that is not Python, or too large or too deep."""
MOST_PARTS = 32
"""Most parts of a dotted name to follow: the last parts of a longer name."""
MOST_STARS = 50
"""Modules with `import *`: each name may come from any of them."""
LONGEST_NAME = 200
"""Most characters of a name. A longer name in thousands of places would fill the judge's memory."""
_LONGEST_ALIAS = 500
"""Most characters of the name that an alias resolves to: the last characters of a longer name."""
_BY_TORCH = frozenset({"forward", "backward", "setup_context", "step"})
"""Methods of a class that PyTorch calls itself."""


def reachable_statements(statements: Sequence[ast.stmt]) -> Iterator[tuple[ast.stmt, bool]]:
    """Yield each statement of a block, and True if it is reachable: nothing after a `return` is."""
    runs = True
    for statement in statements:
        yield statement, runs
        runs = runs and not _leaves(statement)


def never(test: ast.expr, wanted: bool) -> bool:
    """Return True if a condition can never be `wanted`: `0`, `not True`, `__name__ == "__main__"` of a module."""
    known = _truth(test)
    return known is not None and known is not wanted


def as_main(tree: ast.Module) -> ast.Module:
    """Change a tree so that code under `if __name__ == "__main__":` runs, as in a script; return it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id == "__name__":
            node.id = "__main__"
    return tree


def called_by_torch(path: str) -> bool:
    """Return True for methods that are called without being named: `Net.forward`, `Net.__init__`."""
    name = path.rpartition(".")[2]
    return name in _BY_TORCH or (name.startswith("__") and name.endswith("__"))


def _leaves(node: ast.stmt) -> bool:
    """Return True if the statements after `node` in its block are unreachable. Cached: each outer block asks again."""
    known: bool | None = getattr(node, "leaves", None)
    if known is not None:
        return known
    match node:
        case ast.Return() | ast.Raise() | ast.Break() | ast.Continue():
            known = True
        case ast.If():
            body, orelse = any(map(_leaves, node.body)), any(map(_leaves, node.orelse))
            known = (body or never(node.test, True)) and (orelse or never(node.test, False))
        case ast.With():
            known = any(map(_leaves, node.body))
        case _:
            known = False
    node.leaves = known  # type: ignore[attr-defined]
    return known


def _truth(test: ast.expr) -> bool | None:
    match test:
        case ast.Constant():
            return bool(test.value)
        case ast.UnaryOp(op=ast.Not()):
            inner = _truth(test.operand)
            return None if inner is None else not inner
        case ast.Compare(left=ast.Name(id="__name__"), ops=[ast.Eq()]) | ast.Name(id="TYPE_CHECKING"):
            return False
    return None


def check_names(tree: ast.Module) -> None:
    """Raise `ValueError` for a name that is too long."""
    for node in ast.walk(tree):
        for attribute in ("id", "attr", "name", "asname", "module", "arg"):
            name = getattr(node, attribute, None)
            if isinstance(name, str) and len(name) > LONGEST_NAME:
                raise ValueError(f"a name of more than {LONGEST_NAME} characters")


def star_imports(tree: ast.Module) -> list[str]:
    """Return the modules that are imported with `*`. Raises `ValueError` for too many."""
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    modules = {node.module: True for node in imports if node.module and any(name.name == "*" for name in node.names)}
    if len(modules) > MOST_STARS:
        raise ValueError(f"everything of more than {MOST_STARS} modules is imported")
    return list(modules)


def dotted_name(node: ast.expr) -> str:
    """Return `torch.cuda.synchronize` as written, `item` for `f(x).item`; empty if there is no name."""
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


def aliases(tree: ast.Module) -> dict[str, str]:
    """Return the full name of each alias made by an import or a plain assignment."""
    targets: dict[str, str] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Import():
                targets |= {name.asname: name.name for name in node.names if name.asname}
            case ast.ImportFrom() if node.module and not node.level:
                names = [name for name in node.names if name.name != "*"]
                targets |= {name.asname or name.name: f"{node.module}.{name.name}" for name in names}
            case ast.Assign(targets=[ast.Name(id=target)], value=ast.Attribute() | ast.Name() as value):
                if dotted := dotted_name(value):
                    targets.setdefault(target, dotted)
    return _resolve_aliases(targets)


def _resolve_aliases(targets: Mapping[str, str]) -> dict[str, str]:
    """Follow each alias to its end; a cycle is followed once."""
    resolved: dict[str, str] = {}
    for name in targets:
        path: dict[str, None] = {}
        while name in targets and name not in resolved and name not in path:
            path[name] = None
            name = targets[name].partition(".")[0]
        whole = resolved.get(name, name)
        for alias in reversed(path):
            _, dot, rest = targets[alias].partition(".")
            whole = resolved[alias] = f"{whole}{dot}{rest}"[-_LONGEST_ALIAS:]
    return resolved


def imported(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    """Yield the dotted names that a statement imports."""
    if isinstance(node, ast.Import):
        yield from (name.name for name in node.names)
    elif node.module:
        yield from (f"{node.module}.{name.name}" for name in node.names)


@dataclass(frozen=True)
class Use:
    """A use of a name."""

    kind: Kind
    names: tuple[str, ...]
    """Possible dotted names, aliases resolved, such as `torch.cuda.synchronize`; `item` for `f(x).item`."""
    line: int
    owner: str
    """Path of the enclosing function, such as `Net.forward`; `MODULE` if there is none."""
    in_loop: bool
    alive: bool
    keywords: Mapping[str, Any] = field(default_factory=dict)
    """Keywords of a call with their constants, or `UNKNOWN`."""
    bare: bool = False
    """True for a call of a simple name: `eval()`, but not `model.eval()` or `f().eval()`."""


def uses_of(text: str, entry: str) -> list[Use]:
    """Return every use in a Python text, in the file's order; `entry` is empty for a script.

    Raises `SyntaxError` for text that is not Python, `ValueError` and `RecursionError` if it is too large or too deep.
    The time is linear in the length of the text.
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

    def where(self, test: ast.expr, is_true: bool, *, in_loop: bool = False) -> _Place:
        """Return the place of code that runs only if the test `is_true`."""
        alive = self.alive and not never(test, is_true)
        return replace(self, alive=alive, in_loop=self.in_loop or in_loop)


class _Reader:
    """Collector of the `uses` and `mentions` in a tree, in one pass."""

    def __init__(self, tree: ast.Module) -> None:
        self.uses: list[Use] = []
        self.mentions: list[tuple[str, _Place]] = []
        """Simple names that are read, with their place: they may be functions of the file."""
        self.functions: dict[str, str] = {}
        """Class of each function of the file, or empty, by path."""
        self.classes: set[str] = set()
        self._aliases = aliases(tree)
        self._stars = star_imports(tree)

    def block(self, statements: list[ast.stmt], place: _Place) -> None:
        for statement, runs in reachable_statements(statements):
            self._statement(statement, replace(place, alive=place.alive and runs))

    def _statement(self, node: ast.stmt, place: _Place) -> None:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._function(node, place, "")
            case ast.ClassDef():
                self.classes.add(node.name)
                for part in (*node.bases, *node.decorator_list, *(keyword.value for keyword in node.keywords)):
                    self._expression(part, place)
                for inner in node.body:
                    if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
                        self._function(inner, place, node.name)
                    else:
                        self._statement(inner, place)
            case ast.If():
                self._expression(node.test, place)
                self.block(node.body, place.where(node.test, True))
                self.block(node.orelse, place.where(node.test, False))
            case ast.For() | ast.AsyncFor():
                self._expression(node.iter, place)
                self._expression(node.target, place)
                self.block(node.body, replace(place, in_loop=True))
                self.block(node.orelse, place)
            case ast.While():
                self._expression(node.test, replace(place, in_loop=True))
                self.block(node.body, place.where(node.test, True, in_loop=True))
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
                    self.block(part.body, place)
                for name in ("body", "orelse", "finalbody"):
                    self.block(getattr(node, name, []), place)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef, place: _Place, class_name: str) -> None:
        outer = class_name or place.owner
        path = f"{outer}.{node.name}" if outer else node.name
        self.functions[path] = class_name
        inside = _Place(path, alive=place.alive)
        for decorator in node.decorator_list:
            self._context(decorator, inside)
            if not isinstance(decorator, ast.Call):  # it is called with the function
                self._use("call", self._names(decorator), decorator, place)
        for part in filter(None, (node.args, node.returns)):
            self._expression(part, place)
        self.block(node.body, inside)

    def _context(self, node: ast.expr, place: _Place) -> None:
        """Collect the context of a `with`, or a decorator."""
        called = node.func if isinstance(node, ast.Call) else node
        self._use("with", self._names(called), node, place, _keywords(node))
        self._expression(node, place)

    def _expression(self, node: ast.AST, place: _Place) -> None:
        match node:
            case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(value=str()), *_]):
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
                self._expression(node.body, place.where(node.test, True))
                self._expression(node.orelse, place.where(node.test, False))
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

    def paths_by_name(self) -> defaultdict[str, list[str]]:
        """Return the paths of the file's functions by their last names."""
        paths = defaultdict[str, list[str]](list)
        for path in self.functions:
            paths[path.rpartition(".")[2]].append(path)
        return paths

    def _names(self, node: ast.expr) -> tuple[str, ...]:
        dotted = dotted_name(node)
        first, _, rest = dotted.partition(".")
        if not dotted or first not in self._aliases:
            return (dotted, *(f"{module}.{dotted}" for module in self._stars)) if dotted else ()
        whole = self._aliases[first]
        return (f"{whole}.{rest}" if rest else whole,)


def _keywords(node: ast.expr) -> dict[str, Any]:
    keywords = node.keywords if isinstance(node, ast.Call) else []
    return {
        keyword.arg or "**": keyword.value.value if isinstance(keyword.value, ast.Constant) else UNKNOWN
        for keyword in keywords
    }


def _reached(reader: _Reader, entry: str) -> set[str]:
    """Return the paths of functions that the entry or the module may call."""
    called_in = reader.paths_by_name()
    for path, class_name in reader.functions.items():
        if class_name and called_by_torch(path):
            called_in[class_name].append(path)
    alive = [(name, place.owner) for name, place in reader.mentions if place.alive]
    return _spread([MODULE, entry], {entry}, alive, called_in)


def _looped(reader: _Reader) -> set[str]:
    """Return the paths of functions that are called in a loop, or by one of these."""
    names = {name for name, place in reader.mentions if place.in_loop}
    return _spread([], names, [(name, place.owner) for name, place in reader.mentions], reader.paths_by_name())


def _spread(
    paths: list[str], names: set[str], mentions: Iterable[tuple[str, str]], called_in: Mapping[str, list[str]]
) -> set[str]:
    """Return `paths`, and all functions reached from them and from `names` by `mentions`: (name, its owner)."""
    mentioned = defaultdict[str, set[str]](set)
    for name, owner in mentions:
        mentioned[owner].add(name)
    reached, known = set(paths), set(names)
    new_paths, new_names = list(paths), list(names)
    while new_paths or new_names:
        if new_paths:
            new = mentioned[new_paths.pop()] - known
            known |= new
            new_names += new
        else:
            called = [path for path in called_in.get(new_names.pop(), ()) if path not in reached]
            reached.update(called)
            new_paths += called
    return reached


def return_line(source: str, entry: str) -> int | None:
    """Return the line of the last `return` in the function `entry`; without a `return`, the line of its definition.

    In a script, whose `entry` is empty, return the line of the last `print`. Return None if there is no such line.
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


def literal_line(source: str, word: str) -> int | None:
    """Return the last line with the constant `word`, such as a file's name; None if there is none."""
    tree = _parsed(source)
    constants = [node for node in ast.walk(tree) if isinstance(node, ast.Constant)] if tree is not None else []
    return max((node.lineno for node in constants if node.value == word), default=None)


def _parsed(source: str) -> ast.Module | None:
    try:
        return ast.parse(source)
    except UNREADABLE:
        return None
