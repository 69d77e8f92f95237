"""Charts in characters: filled curves and bars. Lines of text, without colours; no NumPy here."""

from __future__ import annotations

from collections.abc import Sequence

_UPWARDS = " ▁▂▃▄▅▆▇█"
_SIDEWAYS = " ▏▎▍▌▋▊▉█"


def area(values: Sequence[float], top: float, height: int) -> list[str]:
    """A filled curve, one column a value: `height` lines, of which the first is the highest; `top` fills them all.

    What is above zero is seen: it fills an eighth of a line at least.
    """
    filled = [_eighths(value, top, height) for value in values]
    return [
        "".join(_UPWARDS[min(8, max(0, eighths - 8 * level))] for eighths in filled)
        for level in range(height - 1, -1, -1)
    ]


def bar(value: float, top: float, width: int) -> str:
    """A bar from the left, without spaces behind it; `top` fills `width`. What is above zero is seen."""
    eighths = _eighths(value, top, width)
    return "█" * (eighths // 8) + _SIDEWAYS[eighths % 8].strip()


def parts(shares: Sequence[float], width: int) -> list[int]:
    """How many of `width` columns each share takes, so that all are taken; shares are above 0 or 0, and add up to 1.

    What is above zero takes a column at least, as long as there is room.
    """
    if not any(shares) or width <= 0:
        return [0] * len(shares)
    exact = [share / sum(shares) * width for share in shares]
    taken = [max(1, int(columns)) if share > 0 else 0 for share, columns in zip(shares, exact, strict=True)]
    while sum(taken) > width and max(taken) > 0:
        taken[taken.index(max(taken))] -= 1
    while sum(taken) < width:
        short = max((at for at, share in enumerate(shares) if share > 0), key=lambda at: exact[at] - taken[at])
        taken[short] += 1
    return taken


def _eighths(value: float, top: float, cells: int) -> int:
    if value <= 0 or top <= 0:
        return 0
    return min(8 * cells, max(1, round(8 * cells * value / top)))
