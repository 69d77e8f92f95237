"""The review list for a terminal: all of it, and no line wider than it is but for commands and names."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from itertools import groupby

from gpututor.classroom.handed_in import HandedIn
from gpututor.classroom.review.model import Compared, Item, Review
from gpututor.classroom.review.similar import COMMON_PEOPLE, COMMON_SHARE, FEWEST
from gpututor.grading.words import count
from gpututor.plain_text import visible

_LEAST_WIDTH = 40


def lines_of(review: Review, width: int) -> Iterator[str]:
    """Everything, line by line: how much there is, each item, and how texts were compared."""
    width = max(width, _LEAST_WIDTH)
    if review.items:
        yield f"{count(len(review.items), 'thing')} for a person to look at; nothing here says that anybody did wrong."
    else:
        yield "There is nothing that a person has to look at."
    for kind, found in groupby(review.items, key=lambda item: item.kind):
        items = list(found)
        yield ""
        yield f"{kind.heading}: {len(items)}"
        for item in items:
            yield from _item(item, review, width)
    yield ""
    yield from _how(review, width)


def _item(item: Item, review: Review, width: int) -> Iterator[str]:
    place = " ".join(filter(None, (item.label, item.exercise)))
    if not item.files:
        who = ", ".join(map(review.called, item.students))
        yield _line(f"{who}  {item.source}" if who else item.source)
    elif len(item.files) == 1:
        one = item.files[0]
        yield _line(f"{review.called(one.student)}  {place}  {_attempt(one)}{one.source}")
    else:
        yield _line(place)
        names = ", ".join(
            f"{review.called(one.student)}{f' ({_attempt(one).strip()})' if one.attempt > 1 else ''}"
            for one in item.files
        )
        yield from _wrapped(names, width, 4)
    yield from _wrapped(item.why, width, 6)
    if item.command:
        yield f"      $ {_on_one_line(item.command)}"


def _attempt(one: HandedIn) -> str:
    return f"attempt {one.attempt}  " if one.attempt > 1 else ""


def _how(review: Review, width: int) -> Iterator[str]:
    """How texts were compared."""
    yield from _wrapped(
        f"Texts are alike from {review.share:.0%} of the shorter one's fingerprints in common on (--similar). What "
        "everybody was given, the course's solutions and wrong solutions, and what over "
        f"{COMMON_PEOPLE} people and over {COMMON_SHARE:.0%} of all have in common are left out. Texts with fewer than "
        f"{FEWEST} fingerprints then are not compared, and a student's attempts never with each other.",
        width,
        0,
    )
    rows = [_row(each) for each in review.compared if each.texts]
    if rows:
        head = ("Exercise", "Texts", "Compared", "Fingerprints", "Left out", "The course's solution")
        yield from _table([head, *rows])


def _row(each: Compared) -> tuple[str, ...]:
    name = _on_one_line(" ".join(filter(None, (each.label, each.exercise))))
    figures = (each.texts, each.compared, each.fingerprints, each.common, each.solutions)
    return (name, *map(str, figures))


def _table(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        figures = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        yield "  ".join([row[0].ljust(widths[0]), *figures])


def _line(text: str) -> str:
    return f"  {_on_one_line(text)}"


def _on_one_line(text: str) -> str:
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")


def _wrapped(text: str, width: int, indent: int) -> Iterator[str]:
    space = " " * indent
    yield from textwrap.wrap(_on_one_line(text), width - 1, initial_indent=space, subsequent_indent=space) or [space]
