"""The sequential sign test that decides a timing, and the figures that describe one. Pure functions.

Each pair of times gives one sign: whether the submission kept to the allowed ratio. Two bets are made on the signs,
one on `it keeps to it` and one on `it does not`; each multiplies what it has by 1 + 0.6 where it is right and by 1 -
0.6 where it is wrong. Were the signs a fair coin, neither could reach 100 with more than 1 % probability, however
often one looks (Ville's inequality). Only the median of the pairs' ratios matters: how wild the noise is changes how
many pairs it takes, not how often the answer is wrong.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

STAKE = 0.6
"""The part of the money that each bet risks on the next sign."""
ENOUGH = 100.0
"""A bet that has made this much of 1 has won: at most 1 in 100 does so by luck."""
FEWEST_PAIRS = 10
MOST_PAIRS = 60


class Answer(Enum):
    """What the signs say."""

    WITHIN = "within"
    BEYOND = "beyond"
    OPEN = "open"


def evidence(within: int, beyond: int) -> tuple[float, float]:
    """What the two bets have made of 1, after so many signs of either kind: (for `within`, for `beyond`)."""
    won, lost = math.log1p(STAKE), math.log1p(-STAKE)
    return math.exp(within * won + beyond * lost), math.exp(beyond * won + within * lost)


def answer(signs: Sequence[bool], fewest: int = FEWEST_PAIRS) -> Answer:
    """What `signs` (True: the pair kept to the ratio) say so far; `OPEN` before `fewest` of them."""
    within = sum(signs)
    for_within, for_beyond = evidence(within, len(signs) - within)
    if len(signs) < fewest:
        return Answer.OPEN
    if for_within >= ENOUGH:
        return Answer.WITHIN
    return Answer.BEYOND if for_beyond >= ENOUGH else Answer.OPEN


def can_still_tell(signs: Sequence[bool], most: int = MOST_PAIRS) -> bool:
    """Whether pairs up to the cap could still decide."""
    left = most - len(signs)
    if left <= 0:
        return False
    within, beyond = sum(signs), len(signs) - sum(signs)
    return evidence(within + left, beyond)[0] >= ENOUGH or evidence(within, beyond + left)[1] >= ENOUGH


@dataclass(frozen=True)
class Quartiles:
    """The middle of some figures, and between what the middle half of them lies."""

    low: float
    median: float
    high: float


def quartiles(figures: Sequence[float]) -> Quartiles:
    """Of at least one figure; between two neighbours the line joins them. Raises `ValueError` for none."""
    if not figures:
        raise ValueError("quartiles of nothing")
    ordered = sorted(figures)

    def at(share: float) -> float:
        place = share * (len(ordered) - 1)
        below = math.floor(place)
        above = min(below + 1, len(ordered) - 1)
        return ordered[below] + (place - below) * (ordered[above] - ordered[below])

    return Quartiles(at(0.25), at(0.5), at(0.75))


def median(figures: Sequence[float]) -> float:
    """The middle of at least one figure."""
    return quartiles(figures).median
