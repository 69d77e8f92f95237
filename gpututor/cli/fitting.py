"""Lines made to fit the terminal that they are printed on; what is not printed on a terminal stays as it is."""

from __future__ import annotations

import shutil
import sys
import textwrap

_LEAST = 20
"""On fewer columns the terminal may break words."""


def columns(most: int | None = None) -> int | None:
    """How many columns to use, and not more than `most`; `most` itself where stdout is no terminal."""
    if not sys.stdout.isatty():
        return most
    width = max(_LEAST, shutil.get_terminal_size().columns)
    return width if most is None else min(width, most)


def fitting(text: str, hang: int = 2) -> str:
    """`text` with each line broken between words to the terminal's width; what follows a break is indented by `hang`.

    Words longer than a line, such as paths, stay whole.
    """
    width = columns()
    if width is None:
        return text
    return "\n".join(_broken(line, width, hang) for line in text.split("\n"))


def _broken(line: str, width: int, hang: int) -> str:
    if len(line) <= width:
        return line
    return "\n".join(
        textwrap.wrap(line, width, subsequent_indent=" " * hang, break_long_words=False, break_on_hyphens=False)
    )
