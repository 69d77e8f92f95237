"""Plain text of other people in Markdown: escaped, in code spans, and in blocks that it cannot end."""

from __future__ import annotations

import re

from gpututor.text import escape_control_chars

_PUNCTUATION = re.compile(
    r"[\\`*\[\]<>|~&$#@]"
    r"|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])"  # an underscore between letters is not markup
    r"|(?<=:)/(?=/)|(?<=www)\."  # some readers make links of these
)


def text(words: str) -> str:
    """Escape plain text as one line of Markdown."""
    return _PUNCTUATION.sub(r"\\\g<0>", " ".join(escape_control_chars(words).split()))


def code(words: str) -> str:
    """Put plain text in a code span that its backticks cannot end."""
    line = " ".join(escape_control_chars(words).split())
    ticks = "`" * (_longest(line) + 1)
    space = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{ticks}{space}{line}{space}{ticks}" if line else "` `"


def fenced(block: str) -> str:
    """Put escaped plain text in a block that it cannot end."""
    ticks = "`" * max(_longest(block) + 1, 3)
    return f"{ticks}text\n{block}\n{ticks}"


def _longest(words: str) -> int:
    """Return the length of the longest run of backticks."""
    return max(map(len, re.findall("`+", words)), default=0)
