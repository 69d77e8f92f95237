"""Themes, the terminal's sixteen colors, and NO_COLOR.

Text has a contrast of at least 4.5:1 to its background, in `contrast` 7:1; a test measures it on every screen.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from rich.color import Color as RichColour
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.filter import LineFilter
from textual.theme import Theme

CHOSEN = "bold $text on $primary-muted"
"""Style of the chosen part of a line."""

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
        **dict.fromkeys(("ansi-background", "ansi-foreground", "block-cursor-foreground"), "ansi_default"),
        **dict.fromkeys(("text", "text-muted", "text-disabled", "foreground-muted"), "ansi_default"),
        **dict.fromkeys(("primary-muted", "block-cursor-background"), "ansi_blue"),
        "panel-lighten-2": "ansi_bright_black",
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
"""Black, white and gray, which `without_colours` replaces by the terminal's own colors, reversed and dim."""

OWN = (NIGHT, DAY, TERMINAL, CONTRAST)
"""Themes that can be chosen."""


_BRIGHT = 0.18
"""Light of a background from which on it is drawn reversed. Screens below a dialog are darker."""
_PALE = 0.4
"""Light of text up to which it is drawn dim."""
_DIM = Style(dim=True)


class StyleFilter(LineFilter):
    """Filter that replaces each style."""

    def __init__(self, change: Callable[[Style], Style]) -> None:
        super().__init__()
        self._change = change

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [Segment(text, self._change(style) if style else None, control) for text, style, control in segments]


@lru_cache(1024)
def _plain(style: Style) -> Style:
    text, background = _light(style.color, 1.0), _light(style.bgcolor, 0.0)
    if style.reverse:
        text, background = background, text
    reverse = background > _BRIGHT
    dim = not reverse and (bool(style.dim) or text < _PALE)
    return style.without_color + Style(reverse=reverse, dim=dim, meta=style.meta or None)


def _light(colour: RichColour | None, otherwise: float) -> float:
    if colour is None or colour.is_default:
        return otherwise
    red, green, blue = ((part / 255) * (part / 255) for part in colour.get_truecolor())
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


_BLUE = 4
"""Background of the chosen part in the theme `terminal`."""


@lru_cache(1024)
def _reversed(style: Style) -> Style:
    if style.reverse or style.bgcolor is None or style.bgcolor.number != _BLUE:
        return style
    return style.without_color + Style(reverse=True, dim=False, meta=style.meta or None)


without_colours = StyleFilter(_plain)
"""Draws white, gray and black of the theme `WITHOUT_COLOURS` as bold, dim and reverse.

Textual's own filters send grays, which assume a dark terminal, or remove the mark of what is chosen.
"""
dim = StyleFilter(lambda style: _DIM)
reverse_selection = StyleFilter(_reversed)
"""Reverses the selection in 16-color themes, where no color pair is known to be readable."""
