"""Without colours: text and what is behind it are the terminal's own two; what stands out is bold, dim or reversed."""

from __future__ import annotations

from functools import lru_cache

from rich.color import Color as RichColour
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.filter import LineFilter

_BRIGHT = 0.18
"""A background of more light than this is drawn reversed. Below a dialog nothing is: all there is darkened."""
_PALE = 0.4
"""Text of less light than this is drawn dim."""
_DIM = Style(dim=True)


class WithoutColours(LineFilter):
    """Says by bold, dim and reverse what the theme `WITHOUT_COLOURS` says by white, grey and black.

    Textual's own filters send greys, which assume a dark terminal, or leave nothing of what is chosen.
    """

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The segments in the terminal's own two colours; applied to what it made, it changes nothing."""
        return [Segment(text, _plain(style) if style else None, control) for text, style, control in segments]


class Dim(LineFilter):
    """Draws everything dim."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The segments, and nothing that stands out."""
        return [Segment(text, _DIM if style else None, control) for text, style, control in segments]


@lru_cache(1024)
def _plain(style: Style) -> Style:
    text, background = _light(style.color, 1.0), _light(style.bgcolor, 0.0)
    if style.reverse:
        text, background = background, text
    reverse = background > _BRIGHT
    dim = not reverse and (bool(style.dim) or text < _PALE)
    return style.without_color + Style(reverse=reverse, dim=dim, meta=style.meta or None)


def _light(colour: RichColour | None, otherwise: float) -> float:
    """How much light a colour gives, from 0 to 1."""
    if colour is None or colour.is_default:
        return otherwise
    red, green, blue = ((part / 255) * (part / 255) for part in colour.get_truecolor())
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
