"""Rules for what learners read: how wide, how long, which links, which examples. Plain functions on text."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

COLUMNS = 80
CODE_COLUMNS = 74
"""What the app shows of a line of code, beside its frame, in a terminal of 80 columns."""
TASK_WORDS = (80, 200)
LESSON_WORDS = (500, 1200)
LESSON_HEADINGS = ("The trap", "See it in the trace", "Remember", "Read on")
LEAST_EXAMPLES = 3
UNWRITTEN = "a skeleton that gpututor new made"
"""Stands in each text of a skeleton until its author has written it."""

_LINK = re.compile(r"\]\(([^)\s]+)\)")
_INLINE_CODE = re.compile(r"`[^`]*`")
_MENTION = re.compile(r"\b(exercise|lesson)s? (\d+(?:\.\d+)?)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Line:
    """One line of a Markdown text, or of a file of Python."""

    number: int
    text: str
    is_code: bool
    """It stands in a fenced block, fences included, or in a file of Python."""


def lines_of(text: str) -> Iterator[Line]:
    """Each line, and whether it is in a fenced block."""
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        is_fence = line.startswith("```")
        yield Line(number, line, fenced or is_fence)
        fenced ^= is_fence


def code_lines_of(source: str) -> Iterator[Line]:
    """Each line of a file of Python."""
    for number, line in enumerate(source.splitlines(), 1):
        yield Line(number, line, is_code=True)


def too_wide(lines: Iterable[Line]) -> Iterator[tuple[int, int, int]]:
    """(line, its width, how wide it may be): code that the app would cut, prose too wide for a plain terminal."""
    for line in lines:
        most = CODE_COLUMNS if line.is_code else COLUMNS
        if len(line.text) > most:
            yield line.number, len(line.text), most


def links(text: str) -> Iterator[tuple[int, str]]:
    """(line, target) of each Markdown link outside of code."""
    for line in lines_of(text):
        if not line.is_code and not line.text.startswith("    "):
            for match in _LINK.finditer(_INLINE_CODE.sub("", line.text)):
                yield line.number, match[1]


def mentions(text: str) -> Iterator[tuple[int, str, str]]:
    """(line, `exercise` or `lesson`, number) of each other part of the course that is named by its number."""
    for line in lines_of(text):
        if not line.is_code:
            for match in _MENTION.finditer(line.text):
                yield line.number, match[1].lower(), match[2]


def anchors(text: str) -> set[str]:
    """What `#…` may follow a link to this text: its headings, lower-case, joined by hyphens."""
    headings = [line.text.lstrip("# ") for line in lines_of(text) if not line.is_code and line.text.startswith("#")]
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


def headings(text: str) -> tuple[str, ...]:
    """The `## …` headings."""
    return tuple(line.text[3:].strip() for line in lines_of(text) if not line.is_code and line.text.startswith("## "))


def examples(text: str) -> int:
    """How many blocks of Python there are."""
    return text.count("```python\n")


def statements(source: str) -> list[str]:
    """The lines of code in the functions of a solution, without headings, docstrings and what runs it as a script.

    Raises `SyntaxError`.
    """
    lines: dict[int, None] = {}
    for node in ast.parse(source).body:
        for function in ast.walk(node):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                for statement in function.body:
                    if not _is_text(statement):
                        lines.update(dict.fromkeys(range(statement.lineno, (statement.end_lineno or 0) + 1)))
    written = source.splitlines()
    return [written[number - 1].strip() for number in sorted(lines) if written[number - 1].strip()]


def arguments_of(source: str, entry: str) -> tuple[str, ...] | None:
    """The names of the arguments of the function `entry`, None where there is none. Raises `SyntaxError`."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and node.name == entry:
            given = node.args
            every = [*given.posonlyargs, *given.args, given.vararg, *given.kwonlyargs, given.kwarg]
            return tuple(argument.arg for argument in every if argument is not None)
    return None


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
