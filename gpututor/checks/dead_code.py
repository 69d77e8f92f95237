"""Code that never runs, as far as a syntax tree tells."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

_BY_TORCH = frozenset({"forward", "backward", "setup_context", "step"})
"""Methods that PyTorch calls of a class that is used."""


def parts_that_run(statements: Sequence[ast.stmt]) -> Iterator[tuple[ast.stmt, bool]]:
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
