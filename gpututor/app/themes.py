"""The app's own colours: dark, light, the terminal's own sixteen, and high contrast.

Text has a contrast of at least 4.5:1 on what it stands on, in `contrast` 7:1; a test measures it on every screen.
"""

from __future__ import annotations

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
