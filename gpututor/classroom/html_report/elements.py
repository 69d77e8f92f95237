"""Elements of the HTML report: plain text, sections, tables, and bars in SVG."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

from gpututor.classroom.gradebook.model import BINS
from gpututor.grading.report_text import count
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


def distribution(bins: Sequence[int], what: str) -> str:
    """Draw bars for `BINS` equal parts, 0 to 100 percent. `what`: the counted thing, `mark` or `total`."""
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
