"""Texts of other people, made safe to print on a terminal."""

from __future__ import annotations

import re

_UNSAFE = re.compile(
    "["
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls, but for tab and newline
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # marks that turn the direction of writing
    "\u2028\u2029"  # separators that terminals disagree on
    "\ud800-\udfff"  # halves of surrogate pairs, which cannot be encoded
    "]"
)


def escape_control_chars(text: str) -> str:
    """Return `text` with escapes for characters that control a terminal or deceive a reader: ESC becomes `\\x1b`.

    Newline and tab stay. Escaped are other control characters, marks that change the direction of writing, line
    separators other than newline, and halves of surrogate pairs.
    """
    return _UNSAFE.sub(lambda match: _escape(ord(match[0])), text)


def is_line(text: str) -> bool:
    """Return True for one line of text without characters that `escape_control_chars` escapes."""
    return "\n" not in text and "\t" not in text and not _UNSAFE.search(text)


def with_newlines(text: str) -> str:
    """Return `text` with a newline for each `\\r` and `\\r\\n`, the other line ends of Python programs."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def lines_of(text: str) -> list[str]:
    """Return the lines of a program as Python counts them; `str.splitlines` also splits at form feeds and others."""
    return with_newlines(text).split("\n")


def truncate(text: str, most: int) -> str:
    """Return `text`, or its beginning with an ellipsis: at most `most` characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _escape(code: int) -> str:
    if code == 0x0D:
        return "\\r"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
