"""Which line of a learner's file a finding points at, where nothing that ran tells it."""

from __future__ import annotations

import ast


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
