"""Pictures in SVG: how marks are distributed, and how times compare with a baseline's."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

from gpututor.classroom.gradebook.model import BINS, Timing
from gpututor.classroom.page.html import text
from gpututor.grading.report import Status
from gpututor.grading.words import GLYPHS, count

_BAR, _HIGH, _LEFT = 30, 64, 6
_PLOT, _DOT, _LANE = 300, 6, 56
_LANES = (
    (Status.PASSED, "good"),
    (Status.TOO_SLOW, "bad"),
    (Status.FAILED, "bad"),
    (Status.INCONCLUSIVE, "open"),
    (Status.NEEDS_REVIEW, "open"),
    (Status.HELD_BACK, "open"),
)
_STEPS = (1, 2, 5)


def distribution(bins: Sequence[int], what: str) -> str:
    """Bars for ten equal parts, 0 to 100 per cent. `what` is counted: `mark`, `total`."""
    most = max(bins, default=0)
    parts = (f"{number} from {10 * place} to {10 * place + 10} %" for place, number in enumerate(bins) if number)
    label = f"Distribution of {count(sum(bins), what)}: {', '.join(parts) or 'none'}"
    width = BINS * _BAR + 2 * _LEFT
    drawn = [f'<svg class="bars" viewBox="0 0 {width} {_HIGH + 36}" role="img" aria-label="{text(label)}">']
    for place, number in enumerate(bins):
        left, high = _LEFT + place * _BAR, round(_HIGH * number / most, 1) if most else 0
        top = 16 + _HIGH - high
        if number:
            drawn.append(f'<rect x="{left + 2}" y="{top:g}" width="{_BAR - 4}" height="{high:g}" rx="2"/>')
            drawn.append(f'<text x="{left + _BAR / 2:g}" y="{top - 4:g}">{number}</text>')
    base = 16 + _HIGH
    drawn.append(f'<path class="axis" d="M{_LEFT} {base}H{width - _LEFT}"/>')
    for place in (0, 5, 10):
        anchor = {0: "start", 5: "middle", 10: "end"}[place]
        x = _LEFT + place * _BAR
        drawn.append(f'<text class="tick" x="{x}" y="{base + 16}" text-anchor="{anchor}">{10 * place} %</text>')
    return "".join([*drawn, "</svg>"])


def strip(timings: Sequence[Timing]) -> str:
    """A dot for each time, in a lane for each status: round where it is modelled, square where it was measured."""
    ratios = [max(timing.ratio, 1e-6) for timing in timings]
    low, high = _range(ratios)
    lanes = [(status, look) for status, look in _LANES if any(timing.status is status for timing in timings)]
    height = len(lanes) * (_LANE + 20) + 30
    slowest, fastest = max(ratios), min(ratios)
    label = f"{count(len(timings), 'time')}, {fastest:.2g} to {slowest:.2g} × the baseline's"
    drawn = [f'<svg class="strip" viewBox="0 0 {_PLOT + 30} {height}" role="img" aria-label="{text(label)}">']
    base = height - 26
    at = _place(1.0, low, high)
    drawn.append(f'<path class="baseline" d="M{at:g} 0V{base}"/>')
    columns = {(status, is_measured): Counter[int]() for status, _ in lanes for is_measured in (False, True)}
    for timing, ratio in zip(timings, ratios, strict=True):
        columns[timing.status, timing.is_measured][round(_place(ratio, low, high) / _DOT)] += 1
    tallest = max((max((columns[status, False] + columns[status, True]).values()) for status, _ in lanes), default=1)
    step = min(_DOT + 0.5, (_LANE - _DOT) / max(tallest - 1, 1))
    for row, (status, look) in enumerate(lanes):
        modelled, measured = columns[status, False], columns[status, True]
        floor = (row + 1) * (_LANE + 20) - 4
        told = f"{GLYPHS[status]} {status.value} ({modelled.total() + measured.total()})"
        drawn.append(f'<text x="2" y="{floor - _LANE - 4}">{told}</text>')
        for kind, counts, below in (("modelled", modelled, Counter[int]()), ("measured", measured, modelled)):
            if dots := _dots(counts, below, floor - _DOT / 2, step):
                drawn.append(f'<path class="dots {kind} {look}" d="{dots}"/>')
    drawn.append(f'<path class="axis" d="M14 {base}H{_PLOT + 16}"/>')
    for ratio in _ticks(low, high):
        x = _place(ratio, low, high)
        drawn.append(
            f'<path class="axis" d="M{x:g} {base}v4"/><text class="tick" x="{x:g}" y="{base + 17}">{ratio:g} ×</text>'
        )
    return "".join([*drawn, "</svg>"])


def _sign(kind: str) -> str:
    return f'<svg viewBox="0 0 12 12" aria-hidden="true"><path class="dots {kind}" d="M6 6h0"/></svg>'


LEGEND = (
    f'<p class="legend">{_sign("modelled")} modelled by the virtual GPU, {_sign("measured")} measured on a device. '
    "The dashed line is the baseline's time; further to the left is faster.</p>"
)


def _dots(counts: Counter[int], below: Counter[int], floor: float, step: float) -> str:
    """Dots of about the same ratio stand on each other, and on those that are `below` them."""
    return "".join(
        f"M{column * _DOT} {floor - (below[column] + place) * step:.4g}h0"
        for column, number in sorted(counts.items())
        for place in _shown(number)
    )


def _shown(number: int) -> Iterator[int]:
    """Where dots would hide each other wholly, not every one is drawn."""
    stride = math.ceil(number / (4 * _LANE))
    return iter(range(0, number, stride))


def _range(ratios: Sequence[float]) -> tuple[float, float]:
    """Logarithms of the least and the largest ratio that are to be seen: at least half to double the baseline's."""
    return math.log10(min(*ratios, 0.5)) - 0.05, math.log10(max(*ratios, 2.0)) + 0.05


def _place(ratio: float, low: float, high: float) -> float:
    return round(15 + _PLOT * (math.log10(ratio) - low) / (high - low), 1)


def _ticks(low: float, high: float) -> list[float]:
    powers = range(math.floor(low), math.ceil(high) + 1)
    every = [step * 10.0**power for power in powers for step in _STEPS if low <= math.log10(step * 10.0**power) <= high]
    if len(every) <= 6:
        return every
    tens = [10.0**power for power in powers if low <= power <= high]
    stride = math.ceil(len(tens) / 6)
    return [ratio for ratio in tens if round(math.log10(ratio)) % stride == 0]
