"""Numbers with units, and bars and area charts made of characters."""

from __future__ import annotations

from collections.abc import Sequence

_SIZES = (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))
_TIMES = (("s", 1_000_000_000), ("ms", 1_000_000), ("µs", 1_000))


def duration(nanoseconds: float) -> str:
    """`12.3 µs`, `4.57 ms`, `125 s`: three figures, from nanoseconds."""
    # From 999.5 on, three figures of the smaller unit would be 1000.
    for unit, worth in _TIMES:
        if abs(nanoseconds) >= worth * 0.9995:
            return f"{_three(nanoseconds / worth)} {unit}"
    return f"{round(nanoseconds)} ns"


def same_time(left: float, right: float) -> bool:
    """Whether two times read the same, or are less than 1 % and 1 µs apart."""
    apart = abs(left - right)
    return duration(left) == duration(right) or (apart < 1000 and apart < 0.01 * max(left, right))


def size(size_bytes: float) -> str:
    """`512 bytes`, `1.50 KiB`, `16.0 GiB`: three figures, from bytes."""
    for unit, worth in _SIZES:
        if abs(size_bytes) >= worth:
            return f"{_three(size_bytes / worth)} {unit}"
    return f"{round(size_bytes)} byte{'' if round(size_bytes) == 1 else 's'}"


def exact_size(size_bytes: int) -> str:
    """`1 byte`, `1,536 bytes`"""
    return f"{size_bytes:,} byte{'' if size_bytes == 1 else 's'}"


def share(value: float) -> str:
    """`37 %`, `0.4 %`: from 0 to 1."""
    return f"{100 * value:.0f} %" if value >= 0.0995 or value == 0 else f"{100 * value:.1f} %"


def _three(value: float) -> str:
    return f"{value:.2f}" if abs(value) < 9.995 else f"{value:.1f}" if abs(value) < 99.95 else f"{value:,.0f}"


def bandwidth(size_bytes: float, nanoseconds: float) -> str:
    """`12.3 GB/s`: bytes in a time, in powers of ten as data sheets have them; empty without a time."""
    return _rate(size_bytes / nanoseconds, "B/s") if nanoseconds > 0 else ""


def speed(flops: float, nanoseconds: float) -> str:
    """`4.56 TFLOP/s`; empty without a time."""
    return _rate(flops / nanoseconds, "FLOP/s") if nanoseconds > 0 else ""


def operations(flops: float) -> str:
    """`2.39 MFLOP`."""
    return _scaled(flops, "FLOP")


def _rate(of_a_nanosecond: float, unit: str) -> str:
    return _scaled(of_a_nanosecond * 1e9, unit)


def _scaled(value: float, unit: str) -> str:
    for prefix, worth in (("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= worth * 0.9995:
            return f"{_three(value / worth)} {prefix}{unit}"
    return f"{round(value)} {unit}"


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
