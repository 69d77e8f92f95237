"""Docstrings start with a verb or a noun phrase: see docs/dev/style.md."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.support import ROOT
from tests.support.sources import python_files

FORBIDDEN = re.compile(r"(What|Whether|Which|How|Where|Those|Of|For|As|By|One|Its|See|Such)\b")
TITLES = re.compile(r"(Where is everything|One thousand norms|One big copy): ")
"""Exercises' titles, with which their files begin."""


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield line and text of each string statement: docstrings of modules, classes, functions and fields."""
    for node in ast.walk(tree):
        for statement in getattr(node, "body", None) or () if not isinstance(node, ast.Lambda | ast.IfExp) else ():
            match statement:
                case ast.Expr(ast.Constant(str() as text)):
                    yield statement.lineno, text.strip()


def test_no_docstring_starts_with_a_question_word_or_a_preposition() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {text[:60]}"
        for path in python_files()
        for line, text in docstrings(ast.parse(path.read_text(encoding="utf-8")))
        if FORBIDDEN.match(text) and not TITLES.match(text)
    ]
    assert wrong == []
