"""Themes, the terminal's sixteen colors, and NO_COLOR.

Text has a contrast of at least 4.5:1 on what it stands on, in `contrast` 7:1; a test measures it on every screen.
"""

from __future__ import annotations

from functools import lru_cache

from rich.color import Color as RichColour
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.filter import LineFilter
from textual.theme import Theme

CHOSEN = "bold $text on $primary-muted"
"""How what is chosen stands out in a line of text."""

NIGHT = Theme(
    name="night",
    primary="#6ea8dc",
    secondary="#8f9fd8",
    accent="#7fc4b3",
    success="#84b870",
    warning="#d9b06a",
    error="#dd7d7d",
    foreground="#d6dae0",
    background="#14171c",
    surface="#1b1f26",
    panel="#20252d",
    dark=True,
    variables={
        "foreground-muted": "#a2aab5",
        "text-muted": "#a4abb6",
        "text-disabled": "#8b93a0",
        "primary-muted": "#273a50",
        "block-cursor-blurred-background": "#273a50",
    },
)

DAY = Theme(
    name="day",
    primary="#2f6fab",
    secondary="#5a63b0",
    accent="#1f7a68",
    success="#3f7d2c",
    warning="#8a6100",
    error="#b23a3a",
    foreground="#23282f",
    background="#fbfaf7",
    surface="#f1f0ec",
    panel="#e8e7e2",
    dark=False,
    variables={
        "foreground-muted": "#595f68",
        "text-muted": "#565c65",
        "text-disabled": "#626973",
        "primary-muted": "#c9dcee",
        "block-cursor-blurred-background": "#e3eef8",
        "panel-lighten-2": "#b9bac0",
        "input-cursor-background": "#23282f",
        "input-cursor-foreground": "#fbfaf7",
        "text": "#1d2127",
    },
)

CONTRAST = Theme(
    name="contrast",
    primary="#5cc8ff",
    secondary="#b3b8ff",
    accent="#5ff0d0",
    success="#7dff7d",
    warning="#ffd75f",
    error="#ff8f8f",
    foreground="#ffffff",
    background="#000000",
    surface="#000000",
    panel="#1c1c1c",
    dark=True,
    variables={
        "foreground-muted": "#e0e0e0",
        "text-muted": "#e0e0e0",
        "text-disabled": "#c8c8c8",
        "text": "#ffffff",
        "primary-muted": "#00304f",
        "block-cursor-blurred-background": "#00253d",
        "panel-lighten-2": "#9a9a9a",
    },
)

TERMINAL = Theme(
    name="terminal",
    ansi=True,
    primary="ansi_blue",
    secondary="ansi_magenta",
    accent="ansi_cyan",
    success="ansi_green",
    warning="ansi_yellow",
    error="ansi_red",
    foreground="ansi_default",
    background="ansi_default",
    surface="ansi_default",
    panel="ansi_default",
    boost="ansi_default",
    dark=True,
    variables={
        "ansi-background": "ansi_default",
        "ansi-foreground": "ansi_default",
        "text": "ansi_default",
        "text-muted": "ansi_default",
        "text-disabled": "ansi_default",
        "foreground-muted": "ansi_default",
        "primary-muted": "ansi_blue",
        "panel-lighten-2": "ansi_bright_black",
        "block-cursor-foreground": "ansi_default",
        "block-cursor-background": "ansi_blue",
        "markdown-h1-color": "ansi_blue",
        "markdown-h2-color": "ansi_cyan",
    },
)

WITHOUT_COLOURS = Theme(
    name="without colours",
    primary="#ffffff",
    foreground="#ffffff",
    background="#000000",
    surface="#000000",
    panel="#000000",
    dark=True,
    variables={
        **dict.fromkeys(("foreground-muted", "text-muted", "text-disabled", "panel-lighten-2"), "#949494"),
        **dict.fromkeys(("text", "primary-muted", "block-cursor-blurred-background"), "#ffffff"),
        **dict.fromkeys(("input-selection-background", "screen-selection-background"), "#ffffff"),
    },
)
"""Black, white and grey, for `without_colours` to make the terminal's own, reversed and dim of them."""

OWN = (NIGHT, DAY, TERMINAL, CONTRAST)
"""Those that can be chosen."""


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


_BLUE = 4
"""What the theme `terminal` puts behind what is chosen."""


class ReverseSelection(LineFilter):
    """Text on blue loses its colours and is reversed, whatever it says."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The segments without any background of blue."""
        return [Segment(text, _reversed(style) if style else None, control) for text, style, control in segments]


@lru_cache(1024)
def _reversed(style: Style) -> Style:
    if style.reverse or style.bgcolor is None or style.bgcolor.number != _BLUE:
        return style
    return style.without_color + Style(reverse=True, dim=False, meta=style.meta or None)
