"""Mutants: a solution with one fault each, and the edits that make them.

Made from the syntax tree of the solution, outside of what only runs it as a script. Of devices: a move dropped, a wait
added or dropped, a copy made blocking, a stream's order dropped, a device swapped. Of values: a mask inverted or
dropped, a reduction over another dimension, a narrower dtype, a `zero_grad` dropped. Of gradients: a detach added or
dropped, a precision or gradient context dropped.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

Placed = ast.expr | ast.stmt | ast.keyword


@dataclass(frozen=True)
class Edit:
    """What stands at bytes `start` to `end` is replaced."""

    start: int
    end: int
    text: str


class Text:
    """A source and its syntax tree. Raises `SyntaxError` for what is no Python."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.tree = ast.parse(source)
        self._bytes = source.encode()  # columns of a syntax tree are counted in bytes
        lengths = (len(line) + 1 for line in self._bytes.split(b"\n"))
        self._starts = [0, *itertools.accumulate(lengths)]

    def span(self, node: Placed) -> tuple[int, int]:
        """Where `node` begins and ends, in bytes; without parentheses around it."""
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return (
            self._starts[node.lineno - 1] + node.col_offset,
            self._starts[node.end_lineno - 1] + node.end_col_offset,
        )

    def written(self, node: Placed) -> str:
        start, end = self.span(node)
        return self._bytes[start:end].decode()

    def replaced(self, node: ast.expr, text: str) -> Edit:
        """An expression in the place of another."""
        start, end = self.span(node)
        missing = self._lines(start, end) - text.count("\n")
        return Edit(start, end, f"({text}{chr(10) * max(0, missing)})")

    def without_statement(self, node: ast.stmt, instead: str = "pass") -> Edit:
        """A simple statement in the place of another."""
        start, end = self.span(node)
        return Edit(start, end, instead + "\n" * self._lines(start, end))

    def without_keyword(self, call: ast.Call, keyword: ast.keyword) -> Edit:
        """`f(a, b=1)` without `b=1`, and without the comma that goes with it."""
        start, end = self.span(keyword)
        low = self.span(call.func)[1]
        before = self._bytes[low:start].rstrip()
        if before.endswith(b","):
            kept = len(before) - 1
            return Edit(low + kept, end, "\n" * self._lines(low + kept, end))
        after = self._bytes[end : self.span(call)[1]]
        if after.lstrip().startswith(b","):
            end += after.index(b",") + 1
        return Edit(start, end, "\n" * self._lines(start, end))

    def behind(self, node: ast.stmt, text: str) -> Edit:
        """One more statement on the line at which `node` ends."""
        end = self.span(node)[1]
        return Edit(end, end, f"; {text}")

    def edited(self, *edits: Edit) -> str:
        """The source after `edits`, which must not overlap."""
        content = self._bytes
        for edit in sorted(edits, key=lambda edit: edit.start, reverse=True):
            content = content[: edit.start] + edit.text.encode() + content[edit.end :]
        return content.decode()

    def _lines(self, start: int, end: int) -> int:
        return self._bytes.count(b"\n", start, end)


MARK = "gpututor: the change took effect"
"""Printed by a change of which nothing else tells whether it changes anything."""
MOVES = ("to", "cuda", "cpu", "pin_memory", "detach")
WAITS = ("synchronize", "wait_stream", "wait_event", "record_stream", "wait", "set_device", "set_default_device")
KEYWORDS = ("non_blocking", "pin_memory", "device", "map_location")
CONTEXTS = ("autocast", "no_grad", "inference_mode", "set_grad_enabled", "stream")
LONGEST_CHANGE = 110
MASKED = ("masked_fill", "masked_fill_", "masked_scatter", "masked_scatter_", "where")
"""Methods whose first argument is a mask; functions of torch but `where` take a tensor before it."""
REDUCTIONS = {
    *("sum", "mean", "prod", "amax", "amin", "max", "min", "argmax", "argmin", "std", "var", "std_mean", "var_mean"),
    *("norm", "vector_norm", "softmax", "log_softmax", "logsumexp", "cumsum", "cumprod", "any", "all", "median"),
    *("nansum", "nanmean", "topk", "sort", "argsort", "normalize", "count_nonzero", "Softmax", "LogSoftmax"),
}
_OTHER_DIMENSION = {0: 1, 1: 0, -1: -2, -2: -1}
_NARROWER_TYPES = {"float64": "float32", "double": "float32", "float32": "float16", "float16": "bfloat16"}
_NARROWER_CASTS = {"double": "float", "float": "half", "half": "bfloat16"}
_PRODUCTS = ("mm", "matmul", "bmm")
_WITHOUT_ZERO_GRAD = (
    "[print({mark!r}) for it in [{owner}] if any(p.grad is not None for p in (it.parameters()"
    " if hasattr(it, 'parameters') else [p for group in it.param_groups for p in group['params']]))]"
)

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


def _masks_changed(at: _Place) -> Iterator[Mutant]:
    match at.node:
        case ast.UnaryOp(op=ast.Invert(), operand=inner) as node:
            yield at.mutant(node, f"drop ~ of {ast.unparse(inner)}", at.text.replaced(node, at.text.written(inner)))
        case ast.BinOp(left=left, op=ast.Mult(), right=right) as node:
            for mask, other in ((left, right), (right, left)):
                if isinstance(mask, ast.Name | ast.Attribute) and "mask" in _name_of(mask):
                    change = f"drop {ast.unparse(mask)} of {ast.unparse(node)}"
                    yield at.mutant(node, change, at.text.replaced(node, at.text.written(other)))
        case ast.Call(func=ast.Attribute(value=value, attr=name), args=[first, second, *_]) as call if name in MASKED:
            is_function = _name_of(value) == "torch" and name != "where"
            mask = second if is_function else first
            if not (isinstance(mask, ast.UnaryOp) and isinstance(mask.op, ast.Invert)):
                edit = at.text.replaced(mask, f"~({at.text.written(mask)})")
                yield at.mutant(mask, f"invert {ast.unparse(mask)} in {ast.unparse(call)}", edit)
    if isinstance(at.node, ast.Call):
        masks = [keyword for keyword in at.node.keywords if (keyword.arg or "").endswith("mask")]
        causal = [keyword for keyword in at.node.keywords if keyword.arg == "is_causal"]
        for keyword in masks or causal:  # next to a mask, is_causal is only a hint
            if not (isinstance(keyword.value, ast.Constant) and not keyword.value.value):
                change = f"drop {keyword.arg}={ast.unparse(keyword.value)} of {ast.unparse(at.node.func)}(…)"
                yield at.mutant(keyword, change, at.text.without_keyword(at.node, keyword))


def _dimensions_changed(at: _Place) -> Iterator[Mutant]:
    if not isinstance(at.node, ast.Call) or _name_of(at.node.func) not in REDUCTIONS:
        return
    call = at.node
    is_method = isinstance(call.func, ast.Attribute) and _name_of(call.func.value) not in _FUNCTIONS_OF
    named = [keyword.value for keyword in call.keywords if keyword.arg in ("dim", "axis")]
    placed = call.args[:1] if is_method else call.args[1:2]
    for dimension in named or placed:
        other = _other_dimension(dimension)
        if other:
            change = f"replace dim {ast.unparse(dimension)} by {other} in {ast.unparse(call)}"
            yield at.mutant(dimension, change, at.text.replaced(dimension, other))


_FUNCTIONS_OF = ("torch", "linalg", "functional", "F", "special")


def _other_dimension(node: ast.expr) -> str:
    """The dimension to reduce instead, as it is written; empty for none."""
    try:
        value = ast.literal_eval(node)
    except ValueError:
        return ""
    if type(value) is int:
        return str(_OTHER_DIMENSION.get(value, ""))
    if isinstance(value, tuple | list) and value and all(type(one) is int for one in value):
        first = _OTHER_DIMENSION.get(value[0])
        return repr((first, *value[1:])) if first is not None and first not in value else repr(tuple(value[1:]))
    return ""


def _types_narrowed(at: _Place) -> Iterator[Mutant]:
    match at.node:
        case ast.Attribute(value=ast.Name(id="torch"), attr=name) as node if name in _NARROWER_TYPES:
            narrower = f"torch.{_NARROWER_TYPES[name]}"
            yield at.mutant(node, f"replace torch.{name} by {narrower}", at.text.replaced(node, narrower))
        case ast.Call(func=ast.Attribute(value=value, attr=name), args=[], keywords=[]) as call if (
            name in _NARROWER_CASTS
        ):
            cast = f"{at.text.written(value)}.{_NARROWER_CASTS[name]}()"
            change = f"replace .{name}() by .{_NARROWER_CASTS[name]}() of {ast.unparse(value)}"
            yield at.mutant(call, change, at.text.replaced(call, cast))
        case ast.BinOp() | ast.Call() if isinstance(at.parent, ast.Expr):
            return  # a warm-up: nothing sees its values
        case ast.BinOp(left=left, op=ast.MatMult(), right=right) as node:
            yield _in_half(at, node, left, right)
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr=name), args=[left, right]) as call if (
            name in _PRODUCTS
        ):
            yield _in_half(at, call, left, right)


def _in_half(at: _Place, node: ast.expr, left: ast.expr, right: ast.expr) -> Mutant:
    """A product in float16, whose result has the dtype that it had."""
    one, other = (f"({at.text.written(part)})" for part in (left, right))
    product = f"(lambda a, b: (a.half() @ b.half()).to(a.dtype))({one}, {other})"
    return at.mutant(node, f"in float16: {ast.unparse(node)}", at.text.replaced(node, product), adds="half")


def _gradients_kept(at: _Place) -> Iterator[Mutant]:
    match at.node:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=owner, attr="zero_grad"))) as statement:
            instead = _WITHOUT_ZERO_GRAD.format(mark=MARK, owner=at.text.written(owner))
            edit = at.text.without_statement(statement, instead)
            yield replace(at.mutant(statement, f"drop {ast.unparse(statement)}", edit), marks=True)


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
    _masks_changed,
    _dimensions_changed,
    _types_narrowed,
    _gradients_kept,
    _results_changed,
    _waits_added,
)
