"""Changes of a Python text at places of its syntax tree; the lines of all that stays keep their numbers."""

from __future__ import annotations

import ast
import itertools
from dataclasses import dataclass

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
