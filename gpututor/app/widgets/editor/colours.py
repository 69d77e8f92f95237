"""Python colours for the editor, by Pygments: which characters of each line are of which kind."""

from __future__ import annotations

import re
from functools import lru_cache

Span = tuple[int, int, str]
"""First column, column after the last, kind."""

KINDS = ("keyword", "string", "comment", "number", "function", "builtin", "decorator")

_TRIPLE = re.compile(r'"""|\'\'\'')
_LEXER: list[object] = []


def python_spans(lines: list[str]) -> list[tuple[Span, ...]]:
    """The coloured spans of every line.

    The text is cut at unindented lines into blocks that are coloured each by itself and remembered, so that a key
    stroke costs one block (0.3 ms for a function of 20 lines) and not the file.
    """
    spans: list[tuple[Span, ...]] = []
    for block in _blocks(lines):
        spans.extend(_block_spans("\n".join(block)))
    return spans


def _blocks(lines: list[str]) -> list[list[str]]:
    blocks: list[list[str]] = []
    in_string = False
    for line in lines:
        starts_block = line[:1].strip() != "" and not in_string
        if starts_block or not blocks:
            blocks.append([])
        blocks[-1].append(line)
        if len(_TRIPLE.findall(line)) % 2:
            in_string = not in_string
    return blocks


@lru_cache(maxsize=512)
def _block_spans(block: str) -> tuple[tuple[Span, ...], ...]:
    lines: list[list[Span]] = [[] for _ in range(block.count("\n") + 1)]
    row = column = 0
    for kind, text in _tokens(block):
        for part in re.split("(\n)", text):
            if part == "\n":
                row, column = row + 1, 0
                continue
            if kind and part and row < len(lines):
                lines[row].append((column, column + len(part), kind))
            column += len(part)
    return tuple(tuple(line) for line in lines)


def _tokens(text: str) -> list[tuple[str, str]]:
    from pygments.lexers.python import PythonLexer  # 12 ms: not before the first paint

    if not _LEXER:
        _LEXER.append(PythonLexer(stripnl=False, ensurenl=False))
    lexer = _LEXER[0]
    assert isinstance(lexer, PythonLexer)
    return [(_kind(str(token)), value) for _, token, value in lexer.get_tokens_unprocessed(text)]


_PREFIXES = (
    ("Token.Keyword", "keyword"),
    ("Token.Operator.Word", "keyword"),
    ("Token.Literal.String", "string"),
    ("Token.Comment", "comment"),
    ("Token.Literal.Number", "number"),
    ("Token.Name.Function", "function"),
    ("Token.Name.Class", "function"),
    ("Token.Name.Builtin", "builtin"),
    ("Token.Name.Decorator", "decorator"),
)


@lru_cache(maxsize=256)
def _kind(token: str) -> str:
    return next((kind for prefix, kind in _PREFIXES if token.startswith(prefix)), "")
