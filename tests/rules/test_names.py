"""Names say what a thing is: `one`, `found` and `told` fit everything; `lending` and `meetings` are riddles."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.support import ROOT
from tests.support.sources import python_files

EMPTY = {"face", "found", "lending", "meetings", "one", "sealed", "standing", "told"}


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


def uncapitalized(name: str) -> str:
    return name[:1].lower() + name[1:]


def test_no_name_is_empty() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in python_files()
        for line, name in names(ast.parse(path.read_text(encoding="utf-8")))
        if uncapitalized(name.strip("_")) in EMPTY
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
