"""What the checks said of two attempts, as far as it differs."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping

from textual.content import Content

from gpututor.app.widgets.device.beside import Pair
from gpututor.app.widgets.device.view import RunView
from gpututor.grading.report import Status, Verdict
from gpututor.grading.words import mark
from gpututor.plain_text import visible

_PALE = "$foreground-muted"
_STATUS = 16


def checks_differ(pair: Pair) -> bool:
    """Whether there is anything to tell."""
    if pair.other.is_baseline or not pair.left.outcome or not pair.right.outcome:
        return False
    return pair.left.outcome != pair.right.outcome or bool(_different(pair))


def outcomes(pair: Pair, width: int) -> Iterator[Content]:
    """The outcomes of both, then the checks that came out differently, each with its scenario."""
    if not checks_differ(pair):
        return
    sides = (f"attempt {pair.left.attempt}", pair.left), (pair.other.short, pair.right)
    for name, view in sides:
        yield Content(f"{name:<{_STATUS}}{view.outcome}")
    different = _different(pair)
    if different:
        yield Content("")
        yield Content(f"{sides[0][0]:<{_STATUS}}{sides[1][0]:<{_STATUS}}checks that differ").stylize(_PALE)
    for ours, theirs in different:
        one = ours or theirs
        assert one is not None
        colour = "$text-success" if ours is not None and ours.status is Status.PASSED else "$text-warning"
        sentence = f"{visible(one.sentence)} ({visible(one.scenario)})"
        first, *more = textwrap.wrap(sentence, max(20, width - 2 * _STATUS))
        yield Content.assemble((_said(ours), colour), _said(theirs), first)
        yield from (Content(f"{'':<{2 * _STATUS}}{line}") for line in more)


def _said(verdict: Verdict | None) -> str:
    return f"{mark(verdict.status) if verdict is not None else '-':<{_STATUS}}"


def _different(pair: Pair) -> list[tuple[Verdict | None, Verdict | None]]:
    """The same check of both, in the order of the left one; None where the other one came to none."""
    ours, theirs = _by_check(pair.left), _by_check(pair.right)
    both = [(ours.get(key), theirs.get(key)) for key in dict.fromkeys([*ours, *theirs])]
    return [(one, other) for one, other in both if one is None or other is None or one.status is not other.status]


def _by_check(view: RunView) -> Mapping[tuple[str, str, str], Verdict]:
    return {(one.check, one.sentence, one.scenario): one for one in view.verdicts}
