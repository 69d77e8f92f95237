"""Pieces of HTML. Text of others comes only through `text`."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

from gpututor.plain_text import visible


def text(words: str) -> str:
    """Plain text as it is seen, in content and in attributes with quotes."""
    plain = words if words.isascii() and words.isprintable() else visible(words)
    return html.escape(plain)


def name(words: str) -> str:
    """A name: the direction of its letters does not reach its neighbours."""
    return f"<bdi>{text(words)}</bdi>"


def section(id: str, title: str, *parts: str) -> str:
    """Empty where there are no parts."""
    body = "\n".join(filter(None, parts))
    return f'<section id="{id}">\n<h2>{text(title)}</h2>\n{body}\n</section>' if body else ""


def table(label: str, headers: Sequence[str], rows: Iterable[Sequence[str]], kind: str = "") -> str:
    """`headers` and cells are HTML; the first cell of a row is its header. It scrolls where it is too wide."""
    head = "".join(f'<th scope="col">{header}</th>' for header in headers)
    body = "\n".join(
        f'<tr><th scope="row">{row[0]}</th>{"".join(f"<td>{cell}</td>" for cell in row[1:])}</tr>' for row in rows
    )
    return (
        f'<div class="wide" role="region" aria-label="{text(label)}" tabindex="0"><table class="{kind}">'
        f"{caption(label)}<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>"
    )


def caption(label: str) -> str:
    """What a table is, for those who do not see the heading above it."""
    return f'<caption class="unseen">{text(label)}</caption>'


def listed(lines: Sequence[str]) -> str:
    """A list of HTML lines; empty where there are none."""
    return f"<ul>{''.join(f'<li>{line}</li>' for line in lines)}</ul>" if lines else ""


def share_bar(share: float, label: str) -> str:
    """A bar that is so full, with words beside it."""
    width = round(100 * min(max(share, 0), 1))
    return (
        '<span class="share"><svg viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="rail" width="100" height="8"/><rect class="fill" width="{width}" height="8"/></svg>'
        f"{text(label)}</span>"
    )
