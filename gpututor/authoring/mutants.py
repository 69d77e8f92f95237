"""Device mutants: a solution with one change each that a learner could have made and a check should notice.

Made from the syntax tree of the solution, outside of what only runs it as a script: a move to a device dropped, a wait
added or dropped, a copy made blocking, a stream's order dropped, a precision or gradient context dropped, a device
swapped, a detach added or dropped.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from gpututor.authoring.edits import Edit, Text

MARK = "gpututor: the change took effect"
"""Printed by a change of which nothing else tells whether it changes anything."""
MOVES = ("to", "cuda", "cpu", "pin_memory", "detach")
WAITS = ("synchronize", "wait_stream", "wait_event", "record_stream", "wait", "set_device", "set_default_device")
KEYWORDS = ("non_blocking", "pin_memory", "device", "map_location")
CONTEXTS = ("autocast", "no_grad", "inference_mode", "set_grad_enabled", "stream")
LONGEST_CHANGE = 110

_NOT_TENSORS = {
    *("bool", "dict", "enumerate", "float", "int", "len", "list", "max", "min", "print", "range", "repr", "round"),
    *("set", "sorted", "str", "sum", "tuple", "zip", "item", "tolist", "numpy", "perf_counter", "append", "keys"),
    *("device", "device_count", "is_available", "elapsed_time", "format", "join", "items", "values"),
}
"""Calls whose results are known not to be tensors: nothing can be waited for."""
WAITS_PER_BLOCK = 2


@dataclass(frozen=True)
class Mutant:
    """A solution with one change."""

    line: int
    """Where, in the solution; the lines of the rest keep their numbers."""
    change: str
    """What was changed, in words: `drop .to(device) of batch`. Several changes may be called the same."""
    source: str
    adds: str = ""
    """The attribute that the change asks of a value: one that lacks it cannot be changed like this."""
    marks: bool = False
    """It prints `MARK` where it takes effect."""


def mutants_of(source: str) -> tuple[Mutant, ...]:
    """Every mutant, in the order of lines. Raises `SyntaxError` for a source that is no Python."""
    text = Text(source)
    found: dict[str, Mutant] = {}
    for at in _places(text):
        for operator in OPERATORS:
            for mutant in operator(at):
                if mutant.source != source and _is_python(mutant.source):
                    found.setdefault(mutant.source, mutant)
    return tuple(sorted(found.values(), key=lambda mutant: mutant.line))


@dataclass(frozen=True)
class _Place:
    """One node of the tree, and what holds it."""

    text: Text
    node: ast.AST
    parent: ast.AST

    def mutant(self, node: ast.expr | ast.stmt | ast.keyword, change: str, *edits: Edit, adds: str = "") -> Mutant:
        words = " ".join(change.replace('"', "'").split())
        if len(words) > LONGEST_CHANGE:
            words = f"{words[: LONGEST_CHANGE - 1]}…"
        return Mutant(node.lineno, words, self.text.edited(*edits), adds)


def _places(text: Text) -> Iterator[_Place]:
    """Every node that is graded: not the part that runs as a script, annotations, or the insides of f-strings."""
    waiting: list[tuple[ast.AST, ast.AST]] = [(node, text.tree) for node in text.tree.body if not _is_main(node)]
    while waiting:
        node, parent = waiting.pop()
        yield _Place(text, node, parent)
        if isinstance(node, ast.JoinedStr):
            continue
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns"):
                continue
            inner = value if isinstance(value, list) else [value]
            waiting += [(child, node) for child in inner if isinstance(child, ast.AST)]


def _is_main(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and "__name__" in ast.unparse(node.test)


def _is_python(source: str) -> bool:
    try:
        ast.parse(source)
    except SyntaxError:
        return False
    return True


def _moves_dropped(at: _Place) -> Iterator[Mutant]:
    match at.node:
        case ast.Call(func=ast.Attribute(value=value, attr=name)) as call if (
            name in MOVES and _name_of(value) != "torch"
        ):
            arguments = ast.unparse(call)[len(ast.unparse(call.func)) :]
            change, written = f"drop .{name}{arguments} of {ast.unparse(value)}", at.text.written(value)
            if name == "detach":
                written = f"(lambda it: (it.requires_grad and print({MARK!r}), it)[1])({written})"
            mutant = at.mutant(call, change, at.text.replaced(call, written))
            yield replace(mutant, marks=name == "detach")


def _waits_dropped(at: _Place) -> Iterator[Mutant]:
    match at.node:
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr=name))) as statement if name in WAITS:
            yield at.mutant(statement, f"drop {ast.unparse(statement)}", at.text.without_statement(statement))


def _keywords_dropped(at: _Place) -> Iterator[Mutant]:
    if not isinstance(at.node, ast.Call):
        return
    call = at.node
    for keyword in call.keywords:
        is_off = isinstance(keyword.value, ast.Constant) and keyword.value.value in (False, None)
        if keyword.arg in KEYWORDS and not is_off and not (keyword.arg == "device" and _name_of(call.func) == "to"):
            change = f"drop {keyword.arg}={ast.unparse(keyword.value)} of {ast.unparse(call.func)}(…)"
            yield at.mutant(keyword, change, at.text.without_keyword(call, keyword))


def _contexts_dropped(at: _Place) -> Iterator[Mutant]:
    node = at.node
    if not isinstance(node, ast.Call | ast.Attribute | ast.Name):
        return
    named = node.func if isinstance(node, ast.Call) else node
    is_context = _name_of(named) in CONTEXTS
    match at.parent:
        case ast.FunctionDef(decorator_list=decorators) if node in decorators and is_context:
            yield at.mutant(node, f"drop @{ast.unparse(node)}", at.text.replaced(node, "lambda function: function"))
        case ast.withitem(context_expr=context) if node is context:
            if is_context or "stream" in _name_of(named) or _is_place(node):
                yield from _without(at, node, f"drop with {ast.unparse(node)}")
        case ast.Assign() if is_context and isinstance(node, ast.Call):
            yield from _without(at, node, f"drop {ast.unparse(node)}")


def _without(at: _Place, node: ast.expr, change: str) -> Iterator[Mutant]:
    """`node` replaced by a context that does nothing; its import stands on the line of another, to move no lines."""
    for statement in at.text.tree.body:
        if isinstance(statement, ast.Import) or (
            isinstance(statement, ast.ImportFrom) and statement.module != "__future__"
        ):
            imported = at.text.behind(statement, "from contextlib import nullcontext as nothing")
            yield at.mutant(node, change, imported, at.text.replaced(node, "nothing()"))
            return


def _devices_swapped(at: _Place) -> Iterator[Mutant]:
    match at.node:
        case ast.Constant(value=str(word)) as node if word.partition(":")[0] == "cuda" and not _is_docstring(at):
            other = {"cuda": "cpu", "cuda:0": "cuda:1"}.get(word, "cuda:0")
            yield at.mutant(node, f"replace {word!r} by {other!r}", at.text.replaced(node, repr(other)))
        case ast.JoinedStr(values=[ast.Constant(value="cuda:"), *_]) as node:
            yield at.mutant(node, f"replace {ast.unparse(node)} by 'cuda:0'", at.text.replaced(node, "'cuda:0'"))
        case ast.Subscript(value=value, slice=ast.Constant(value=0 | 1 as index)) as node if _is_place(value):
            other_one = f"{ast.unparse(value)}[{1 - index}]"
            edit = at.text.replaced(node, other_one)
            yield at.mutant(node, f"replace {ast.unparse(node)} by {other_one}", edit)
        case ast.Call(func=ast.Attribute(attr="to"), args=[place, *_]) as call if _is_place(place):
            change = f"replace {ast.unparse(place)} by 'cpu' in {ast.unparse(call)}"
            yield at.mutant(call, change, at.text.replaced(place, "'cpu'"))


def _results_changed(at: _Place) -> Iterator[Mutant]:
    """What a function returns, brought to the CPU, or cut from the graph."""
    match at.node:
        case ast.Return(value=ast.Tuple(elts=parts) | ast.List(elts=parts)):
            values = parts
        case ast.Return(value=ast.Dict(values=parts)):
            values = parts
        case ast.Return(value=ast.expr() as value):
            values = [value]
        case _:
            return
    for value in values:
        if not _may_be_tensor(value):
            continue
        written, words = at.text.written(value), ast.unparse(value)
        edit = at.text.replaced(value, f"({written}).cpu()")
        yield at.mutant(value, f"return .cpu() of {words}", edit, adds="cpu")
        told = f"(lambda it: (it.requires_grad and print({MARK!r}), it.detach())[1])({written})"
        detached = at.mutant(value, f"return .detach() of {words}", at.text.replaced(value, told), adds="requires_grad")
        yield replace(detached, marks=True)


def _waits_added(at: _Place) -> Iterator[Mutant]:
    """After the last tensors that a block computes, the host waits for them."""
    for name in ("body", "orelse"):
        block = getattr(at.node, name, None)
        if not isinstance(block, list) or isinstance(at.node, ast.ClassDef):
            continue
        assigned = [(statement, target) for statement in block if (target := _assigned(statement))]
        for statement, target in assigned[-WAITS_PER_BLOCK:]:
            edit = at.text.behind(statement, f"{target}.cpu()")
            mutant = at.mutant(statement, f"wait for {target}: {target}.cpu()", edit, adds="cpu")
            yield replace(mutant, line=statement.end_lineno or mutant.line)


def _assigned(statement: ast.stmt) -> str:
    """The name to which a statement gives what may be a tensor that was just computed; empty for none."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if _is_computed(value):
            return name
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value) if _is_computed(value):
            return name
        case ast.AugAssign(target=ast.Name(id=name), value=value) if not isinstance(value, ast.Constant):
            return name
    return ""


def _is_computed(value: ast.expr) -> bool:
    return isinstance(value, ast.Call | ast.BinOp) and _may_be_tensor(value)


def _may_be_tensor(value: ast.expr) -> bool:
    match value:
        case ast.Call(func=function):
            name = _name_of(function)
            return name not in _NOT_TENSORS and not name[:1].isupper()
        case ast.Name() | ast.BinOp() | ast.Attribute() | ast.Subscript() | ast.UnaryOp() | ast.IfExp():
            return True
    return False


def _is_place(node: ast.expr) -> bool:
    """Whether it is called like a device, or makes one."""
    match node:
        case ast.Call(func=ast.Attribute(attr="device")):
            return True
        case ast.Name() | ast.Attribute() | ast.Subscript():
            words = ast.unparse(node).lower()
            return any(word in words for word in ("device", "gpu", "cuda"))
    return False


def _is_docstring(at: _Place) -> bool:
    return isinstance(at.parent, ast.Expr)


def _name_of(node: ast.expr) -> str:
    """The last part of a dotted name."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


OPERATORS: tuple[Callable[[_Place], Iterator[Mutant]], ...] = (
    _moves_dropped,
    _waits_dropped,
    _keywords_dropped,
    _contexts_dropped,
    _devices_swapped,
    _results_changed,
    _waits_added,
)
