"""What is left of a Python file when names, literals, comments and blank space no longer tell one from another.

Winnowing, by Schleimer, Wilkerson and Aiken (2003): a file is known by some of the hashes of its k-grams of tokens,
such that what two files have in common over `K + WINDOW - 1` tokens is always noticed. It works as well for a file
that Python itself cannot read.
"""

from __future__ import annotations

import keyword
import re
import zlib
from collections.abc import Collection, Iterator, Sequence

K = 10
"""Tokens of one k-gram: a line, or a little more."""
WINDOW = 4
"""Of so many k-grams in a row one is kept."""
MOST_CHARACTERS = 100_000
"""Of a file that are looked at; nobody types more."""

_TOKEN = re.compile(
    r"""
      (?P<nothing> \s+ | \\\r?\n | \#[^\n]* )
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
_BASE, _MODULUS = 1_000_003, (1 << 61) - 1


def tokens_of(text: str) -> Iterator[str]:
    """`text` as normalised tokens: its own names are all one, so are its numbers, and its texts.

    A name after a dot stays, as it is mostly a library's: `torch.zeros` and `torch.ones` are not the same.
    """
    before = ""
    for match in _TOKEN.finditer(text, 0, MOST_CHARACTERS):
        match match.lastgroup:
            case "nothing":
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


def hashes_of(text: str) -> list[int]:
    """Of all k-grams, in their order; the same on every machine."""
    numbers = [zlib.crc32(token.encode("utf-8", "surrogatepass")) + 1 for token in tokens_of(text)]
    if len(numbers) < K:
        return []
    highest = pow(_BASE, K - 1, _MODULUS)
    value = 0
    for number in numbers[:K]:
        value = (value * _BASE + number) % _MODULUS
    hashes = [value]
    for gone, number in zip(numbers, numbers[K:], strict=False):
        value = ((value - gone * highest) * _BASE + number) % _MODULUS
        hashes.append(value)
    return hashes


def winnowed(hashes: Sequence[int]) -> frozenset[int]:
    """The least of each window: what a file is known by."""
    if len(hashes) < WINDOW:
        return frozenset(hashes and [min(hashes)])
    return frozenset(map(min, *(hashes[start:] for start in range(WINDOW))))


def fingerprints(text: str, template: Collection[int] = ()) -> frozenset[int]:
    """What `text` is known by, beside the k-grams of the template."""
    return winnowed([value for value in hashes_of(text) if value not in template])
