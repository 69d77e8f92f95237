"""The review list and the pairs of similar texts as lines for the terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from itertools import groupby

from gpututor.classroom.intake.names import one_line
from gpututor.classroom.review.build import Compared, Item, Review
from gpututor.classroom.review.similarity import COMMON_PEOPLE, COMMON_SHARE, FEWEST, FEWEST_WORDS, Share, SimilarPair
from gpututor.grading.report_text import count

MOST_PAIRS = 50
"""Pairs that are listed; the rest is counted."""
_LEAST_WIDTH = 40


def lines_of(review: Review, width: int) -> Iterator[str]:
    """Yield the number of items, each item, and the comparison of texts."""
    width = max(width, _LEAST_WIDTH)
    if review.items:
        yield f"{count(len(review.items), 'thing')} to look at. An item does not mean that a student did wrong."
    else:
        yield "There is nothing to look at."
    for kind, group in groupby(review.items, key=lambda item: item.kind):
        items = list(group)
        yield ""
        yield f"{kind.heading}: {len(items)}"
        for item in items:
            yield from _item(item, review, width)
    yield ""
    yield from _pairs(review)
    yield from _how(review, width)


def _item(item: Item, review: Review, width: int) -> Iterator[str]:
    place = " ".join(filter(None, (item.label, item.exercise)))
    if not item.files:
        who = ", ".join(map(review.called, item.students))
        yield _line(f"{who}  {item.source}" if who else item.source)
    elif len(item.files) == 1:
        file = item.files[0]
        attempt = f"attempt {file.attempt}  " if file.attempt > 1 else ""
        yield _line(f"{review.called(file.student)}  {place}  {attempt}{file.source}")
    else:
        yield _line(place)
        names = [
            f"{review.called(file.student)}{f' (attempt {file.attempt})' if file.attempt > 1 else ''}"
            for file in item.files
        ]
        yield from _wrapped(", ".join(names), width, 4)
    yield from _wrapped(item.why, width, 6)
    if item.command:
        yield f"      $ {one_line(item.command)}"


def _pairs(review: Review) -> Iterator[str]:
    """Yield a table of the pairs, the most similar first."""
    if not review.pairs:
        return
    rows = [("Alike", "Code", "Words", "Exercise", "Students")]
    for compared, pair in review.pairs[:MOST_PAIRS]:
        students = " / ".join(", ".join(map(review.called, side)) for side in sides_of(pair))
        shares = (f"{pair.share:.0%}", _share(pair.code), _share(pair.words))
        rows.append((*shares, compared.label or compared.exercise, students))
    yield f"Pairs of texts, the most similar first: {len(review.pairs)}"
    yield from _table(rows)
    if (left := len(review.pairs) - MOST_PAIRS) > 0:
        yield f"  {count(left, 'pair')} more; --csv-pairs writes all."
    yield ""


def sides_of(pair: SimilarPair) -> tuple[Sequence[str], Sequence[str]]:
    """Return the students of both texts; of the same text the first student and the others."""
    first, second = (list(dict.fromkeys(file.student for file in text.files)) for text in pair.texts)
    return (first[:1], first[1:]) if pair.is_identical else (first, second)


def _share(share: Share | None) -> str:
    return f"{share.common}/{share.of}" if share is not None else "–"


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield lines with aligned columns; the last column and the one before it are words."""
    cells = [[one_line(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for *figures, place, words in cells:
        aligned = [cell.rjust(width) for cell, width in zip(figures, widths, strict=False)]
        yield "  ".join(["", *aligned, place.ljust(widths[-2]), words])


def _how(review: Review, width: int) -> Iterator[str]:
    yield from _wrapped(
        f"Texts are alike if they share {review.share:.0%} (--similar) of the fingerprints of their code, or of their "
        "words. The share is of the text that has fewer. Words are names, and pairs of neighboring words in comments "
        "and strings. Fingerprints and words of the course do not count. Those that more than "
        f"{COMMON_PEOPLE} people and more than {COMMON_SHARE:.0%} of the class have do not count either. Texts with "
        f"fewer than {FEWEST} fingerprints and {FEWEST_WORDS} words of their own are not compared, nor are attempts of "
        "one student.",
        width,
        0,
    )
    rows = [_row(counts) for counts in review.compared if counts.texts]
    if rows:
        rows.insert(
            0, ("Exercise", "Texts", "By code", "By words", "Fingerprints", "Left out", "The course's solution")
        )
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for row in rows:
            figures = [cell.rjust(at) for cell, at in zip(row[1:], widths[1:], strict=True)]
            yield "  ".join([row[0].ljust(widths[0]), *figures])


def _row(counts: Compared) -> tuple[str, ...]:
    name = one_line(" ".join(filter(None, (counts.label, counts.exercise))))
    texts = counts.texts, counts.compared, counts.compared_words
    return (name, *map(str, (*texts, counts.fingerprints, counts.common, counts.solutions)))


def _line(text: str) -> str:
    return f"  {one_line(text)}"


def _wrapped(text: str, width: int, indent: int) -> Iterator[str]:
    space = " " * indent
    yield from textwrap.wrap(one_line(text), width - 1, initial_indent=space, subsequent_indent=space) or [space]
