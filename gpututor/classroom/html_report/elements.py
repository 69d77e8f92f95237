"""Elements of the HTML report: plain text, sections, tables, and charts in SVG."""

from __future__ import annotations

import html
import math
from collections import Counter
from collections.abc import Iterable, Sequence

from gpututor.classroom.gradebook.model import BINS, Timing
from gpututor.grading.report import Status
from gpututor.grading.report_text import GLYPHS, count
from gpututor.text import escape_control_chars


def text(words: str) -> str:
    """Escape plain text for content and quoted attributes."""
    plain = words if words.isascii() and words.isprintable() else escape_control_chars(words)
    return html.escape(plain)


def name(words: str) -> str:
    """Isolate a name, so that its writing direction does not affect the surrounding text."""
    return f"<bdi>{text(words)}</bdi>"


def section(id: str, title: str, *parts: str) -> str:
    """Return a section; empty if all parts are."""
    body = "\n".join(filter(None, parts))
    return f'<section id="{id}">\n<h2>{text(title)}</h2>\n{body}\n</section>' if body else ""


def table(label: str, headers: Sequence[str], rows: Iterable[Sequence[str]], kind: str = "") -> str:
    """Return a scrollable table. Headers and cells are HTML; a row's first cell is its header."""
    head = "".join(f'<th scope="col">{header}</th>' for header in headers)
    body = "\n".join(
        f'<tr><th scope="row">{row[0]}</th>{"".join(f"<td>{cell}</td>" for cell in row[1:])}</tr>' for row in rows
    )
    return (
        f'<div class="wide" role="region" aria-label="{text(label)}" tabindex="0"><table class="{kind}">'
        f"{caption(label)}<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>"
    )


def caption(label: str) -> str:
    return f'<caption class="unseen">{text(label)}</caption>'


def share_bar(share: float, label: str) -> str:
    """Return a bar that is filled by `share`, 0 to 1, and its label."""
    width = round(100 * min(max(share, 0), 1))
    return (
        '<span class="share"><svg viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="rail" width="100" height="8"/><rect class="fill" width="{width}" height="8"/></svg>'
        f"{text(label)}</span>"
    )


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
    """Draw bars for `BINS` equal parts, 0 to 100 per cent. `what`: the counted thing, `mark` or `total`."""
    most = max(bins, default=0)
    parts = (f"{amount} from {10 * place} to {10 * place + 10} %" for place, amount in enumerate(bins) if amount)
    label = f"Distribution of {count(sum(bins), what)}: {', '.join(parts) or 'none'}"
    width = BINS * _BAR + 2 * _LEFT
    drawn = [f'<svg class="bars" viewBox="0 0 {width} {_HIGH + 36}" role="img" aria-label="{text(label)}">']
    for place, amount in enumerate(bins):
        left, high = _LEFT + place * _BAR, round(_HIGH * amount / most, 1) if most else 0
        top = 16 + _HIGH - high
        if amount:
            drawn.append(f'<rect x="{left + 2}" y="{top:g}" width="{_BAR - 4}" height="{high:g}" rx="2"/>')
            drawn.append(f'<text x="{left + _BAR / 2:g}" y="{top - 4:g}">{amount}</text>')
    base = 16 + _HIGH
    drawn.append(f'<path class="axis" d="M{_LEFT} {base}H{width - _LEFT}"/>')
    for place in (0, 5, 10):
        anchor = {0: "start", 5: "middle", 10: "end"}[place]
        x = _LEFT + place * _BAR
        drawn.append(f'<text class="tick" x="{x}" y="{base + 16}" text-anchor="{anchor}">{10 * place} %</text>')
    return "".join([*drawn, "</svg>"])


def strip(timings: Sequence[Timing]) -> str:
    """Draw a dot for each time, in a lane for each status: round for modelled times, square for measured ones."""
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
        words = f"{GLYPHS[status]} {status.value} ({modelled.total() + measured.total()})"
        drawn.append(f'<text x="2" y="{floor - _LANE - 4}">{words}</text>')
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
    """Stack dots of about the same ratio on each other and on those `below`; skip dots that others would hide."""
    return "".join(
        f"M{column * _DOT} {floor - (below[column] + place) * step:.4g}h0"
        for column, dots in sorted(counts.items())
        for place in range(0, dots, math.ceil(dots / (4 * _LANE)))
    )


def _range(ratios: Sequence[float]) -> tuple[float, float]:
    """Return the logarithms of the least and largest ratio on the axis: at least half to double the baseline's."""
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
