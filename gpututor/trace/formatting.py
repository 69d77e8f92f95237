"""Numbers with units, and bars and area charts of characters."""

from __future__ import annotations

from collections.abc import Sequence

_SIZES = (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))
UNITS = (("s", 1_000_000_000), ("ms", 1_000_000), ("µs", 1_000))


def duration(nanoseconds: float) -> str:
    """Format nanoseconds with three figures: `12.3 µs`, `4.57 ms`, `125 s`."""
    # 999.5 and more of the smaller unit would be rounded to 1000.
    for unit, factor in UNITS:
        if abs(nanoseconds) >= factor * 0.9995:
            return f"{_three(nanoseconds / factor)} {unit}"
    return f"{round(nanoseconds)} ns"


def same_time(left: float, right: float) -> bool:
    """Return True if two times look the same, or differ by less than 1 % and 1 µs."""
    apart = abs(left - right)
    return duration(left) == duration(right) or (apart < 1000 and apart < 0.01 * max(left, right))


def size(size_bytes: float) -> str:
    """Format bytes with at least three figures: `512 bytes`, `1.50 KiB`, `16.0 GiB`."""
    for unit, factor in _SIZES:
        if abs(size_bytes) >= factor:
            return f"{_three(size_bytes / factor)} {unit}"
    return f"{round(size_bytes)} byte{'' if round(size_bytes) == 1 else 's'}"


def exact_size(size_bytes: int) -> str:
    """Format bytes exactly: `1 byte`, `1,536 bytes`."""
    return f"{size_bytes:,} byte{'' if size_bytes == 1 else 's'}"


def share(value: float) -> str:
    """Format a share from 0 to 1: `37 %`, `0.4 %`."""
    return f"{100 * value:.0f} %" if value >= 0.0995 or value == 0 else f"{100 * value:.1f} %"


def _three(value: float) -> str:
    return f"{value:.2f}" if abs(value) < 9.995 else f"{value:.1f}" if abs(value) < 99.95 else f"{value:,.0f}"


def bandwidth(size_bytes: float, nanoseconds: float) -> str:
    """Format a rate in powers of ten, as data sheets do: `12.3 GB/s`; empty without a time."""
    return _scaled(size_bytes / nanoseconds * 1e9, "B/s") if nanoseconds > 0 else ""


def speed(flops: float, nanoseconds: float) -> str:
    """Format a compute rate: `4.56 TFLOP/s`; empty without a time."""
    return _scaled(flops / nanoseconds * 1e9, "FLOP/s") if nanoseconds > 0 else ""


def operations(flops: float) -> str:
    """Format a number of operations: `2.39 MFLOP`."""
    return _scaled(flops, "FLOP")


def _scaled(value: float, unit: str) -> str:
    for prefix, factor in (("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= factor * 0.9995:
            return f"{_three(value / factor)} {prefix}{unit}"
    return f"{round(value)} {unit}"


_VERTICAL_EIGHTHS = " ▁▂▃▄▅▆▇█"
_HORIZONTAL_EIGHTHS = " ▏▎▍▌▋▊▉█"


def area(values: Sequence[float], top: float, height: int) -> list[str]:
    """Return `height` lines of a filled curve, a column for each value. Values above 0 are visible, `top` fills all."""
    filled = [_eighths(value, top, height) for value in values]
    return [
        "".join(_VERTICAL_EIGHTHS[min(8, max(0, eighths - 8 * level))] for eighths in filled)
        for level in range(height - 1, -1, -1)
    ]


def bar(value: float, top: float, width: int) -> str:
    """Return a bar without trailing spaces, where `top` fills `width`; values above zero are visible."""
    eighths = _eighths(value, top, width)
    return "█" * (eighths // 8) + _HORIZONTAL_EIGHTHS[eighths % 8].strip()


def parts(shares: Sequence[float], width: int) -> list[int]:
    """Distribute `width` columns in proportion to `shares`. A share above 0 gets at least one column if possible."""
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
