"""Python source text: tokens for colors, brackets, indentation."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pygments.lexers.python import PythonLexer

Span = tuple[int, int, str]
"""First column, column after the last, kind."""

KINDS = ("keyword", "string", "comment", "number", "function", "builtin", "decorator")

_TRIPLE = re.compile(r'"""|\'\'\'')


def python_spans(lines: list[str]) -> list[tuple[Span, ...]]:
    """Return the colored spans of every line.

    The text is cut at unindented lines into blocks whose spans are cached. So a key stroke costs one block, 0.3 ms for
    a function of 20 lines, and not the file.
    """
    return [spans for block in _blocks(lines) for spans in _block_spans("\n".join(block))]


def _blocks(lines: list[str]) -> list[list[str]]:
    blocks: list[list[str]] = []
    in_string = False
    for line in lines:
        if not blocks or (line[:1].strip() and not in_string):
            blocks.append([])
        blocks[-1].append(line)
        in_string ^= len(_TRIPLE.findall(line)) % 2 == 1
    return blocks


@lru_cache(maxsize=512)
def _block_spans(block: str) -> tuple[tuple[Span, ...], ...]:
    lines: list[list[Span]] = [[] for _ in range(block.count("\n") + 1)]
    row = column = 0
    for _, token, text in _lexer().get_tokens_unprocessed(block):
        kind = _kind(str(token))
        for part in re.split("(\n)", text):
            if part == "\n":
                row, column = row + 1, 0
                continue
            if kind and part and row < len(lines):
                lines[row].append((column, column + len(part), kind))
            column += len(part)
    return tuple(tuple(line) for line in lines)


@cache
def _lexer() -> PythonLexer:
    from pygments.lexers.python import PythonLexer  # 12 ms: not before the first paint

    return PythonLexer(stripnl=False, ensurenl=False)


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


Location = tuple[int, int]
"""Row and column, from 0."""


class TextPositions:
    """Conversion of offsets in a text to rows and columns, and back."""

    def __init__(self, text: str) -> None:
        self._starts = [0, *(match.end() for match in re.finditer("\n", text))]

    def location(self, offset: int) -> Location:
        row = bisect_right(self._starts, offset) - 1
        return row, offset - self._starts[row]

    def offset(self, location: Location) -> int:
        return self._starts[location[0]] + location[1]


PARTNERS = {")": "(", "]": "[", "}": "{"}
_BRACKET = re.compile(r"[()\[\]{}]")
_STATEMENT = re.compile(
    r"\s*((?:async\s+)?def|class|return|import|while|try|raise|pass|break|continue|assert|del|global|nonlocal)\b"
)
"""Keywords that start a statement, never a line inside brackets: an open bracket before it has no partner."""


@dataclass
class Brackets:
    """Brackets of a text, except in strings and comments."""

    partners: dict[Location, Location] = field(default_factory=dict)
    """Partner of each bracket, in both directions."""
    unclosed: set[Location] = field(default_factory=set)
    unopened: set[Location] = field(default_factory=set)
    still_open: list[Location] = field(default_factory=list)
    """Brackets that are open at the end of the text, the outermost first; part of `unclosed`."""


def find_brackets(lines: Sequence[str], spans: Sequence[Sequence[Span]]) -> Brackets:
    """Find the partner of every bracket. Lines are cached: 0.3 ms for 200 lines with a new one."""
    result = Brackets()
    open_: list[tuple[str, Location]] = []
    for row, (line, colored) in enumerate(zip(lines, spans, strict=True)):
        begins, in_line = _of_line(line, tuple(colored))
        if begins and open_:
            result.unclosed.update(location for _, location in open_)
            open_.clear()
        for column, bracket in in_line:
            if bracket not in PARTNERS:
                open_.append((bracket, (row, column)))
                continue
            # A closing bracket skips open ones of another kind, which then have no partner.
            if all(kind != PARTNERS[bracket] for kind, _ in open_):
                result.unopened.add((row, column))
                continue
            while open_:
                kind, location = open_.pop()
                if kind == PARTNERS[bracket]:
                    result.partners[location], result.partners[row, column] = (row, column), location
                    break
                result.unclosed.add(location)
    result.still_open = [location for _, location in open_]
    result.unclosed.update(result.still_open)
    return result


@lru_cache(maxsize=4096)
def _of_line(line: str, spans: tuple[Span, ...]) -> tuple[bool, tuple[tuple[int, str], ...]]:
    """Return True if a statement starts the line, and (column, bracket) except in strings and comments."""
    statement = _STATEMENT.match(line)
    begins = statement is not None and not _in_text(spans, statement.start(1))
    brackets = ((match.start(), match[0]) for match in _BRACKET.finditer(line))
    return begins, tuple((column, bracket) for column, bracket in brackets if not _in_text(spans, column))


def _in_text(spans: Sequence[Span], column: int) -> bool:
    """Return True if the character is part of a string or a comment."""
    return any(start <= column < end and kind in ("string", "comment") for start, end, kind in spans)


Change = Callable[[list[str]], list[str]]

STEP = " " * 4
_LEAVES_BLOCK = ("return", "pass", "raise", "break", "continue")
_CLAUSE = re.compile(r" *(else *|finally *|(?:elif|except)\b.*):")
_CONTINUES = {
    "else": ("if", "elif", "for", "while", "except"),
    "elif": ("if", "elif"),
    "except": ("try", "except"),
    "finally": ("try", "except", "else"),
}
"""First words of the blocks that each clause can follow."""
_LEADING_TABS = re.compile(r"(?:^|(?<=[\r\n]))[ \t]*\t[ \t]*")


def indent_of(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def after_line(before_cursor: str, above: Sequence[str] = ()) -> str:
    """Return the indentation of a new line after `before_cursor`, which follows the lines `above`."""
    lines = [*above, before_cursor]
    row = len(above)
    spans = python_spans(lines)
    indent = indent_of(before_cursor)
    if sum(len(_TRIPLE.findall(line)) for line in lines) % 2:
        return indent
    brackets = find_brackets(lines, spans)
    code = _without_comment(before_cursor, spans[row]).rstrip()
    if brackets.still_open:
        opened_in, column = brackets.still_open[-1]
        if opened_in != row:
            return indent
        return indent + STEP if column == len(code) - 1 else " " * (column + 1)
    first = _statement_start(lines, brackets)
    if code.endswith("\\"):
        return indent + STEP if first == row else indent
    indent = indent_of(lines[first])
    if code.endswith(":"):
        return indent + STEP
    if _first_word(lines[first]) in _LEAVES_BLOCK and not code.endswith(","):
        return indent.removesuffix(STEP)
    return indent


def _statement_start(lines: Sequence[str], brackets: Brackets) -> int:
    first = len(lines) - 1
    while True:
        opening = [partner[0] for place, partner in brackets.partners.items() if place[0] == first and partner < place]
        earlier = min(opening, default=first)
        if earlier == first and first and lines[first - 1].rstrip().endswith("\\"):
            earlier = first - 1
        if earlier == first:
            return first
        first = earlier


def closing_dedented(above: Sequence[str], line: str, bracket: str) -> str:
    """Return the blank `line` with a closing bracket, indented as the opening line if that ends in its bracket."""
    brackets = find_brackets([*above, ""], python_spans([*above, ""]))
    if line.strip() or not brackets.still_open:
        return line + bracket
    row, column = brackets.still_open[-1]
    opened = above[row]
    code = _without_comment(opened, python_spans([opened])[0]).rstrip()
    if opened[column] != PARTNERS[bracket] or column != len(code) - 1:
        return line + bracket
    return indent_of(opened) + bracket


def _without_comment(line: str, spans: Sequence[Span]) -> str:
    return line[: next((start for start, _, kind in spans if kind == "comment"), len(line))]


def indented(lines: list[str]) -> list[str]:
    return [STEP + line if line.strip() else line for line in lines]


def shifted_left(lines: list[str]) -> list[str]:
    """Remove up to four columns of each line's indentation, as Vim's `<` does."""
    return [line[min(len(STEP), len(indent_of(line))) :] for line in lines]


def dedented(lines: list[str]) -> list[str]:
    """Move each line back to the previous multiple of four columns."""
    return [line[len(indent) - column_before(indent) :] if (indent := indent_of(line)) else line for line in lines]


def comment_toggled(lines: list[str]) -> list[str]:
    """Comment all lines out at their common indentation; if all are comments already, uncomment them."""
    filled = [line for line in lines if line.strip()]
    if not filled:
        return lines
    if all(line.lstrip().startswith("#") for line in filled):
        return [_uncommented(line) for line in lines]
    depth = min(len(indent_of(line)) for line in filled)
    return [f"{line[:depth]}# {line[depth:]}" if line.strip() else line for line in lines]


def _uncommented(line: str) -> str:
    indent = indent_of(line)
    rest = line[len(indent) :].removeprefix("#")
    return indent + rest.removeprefix(" ") if rest.strip() else indent.rstrip()


def column_before(before_cursor: str) -> int:
    """Return the column that Backspace goes to: within the indentation the previous multiple of four."""
    column = len(before_cursor)
    if column and not before_cursor.strip(" "):
        return (column - 1) // len(STEP) * len(STEP)
    return max(0, column - 1)


def clause_dedented(above: Sequence[str], line: str) -> str:
    """Return `line`, one level less deep if it is a clause, such as `else:`, at the depth of the body before it.

    The line stays as it is if the header of the body cannot be followed by such a clause.
    """
    clause = _CLAUSE.fullmatch(line)
    body = [earlier for earlier in above if earlier.strip() and not earlier.lstrip().startswith("#")]
    indent = indent_of(line)
    if clause is None or not indent or not body or len(indent_of(body[-1])) < len(indent) or _is_open(line):
        return line
    headers = _CONTINUES[_first_word(line)]
    for earlier in reversed(body):
        depth = indent_of(earlier)
        if len(depth) < len(indent):
            return depth + line.lstrip() if _first_word(earlier) in headers else line
        if len(depth) == len(indent) and _first_word(earlier) in headers:
            return line
    return line


def _first_word(line: str) -> str:
    word = re.match(r"\s*(?:async\s+)?(\w*)", line)
    return word[1] if word else ""


def _is_open(line: str) -> bool:
    """Return True if a bracket or a string is open at the end of the line.

    If so, the last colon of the line does not belong to a clause.
    """
    brackets = sum(line.count(opening) - line.count(closing) for opening, closing in ("()", "[]", "{}"))
    return brackets != 0 or line.count('"') % 2 == 1 or line.count("'") % 2 == 1


def without_leading_tabs(text: str) -> str:
    """Replace each tab at the start of a line by four spaces."""
    return _LEADING_TABS.sub(lambda blank: blank[0].replace("\t", STEP), text)
