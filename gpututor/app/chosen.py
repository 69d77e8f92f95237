"""In the terminal's own sixteen colours what is chosen is reversed: nobody knows which of them fit together."""

from __future__ import annotations

from functools import lru_cache

from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.filter import LineFilter

_BLUE = 4
"""What the theme `terminal` puts behind what is chosen."""


class ChosenReversed(LineFilter):
    """Text on blue loses its colours and is reversed, whatever it says."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The segments without any background of blue."""
        return [Segment(text, _reversed(style) if style else None, control) for text, style, control in segments]


@lru_cache(1024)
def _reversed(style: Style) -> Style:
    if style.reverse or style.bgcolor is None or style.bgcolor.number != _BLUE:
        return style
    return style.without_color + Style(reverse=True, dim=False, meta=style.meta or None)
