"""Lines of a trace in words, beside the learner's text. No Textual and no NumPy here."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpututor.plain_text import visible

if TYPE_CHECKING:
    from gpututor.app.widgets.device.view import RunView
    from gpututor.trace.rows import Place


def is_of(place: Place, file_name: str) -> bool:
    """Whether it is a line of the learner's file."""
    return place.line is not None and re.split(r"[/\\]", place.file)[-1] == file_name


def line_of(place: Place, file_name: str) -> int | None:
    """The line of the learner's file; None where it is none of its lines."""
    return place.line if is_of(place, file_name) else None


def place_words(place: Place, file_name: str) -> str:
    """`line 14`; `given.py:3` for another file; `no line of yours`."""
    if place.line is None:
        return "no line of yours"
    return f"line {place.line}" if is_of(place, file_name) else visible(str(place))


def code_at(view: RunView, place: Place) -> str:
    """The text of the line, without its indent; empty where it is not known."""
    return code(view.source_line(line_of(place, view.file_name)).strip())


def code(line: str) -> str:
    """A line of somebody's program, safe to show."""
    return visible(line.expandtabs(4))
