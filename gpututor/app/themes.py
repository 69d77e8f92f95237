"""Themes, the terminal's sixteen colors, and NO_COLOR.

Text has a contrast of at least 4.5:1 to its background (7:1 in `contrast`). A test measures it on every screen. The
themes of Textual get other shades to reach it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from rich.color import Color as RichColor
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

WITHOUT_COLORS = Theme(
    name="without colors",
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
"""Black, white and gray, which `without_colors` replaces by the terminal's own colors, reversed and dim."""

OWN = (NIGHT, DAY, TERMINAL, CONTRAST)
"""The app's own themes."""

_GROUNDS = ("background", "surface", "panel")
_PARTS = ("primary", "secondary", "accent", "success", "warning", "error")
"""Colors of a theme that are drawn as text, and that have a text color of their own."""
_LEAST = 4.6
"""Contrast of text in other themes. It is above 4.5, as colors are rounded."""


def offered(available: Mapping[str, Theme]) -> list[Theme]:
    """Return the themes to choose from, the app's own first. Textual's 16-color themes are left out: hard to read."""
    others = [theme for _, theme in sorted(available.items()) if theme not in OWN and not theme.ansi]
    return [*OWN, *others]


_readable: dict[str, Theme] = {}
"""Cache of `readable`, which takes some milliseconds, by the theme's name."""


def readable(theme: Theme) -> Theme:
    """Return the theme with texts moved toward black or white until they can be read; own themes are unchanged."""
    if theme in OWN or theme.ansi:
        return theme
    if theme.name not in _readable:
        _readable[theme.name] = _made_readable(theme)
    return _readable[theme.name]


def _made_readable(theme: Theme) -> Theme:
    colors = theme.to_color_system().generate()
    names = ("foreground", *_GROUNDS, *_PARTS, *map("text-{}".format, _PARTS))
    color = {name: Color.parse(colors[name]) for name in names}
    far = Color.parse("white" if theme.dark else "black")
    grounds = [color[name] for name in _GROUNDS]
    text = color["foreground"].blend(far, 0.5)
    shares = (0.3, 0.25, 0.2, 0.15, 0.1)
    tints = {name: [grounds[0].blend(color[name], share) for share in shares] for name in _PARTS}
    # Backgrounds of what is chosen or marked: as much color as leaves the text readable.
    muted = {name: next((tint for tint in tints[name] if contrast(text, tint) > 7), tints[name][-1]) for name in _PARTS}
    grounds.append(muted["primary"])
    grounds += [ground.blend(far, 0.05) for ground in grounds]  # Textual tints what has the focus

    def moved(start: Color, *others: Color) -> str:
        tones = (start.blend(far, step / 20) for step in range(21))
        return next(
            (tone for tone in tones if all(contrast(tone, on) >= _LEAST for on in (*grounds, *others))), far
        ).hex

    parts = {name: moved(color[name]) for name in _PARTS}
    texts = {f"text-{name}": moved(color[f"text-{name}"], muted[name]) for name in _PARTS}
    foreground = moved(color["foreground"], *muted.values())
    pale = moved(color["foreground"].blend(grounds[0], 0.3))
    variables = {
        **theme.variables,
        **texts,
        **{f"{name}-muted": tint.hex for name, tint in muted.items()},
        **dict.fromkeys(("text-muted", "text-disabled", "foreground-muted"), pale),
        **dict.fromkeys(("text", "input-cursor-background"), foreground),
        "block-cursor-background": parts["primary"],
        **dict.fromkeys(("block-cursor-blurred-background", "input-selection-background"), muted["primary"].hex),
        **dict.fromkeys(("block-cursor-foreground", "input-cursor-foreground"), grounds[0].hex),
        "block-cursor-blurred-foreground": foreground,
    }
    # Set the backgrounds too: otherwise the panel would follow the primary color.
    changes: dict[str, Any] = parts | {name: color[name].hex for name in _GROUNDS}
    return replace(theme, **changes, foreground=foreground, variables=variables)


def contrast(text: Color, ground: Color) -> float:
    """Return WCAG's contrast ratio."""
    darker, lighter = sorted(map(_luminance, (text, ground)))
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(color: Color) -> float:
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in color.normalized]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


_BRIGHT = 0.18
"""Least luminance of a background that is drawn reversed. Screens below a dialog are darker."""
_PALE = 0.4
"""Luminance of text below which it is drawn dim."""
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


def _light(color: RichColor | None, otherwise: float) -> float:
    if color is None or color.is_default:
        return otherwise
    red, green, blue = ((part / 255) * (part / 255) for part in color.get_truecolor())
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


_BLUE = 4
"""Background of the chosen part in the theme `terminal`."""


@lru_cache(1024)
def _reversed(style: Style) -> Style:
    if style.reverse or style.bgcolor is None or style.bgcolor.number != _BLUE:
        return style
    return style.without_color + Style(reverse=True, dim=False, meta=style.meta or None)


without_colors = StyleFilter(_plain)
"""Draws white, gray and black of the theme `WITHOUT_COLORS` as bold, dim and reverse.

Textual's own filters send grays, which assume a dark terminal, or remove the mark of what is chosen.
"""
dim = StyleFilter(lambda style: _DIM)
reverse_selection = StyleFilter(_reversed)
"""Reverses the selection in 16-color themes, where no color pair is known to be readable."""
