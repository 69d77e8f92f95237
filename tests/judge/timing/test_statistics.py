"""The sequential sign test: bounded by arithmetic, not by luck."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpututor.judge.timing.sequential_test import (
    ENOUGH,
    FEWEST_PAIRS,
    MOST_PAIRS,
    Answer,
    can_still_decide,
    decide,
    log_evidence,
    quartiles,
)

SIGNS = st.lists(st.booleans(), max_size=MOST_PAIRS)


def chances(within: float) -> dict[Answer, float]:
    """How probable each answer is when each sign is `within` with that probability: exact, over all sequences."""
    ends = dict.fromkeys(Answer, 0.0)
    going = {0: 1.0}
    for length in range(1, MOST_PAIRS + 1):
        following: dict[int, float] = {}
        for kept, probability in going.items():
            for more, share in ((1, within), (0, 1 - within)):
                following[kept + more] = following.get(kept + more, 0.0) + probability * share
        going = {}
        for kept, probability in following.items():
            said = decide([True] * kept + [False] * (length - kept))
            if said is Answer.OPEN:
                going[kept] = probability
            else:
                ends[said] += probability
    ends[Answer.OPEN] = sum(going.values())
    return ends


def test_signs_of_a_fair_coin_decide_either_way_in_at_most_one_of_a_hundred_timings() -> None:
    ends = chances(0.5)

    assert 0 < ends[Answer.WITHIN] <= 1 / ENOUGH
    assert ends[Answer.BEYOND] == pytest.approx(ends[Answer.WITHIN])
    assert ends[Answer.OPEN] > 0.97


@pytest.mark.parametrize(("within", "right"), [(0.95, Answer.WITHIN), (0.05, Answer.BEYOND)])
def test_signs_that_are_mostly_right_decide_and_are_almost_never_wrong(within: float, right: Answer) -> None:
    ends = chances(within)

    assert ends[right] > 0.999
    assert 1 - ends[right] - ends[Answer.OPEN] < 1e-9


@given(SIGNS)
def test_the_order_of_the_signs_does_not_matter(signs: list[bool]) -> None:
    shuffled = random.Random(0).sample(signs, len(signs))

    assert decide(shuffled) is decide(signs)


@given(SIGNS)
def test_swapping_the_signs_swaps_the_answer(signs: list[bool]) -> None:
    opposite = {Answer.WITHIN: Answer.BEYOND, Answer.BEYOND: Answer.WITHIN, Answer.OPEN: Answer.OPEN}

    assert decide([not sign for sign in signs]) is opposite[decide(signs)]


@given(SIGNS)
def test_one_more_good_sign_never_speaks_against(signs: list[bool]) -> None:
    if decide(signs) is Answer.WITHIN:
        assert decide([*signs, True]) is Answer.WITHIN
    assert (
        log_evidence(signs.count(True) + 1, signs.count(False))[0]
        > log_evidence(signs.count(True), signs.count(False))[0]
    )


@given(st.lists(st.booleans(), max_size=FEWEST_PAIRS - 1))
def test_too_few_pairs_say_nothing(signs: list[bool]) -> None:
    assert decide(signs) is Answer.OPEN


@given(SIGNS, st.data())
def test_who_stops_early_would_not_have_been_told_later(signs: list[bool], data: st.DataObject) -> None:
    left = MOST_PAIRS - len(signs)
    rest = data.draw(st.lists(st.booleans(), min_size=left, max_size=left))
    decided = any(decide([*signs, *rest[:more]]) is not Answer.OPEN for more in range(1, left + 1))

    assert can_still_decide(signs) or not decided


@given(st.lists(st.floats(0, 1e6), min_size=1))
def test_quartiles_lie_in_order_among_the_figures(figures: list[float]) -> None:
    found = quartiles(figures)

    assert min(figures) <= found.low <= found.median <= found.high <= max(figures)
