"""Docstrings start with a verb or a noun phrase: see docs/dev/style.md."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import chain

from tests.support import ROOT

CLEAN = ("checks", "devices/real", "docs", "fidelity", "rules", "trace")
"""Folders of tests that follow the rule, as the whole package does."""
FORBIDDEN = re.compile(r"(What|Whether|Which|How|Where|Those|Of|For|As|One|Its|See)\b")


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield line and text of each string statement: docstrings of modules, classes, functions and fields."""
    for node in ast.walk(tree):
        for statement in getattr(node, "body", None) or () if not isinstance(node, ast.Lambda | ast.IfExp) else ():
            match statement:
                case ast.Expr(ast.Constant(str() as text)):
                    yield statement.lineno, text.strip()


def test_no_docstring_starts_with_a_question_word_or_a_preposition() -> None:
    folders = [ROOT / "gpututor", *(ROOT / "tests" / name for name in CLEAN)]
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {text[:60]}"
        for path in sorted(chain.from_iterable(folder.rglob("*.py") for folder in folders))
        for line, text in docstrings(ast.parse(path.read_text(encoding="utf-8")))
        if FORBIDDEN.match(text)
    ]
    assert wrong == []
