"""Tokens of a submission for comparisons, and its own words. Files with syntax errors work as well."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Iterator
from itertools import pairwise

MOST_CHARACTERS = 100_000
"""Characters of a file that are compared."""

_TOKEN = re.compile(
    r"""
      (?P<comment> \#[^\n]* )
    | (?P<nothing> \s+ | \\\r?\n )
    | (?P<text> [rRbBuUfF]{0,2} (?:
          \"{3} (?: [^\\] | \\. )*? (?: \"{3} | \\?\Z )
        | '{3}  (?: [^\\] | \\. )*? (?: '{3}  | \\?\Z )
        | \" (?: [^"\\\n] | \\. )* "?
        | '  (?: [^'\\\n] | \\. )* '? ) )
    | (?P<number> \.?\d [\w.]* )
    | (?P<name> [^\W\d]\w* )
    | (?P<sign> \*\*= | //= | >>= | <<= | \.\.\. | [-+*/%@&|^:=!<>]= | \*\* | // | << | >> | -> | . )
    """,
    re.VERBOSE | re.DOTALL,
)
_KEYWORDS = frozenset(keyword.kwlist)
_IMPORT = re.compile(r"^[ \t]*(?:from|import)\b[^\n]*", re.MULTILINE)
_NAME = re.compile(r"[^\W\d]\w*")
_WORD = re.compile(r"[^\W\d_]+")
_NAMES_OF_PYTHON = _KEYWORDS | frozenset(dir(builtins)) | {"self", "cls"}
_LEAST_LETTERS = 3
"""Letters of a name that is a word: `i`, `np` and `x12` say nothing. `row_1` and `row_2` are the same word."""


def tokens_of(text: str) -> Iterator[str]:
    """Yield tokens; own names, numbers and strings are all equal. Names after a dot stay: most are a library's."""
    before = ""
    for match in _TOKEN.finditer(text, 0, MOST_CHARACTERS):
        match match.lastgroup:
            case "nothing" | "comment":
                continue
            case "text":
                token = "''"
            case "number":
                token = "0"
            case "name":
                word = match[0]
                token = word if before == "." or word in _KEYWORDS else "name"
            case _:
                token = match[0]
        yield token
        before = token


def words_of(text: str) -> frozenset[str]:
    """Return own names, and pairs of neighboring words in comments and strings: `total_so_far`, `never mind`.

    Names of Python and of imports are left out, names after a dot, and those of keyword arguments.
    """
    text = text[:MOST_CHARACTERS]
    words = set[str]()
    foreign = {name for line in _IMPORT.findall(text) for name in _NAME.findall(line)} | _NAMES_OF_PYTHON
    tokens = [match for match in _TOKEN.finditer(text) if match.lastgroup != "nothing"]
    depth, before = 0, ""
    for position, match in enumerate(tokens):
        token = match[0]
        match match.lastgroup:
            case "comment" | "text":
                words.update(map(" ".join, pairwise(_WORD.findall(token.lower()))))
            case "name":
                after = tokens[position + 1][0] if position + 1 < len(tokens) else ""
                is_keyword_argument = depth > 0 and after == "="
                stem = token.rstrip("_0123456789")
                if before != "." and not is_keyword_argument and len(stem) >= _LEAST_LETTERS and token not in foreign:
                    words.add(stem)
            case _:
                depth += (token in "([{") - (token in ")]}")
        before = token
    return frozenset(words)
