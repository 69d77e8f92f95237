"""Mutants: a solution with one fault each, and the edits that make them.

The faults are edits of the solution, outside of code under `__main__`:

- devices: drop a move, add or drop a wait, make a copy blocking, drop the order of a stream, swap a device;
- values: invert or drop a mask, reduce over another dimension, use a narrower dtype, drop a `zero_grad`;
- gradients: add or drop a detach, drop a precision or gradient context.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from gpututor.text import truncate

Placed = ast.expr | ast.stmt | ast.keyword


class Edit(NamedTuple):
    """Replacement of bytes `start` to `end`."""

    start: int
    end: int
    text: str


class ParsedSource:
    """A source and its syntax tree. Raises `SyntaxError` if it is not Python."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.tree = ast.parse(source)
        self._bytes = source.encode()  # a syntax tree counts columns in bytes
        lengths = (len(line) + 1 for line in self._bytes.split(b"\n"))
        self._starts = [0, *itertools.accumulate(lengths)]

    def span(self, node: Placed) -> tuple[int, int]:
        """Return the first and the last byte of `node`, without surrounding parentheses."""
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = self._starts[node.lineno - 1] + node.col_offset
        return start, self._starts[node.end_lineno - 1] + node.end_col_offset

    def written(self, node: Placed) -> str:
        start, end = self.span(node)
        return self._bytes[start:end].decode()

    def replace(self, node: ast.expr, text: str) -> Edit:
        """Replace an expression; keeps the number of lines."""
        start, end = self.span(node)
        missing = self._lines(start, end) - text.count("\n")
        return Edit(start, end, f"({text}{chr(10) * max(0, missing)})")

    def replace_statement(self, node: ast.stmt, instead: str = "pass") -> Edit:
        """Replace a statement by a simple one; keeps the number of lines."""
        start, end = self.span(node)
        return Edit(start, end, instead + "\n" * self._lines(start, end))

    def drop_keyword(self, call: ast.Call, keyword: ast.keyword) -> Edit:
        """Drop `b=1` of `f(a, b=1)`, and its comma."""
        start, end = self.span(keyword)
        low = self.span(call.func)[1]
        before = self._bytes[low:start].rstrip()
        if before.endswith(b","):
            comma = low + len(before) - 1
            return Edit(comma, end, "\n" * self._lines(comma, end))
        after = self._bytes[end : self.span(call)[1]]
        if after.lstrip().startswith(b","):
            end += after.index(b",") + 1
        return Edit(start, end, "\n" * self._lines(start, end))

    def append_statement(self, node: ast.stmt, text: str) -> Edit:
        """Add a statement to the line at which `node` ends."""
        end = self.span(node)[1]
        return Edit(end, end, f"; {text}")

    def apply(self, *edits: Edit) -> str:
        """Return the source after `edits`, which must not overlap."""
        content = self._bytes
        for edit in sorted(edits, reverse=True):
            content = content[: edit.start] + edit.text.encode() + content[edit.end :]
        return content.decode()

    def _lines(self, start: int, end: int) -> int:
        return self._bytes.count(b"\n", start, end)


MARK = "gpututor: the change took effect"
"""Output of a mutant at run time if nothing else shows that its change took effect."""
MOVES = ("to", "cuda", "cpu", "pin_memory", "detach")
WAITS = ("synchronize", "wait_stream", "wait_event", "record_stream", "wait", "set_device", "set_default_device")
KEYWORDS = ("non_blocking", "pin_memory", "device", "map_location")
CONTEXTS = ("autocast", "no_grad", "inference_mode", "set_grad_enabled", "stream")
LONGEST_CHANGE = 110
MASKED = ("masked_fill", "masked_fill_", "masked_scatter", "masked_scatter_", "where")
"""Methods whose first argument is a mask; functions of torch except `where` take a tensor first."""
REDUCTIONS = {
    *("sum", "mean", "prod", "amax", "amin", "max", "min", "argmax", "argmin", "std", "var", "std_mean", "var_mean"),
    *("norm", "vector_norm", "softmax", "log_softmax", "logsumexp", "cumsum", "cumprod", "any", "all", "median"),
    *("nansum", "nanmean", "topk", "sort", "argsort", "normalize", "count_nonzero", "Softmax", "LogSoftmax"),
}
_OTHER_DIMENSION = {0: 1, 1: 0, -1: -2, -2: -1}
_NARROWER_TYPES = {"float64": "float32", "double": "float32", "float32": "float16", "float16": "bfloat16"}
_NARROWER_CASTS = {"double": "float", "float": "half", "half": "bfloat16"}
_PRODUCTS = ("mm", "matmul", "bmm")
_FUNCTIONS_OF = ("torch", "linalg", "functional", "F", "special")
_WITHOUT_ZERO_GRAD = (
    "[print({mark!r}) for it in [{owner}] if any(p.grad is not None for p in (it.parameters()"
    " if hasattr(it, 'parameters') else [p for group in it.param_groups for p in group['params']]))]"
)

_NOT_TENSORS = {
    *("bool", "dict", "enumerate", "float", "int", "len", "list", "max", "min", "print", "range", "repr", "round"),
    *("set", "sorted", "str", "sum", "tuple", "zip", "item", "tolist", "numpy", "perf_counter", "append", "keys"),
    *("device", "device_count", "is_available", "elapsed_time", "format", "join", "items", "values"),
}
"""Calls that return no tensor, so that nothing can be waited for."""
WAITS_PER_BLOCK = 2


@dataclass(frozen=True)
class Mutant:
    """A solution with one change."""

    line: int
    """Line in the solution; all other lines keep their numbers."""
    change: str
    """Description: `drop .to(device) of batch`. Several mutants may have the same description."""
    source: str
    adds: str = ""
    """Attribute of a value that the change uses, such as `cpu`. Values without it cannot be changed like this."""
    marks: bool = False
    """True if it prints `MARK` when it takes effect."""


def mutants_of(source: str) -> tuple[Mutant, ...]:
    """Return every mutant, in the order of lines. Raises `SyntaxError` for a source that is not Python."""
    text = ParsedSource(source)
    mutants: dict[str, Mutant] = {}
    for at in _places(text):
        for operator in OPERATORS:
            for mutant in operator(at):
                if mutant.source != source and _is_python(mutant.source):
                    mutants.setdefault(mutant.source, mutant)
    return tuple(sorted(mutants.values(), key=lambda mutant: mutant.line))


@dataclass(frozen=True)
class _Place:
    text: ParsedSource
    node: ast.AST
    parent: ast.AST

    def mutant(self, line: int, change: str, *edits: Edit, adds: str = "", marks: bool = False) -> Mutant:
        words = " ".join(change.replace('"', "'").split())
        return Mutant(line, truncate(words, LONGEST_CHANGE), self.text.apply(*edits), adds, marks)

    def replace(self, node: ast.expr, new: str, change: str, adds: str = "", *, marks: bool = False) -> Mutant:
        return self.mutant(node.lineno, change, self.text.replace(node, new), adds=adds, marks=marks)

    def drop_keyword(self, call: ast.Call, keyword: ast.keyword) -> Mutant:
        change = f"drop {keyword.arg}={ast.unparse(keyword.value)} of {ast.unparse(call.func)}(…)"
        return self.mutant(keyword.lineno, change, self.text.drop_keyword(call, keyword))


def _places(text: ParsedSource) -> Iterator[_Place]:
    """Yield every graded node: no code under `__main__`, no annotations, nothing inside of f-strings."""
    waiting: list[tuple[ast.AST, ast.AST]] = [
        (node, text.tree)
        for node in text.tree.body
        if not (isinstance(node, ast.If) and "__name__" in ast.unparse(node.test))
    ]
    while waiting:
        node, parent = waiting.pop()
        yield _Place(text, node, parent)
        if isinstance(node, ast.JoinedStr):
            continue
        for name, value in ast.iter_fields(node):
            if name not in ("annotation", "returns"):
                inner = value if isinstance(value, list) else [value]
                waiting += [(child, node) for child in inner if isinstance(child, ast.AST)]


def _is_python(source: str) -> bool:
    try:
        ast.parse(source)
    except SyntaxError:
        return False
    return True


def _drop_moves(at: _Place) -> Iterator[Mutant]:
    match at.node:
        case ast.Call(func=ast.Attribute(value=value, attr=name)) as call if (
            name in MOVES and _name_of(value) != "torch"
        ):
            arguments = ast.unparse(call)[len(ast.unparse(call.func)) :]
            is_detach, written = name == "detach", at.text.written(value)
            if is_detach:
                written = f"(lambda it: (it.requires_grad and print({MARK!r}), it)[1])({written})"
            change = f"drop .{name}{arguments} of {ast.unparse(value)}"
            yield at.replace(call, written, change, marks=is_detach)


def _drop_waits(at: _Place) -> Iterator[Mutant]:
    match at.node:
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr=name))) as wait if name in WAITS:
            yield at.mutant(wait.lineno, f"drop {ast.unparse(wait)}", at.text.replace_statement(wait))


def _drop_keywords(at: _Place) -> Iterator[Mutant]:
    if not isinstance(at.node, ast.Call):
        return
    is_to = _name_of(at.node.func) == "to"
    for keyword in at.node.keywords:
        is_off = isinstance(keyword.value, ast.Constant) and keyword.value.value in (False, None)
        if keyword.arg in KEYWORDS and not is_off and not (keyword.arg == "device" and is_to):
            yield at.drop_keyword(at.node, keyword)


def _drop_contexts(at: _Place) -> Iterator[Mutant]:
    node = at.node
    if not isinstance(node, ast.Call | ast.Attribute | ast.Name):
        return
    name = _name_of(node.func if isinstance(node, ast.Call) else node)
    match at.parent:
        case ast.FunctionDef(decorator_list=decorators) if node in decorators and name in CONTEXTS:
            yield at.replace(node, "lambda function: function", f"drop @{ast.unparse(node)}")
        case ast.withitem(context_expr=context) if node is context:
            if name in CONTEXTS or "stream" in name or _is_place(node):
                yield from _without_context(at, node, f"drop with {ast.unparse(node)}")
        case ast.Assign() if name in CONTEXTS and isinstance(node, ast.Call):
            yield from _without_context(at, node, f"drop {ast.unparse(node)}")


def _without_context(at: _Place, node: ast.expr, change: str) -> Iterator[Mutant]:
    """Replace `node` with a context that does nothing, and import that at the line of another import: no line moves."""
    for statement in at.text.tree.body:
        is_import_from = isinstance(statement, ast.ImportFrom) and statement.module != "__future__"
        if isinstance(statement, ast.Import) or is_import_from:
            imported = at.text.append_statement(statement, "from contextlib import nullcontext as nothing")
            yield at.mutant(node.lineno, change, imported, at.text.replace(node, "nothing()"))
            return


def _swap_devices(at: _Place) -> Iterator[Mutant]:
    match at.node:
        case ast.Constant(value=str(word)) as node if word.partition(":")[0] == "cuda":
            if isinstance(at.parent, ast.Expr):
                return  # a docstring
            other = repr({"cuda": "cpu", "cuda:0": "cuda:1"}.get(word, "cuda:0"))
            yield at.replace(node, other, f"replace {word!r} by {other}")
        case ast.JoinedStr(values=[ast.Constant(value="cuda:"), *_]) as node:
            yield at.replace(node, "'cuda:0'", f"replace {ast.unparse(node)} by 'cuda:0'")
        case ast.Subscript(value=value, slice=ast.Constant(value=0 | 1 as index)) as node if _is_place(value):
            other = f"{ast.unparse(value)}[{1 - index}]"
            yield at.replace(node, other, f"replace {ast.unparse(node)} by {other}")
        case ast.Call(func=ast.Attribute(attr="to"), args=[place, *_]) as call if _is_place(place):
            change = f"replace {ast.unparse(place)} by 'cpu' in {ast.unparse(call)}"
            yield at.mutant(call.lineno, change, at.text.replace(place, "'cpu'"))


def _change_masks(at: _Place) -> Iterator[Mutant]:
    match at.node:
        case ast.UnaryOp(op=ast.Invert(), operand=inner) as node:
            yield at.replace(node, at.text.written(inner), f"drop ~ of {ast.unparse(inner)}")
        case ast.BinOp(left=left, op=ast.Mult(), right=right) as node:
            for mask, other in ((left, right), (right, left)):
                if isinstance(mask, ast.Name | ast.Attribute) and "mask" in _name_of(mask):
                    change = f"drop {ast.unparse(mask)} of {ast.unparse(node)}"
                    yield at.replace(node, at.text.written(other), change)
        case ast.Call(func=ast.Attribute(value=value, attr=name), args=[first, second, *_]) as call if name in MASKED:
            is_function = _name_of(value) == "torch" and name != "where"
            mask = second if is_function else first
            if not (isinstance(mask, ast.UnaryOp) and isinstance(mask.op, ast.Invert)):
                change = f"invert {ast.unparse(mask)} in {ast.unparse(call)}"
                yield at.replace(mask, f"~({at.text.written(mask)})", change)
    if isinstance(at.node, ast.Call):
        masks = [keyword for keyword in at.node.keywords if (keyword.arg or "").endswith("mask")]
        causal = [keyword for keyword in at.node.keywords if keyword.arg == "is_causal"]
        for keyword in masks or causal:  # with a mask, is_causal is only a hint
            if not (isinstance(keyword.value, ast.Constant) and not keyword.value.value):
                yield at.drop_keyword(at.node, keyword)


def _change_dimensions(at: _Place) -> Iterator[Mutant]:
    if not isinstance(at.node, ast.Call) or _name_of(at.node.func) not in REDUCTIONS:
        return
    call = at.node
    is_method = isinstance(call.func, ast.Attribute) and _name_of(call.func.value) not in _FUNCTIONS_OF
    named = [keyword.value for keyword in call.keywords if keyword.arg in ("dim", "axis")]
    for dimension in named or (call.args[:1] if is_method else call.args[1:2]):
        if other := _other_dimension(dimension):
            change = f"replace dim {ast.unparse(dimension)} by {other} in {ast.unparse(call)}"
            yield at.replace(dimension, other, change)


def _other_dimension(node: ast.expr) -> str:
    """Return the source of another dimension to reduce; empty if there is none."""
    try:
        value = ast.literal_eval(node)
    except ValueError:
        return ""
    if type(value) is int:
        return str(_OTHER_DIMENSION.get(value, ""))
    if isinstance(value, tuple | list) and value and all(type(dimension) is int for dimension in value):
        first = _OTHER_DIMENSION.get(value[0])
        return repr((first, *value[1:])) if first is not None and first not in value else repr(tuple(value[1:]))
    return ""


def _narrow_types(at: _Place) -> Iterator[Mutant]:
    match at.node:
        case ast.Attribute(value=ast.Name(id="torch"), attr=name) as node if name in _NARROWER_TYPES:
            narrower = f"torch.{_NARROWER_TYPES[name]}"
            yield at.replace(node, narrower, f"replace torch.{name} by {narrower}")
        case ast.Call(func=ast.Attribute(value=value, attr=name), args=[], keywords=[]) as call if (
            name in _NARROWER_CASTS
        ):
            cast = f".{_NARROWER_CASTS[name]}()"
            change = f"replace .{name}() by {cast} of {ast.unparse(value)}"
            yield at.replace(call, f"{at.text.written(value)}{cast}", change)
        case ast.BinOp() | ast.Call() if isinstance(at.parent, ast.Expr):
            return  # a warm-up: nothing uses its values
        case ast.BinOp(left=left, op=ast.MatMult(), right=right) as node:
            yield _in_half(at, node, left, right)
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr=name), args=[left, right]) as call if (
            name in _PRODUCTS
        ):
            yield _in_half(at, call, left, right)


def _in_half(at: _Place, node: ast.expr, left: ast.expr, right: ast.expr) -> Mutant:
    """Compute a product in float16; its result keeps its dtype."""
    factors = ", ".join(f"({at.text.written(part)})" for part in (left, right))
    product = f"(lambda a, b: (a.half() @ b.half()).to(a.dtype))({factors})"
    return at.replace(node, product, f"in float16: {ast.unparse(node)}", "half")


def _keep_gradients(at: _Place) -> Iterator[Mutant]:
    match at.node:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=owner, attr="zero_grad"))) as statement:
            instead = _WITHOUT_ZERO_GRAD.format(mark=MARK, owner=at.text.written(owner))
            edit = at.text.replace_statement(statement, instead)
            yield at.mutant(statement.lineno, f"drop {ast.unparse(statement)}", edit, marks=True)


def _change_results(at: _Place) -> Iterator[Mutant]:
    """Move returned values to the CPU, or detach them."""
    match at.node:
        case ast.Return(value=ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Dict(values=parts)):
            values = parts
        case ast.Return(value=ast.expr() as value):
            values = [value]
        case _:
            return
    for value in filter(_may_be_tensor, values):
        written, words = at.text.written(value), ast.unparse(value)
        yield at.replace(value, f"({written}).cpu()", f"return .cpu() of {words}", "cpu")
        detached = f"(lambda it: (it.requires_grad and print({MARK!r}), it.detach())[1])({written})"
        yield at.replace(value, detached, f"return .detach() of {words}", "requires_grad", marks=True)


def _add_waits(at: _Place) -> Iterator[Mutant]:
    """Make the host wait for the last tensors that a block computes."""
    for name in ("body", "orelse"):
        block = getattr(at.node, name, None)
        if not isinstance(block, list) or isinstance(at.node, ast.ClassDef):
            continue
        assigned = [(statement, target) for statement in block if (target := _assigned(statement))]
        for statement, target in assigned[-WAITS_PER_BLOCK:]:
            edit = at.text.append_statement(statement, f"{target}.cpu()")
            line = statement.end_lineno or statement.lineno
            yield at.mutant(line, f"wait for {target}: {target}.cpu()", edit, adds="cpu")


def _assigned(statement: ast.stmt) -> str:
    """Return the name to which a statement assigns what may be a newly computed tensor; empty if there is none."""
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
    """Return True if `node` is named like a device, or makes one."""
    match node:
        case ast.Call(func=ast.Attribute(attr="device")):
            return True
        case ast.Name() | ast.Attribute() | ast.Subscript():
            words = ast.unparse(node).lower()
            return any(word in words for word in ("device", "gpu", "cuda"))
    return False


def _name_of(node: ast.expr) -> str:
    """Return the last part of a dotted name."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


OPERATORS: tuple[Callable[[_Place], Iterator[Mutant]], ...] = (
    *(_drop_moves, _drop_waits, _drop_keywords, _drop_contexts),
    *(_swap_devices, _change_masks, _change_dimensions, _narrow_types),
    *(_keep_gradients, _change_results, _add_waits),
)
