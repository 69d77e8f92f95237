"""Names say what a thing is, and docstrings start with a verb or a noun phrase: see docs/dev/style.md."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from tests.hostile.members import FOLDER, KINDS
from tests.support import ROOT

TREES = ("benchmarks", "docs", "exercises", "gpututor", "tests", "tools")
EMPTY = {"face", "found", "lending", "meetings", "one", "sealed", "standing", "told"}
"""Names that fit everything, and riddles. In the package itself `each` is another."""


def python_files() -> list[Path]:
    """Return all Python files, except hostile submissions and their course."""
    submissions = {FOLDER / name for name in (*KINDS, "course")}
    files = chain.from_iterable((ROOT / name).rglob("*.py") for name in TREES)
    return sorted(path for path in files if submissions.isdisjoint(path.parents))


def names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield line and name of each variable, argument, attribute, function and class that a file defines."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name
            case ast.arg(arg=name) | ast.ClassDef(name=name):
                yield node.lineno, name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield node.lineno, name
            case ast.MatchAs(name=str() as name) | ast.MatchStar(name=str() as name):
                yield node.lineno, name


def test_no_name_is_empty() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in python_files()
        for line, name in names(ast.parse(path.read_text(encoding="utf-8")))
        if name.strip("_") in (*EMPTY, *map(str.capitalize, EMPTY))
        or (name == "each" and path.is_relative_to(ROOT / "gpututor"))
    ]
    assert wrong == []


def test_every_kind_of_name_is_examined() -> None:
    source = (
        "def one(found): told = [one for one in x]\nclass told: one: int\nmatch x:\n case [found, *one]: x.told = 1\n"
        "async def told(): pass"
    )
    assert sorted(names(ast.parse(source))) == [
        (1, "found"),
        (1, "one"),
        (1, "one"),
        (1, "told"),
        (2, "one"),
        (2, "told"),
        (4, "found"),
        (4, "one"),
        (4, "told"),
        (5, "told"),
    ]


FORBIDDEN = re.compile(r"(What|Whether|Which|How|Where|Those|Of|For|As|By|One|Its|See|Such|In|On|From|With|To|At)\b")
TITLES = re.compile(r"(Where is everything|One thousand norms|One big copy|To NumPy|In place): ")
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


MOST_WORDS = 12
"""Words of a test's name, after `test`."""


def test_names_of_tests_are_short_sentences() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in (ROOT / "tests").rglob("test_*.py")
        for line, name in names(ast.parse(path.read_text(encoding="utf-8")))
        if name.startswith("test_") and len(name.split("_")) > 1 + MOST_WORDS
    ]
    assert wrong == []
