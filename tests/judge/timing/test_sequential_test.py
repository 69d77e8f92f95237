"""The sequential sign test: exact bounds of its errors, and pairs of simulated sides."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpututor.checks.model import Finding
from gpututor.judge.timing.sequential_test import (
    ENOUGH,
    FEWEST_PAIRS,
    MOST_PAIRS,
    Comparison,
    Inputs,
    PairedComparison,
    SequentialSettings,
    SignDecision,
    TimedBatch,
    can_still_decide,
    decide,
    quartiles,
    wealth_of_bets,
)

SIGNS = st.lists(st.booleans(), max_size=MOST_PAIRS)


def chances(within: float) -> dict[SignDecision, float]:
    """Return the exact probability of each answer if a sign is `within` with that probability."""
    ends = dict.fromkeys(SignDecision, 0.0)
    going = {0: 1.0}
    for length in range(1, MOST_PAIRS + 1):
        following: dict[int, float] = {}
        for kept, probability in going.items():
            for more, share in ((1, within), (0, 1 - within)):
                following[kept + more] = following.get(kept + more, 0.0) + probability * share
        going = {}
        for kept, probability in following.items():
            answer = decide([True] * kept + [False] * (length - kept))
            if answer is SignDecision.OPEN:
                going[kept] = probability
            else:
                ends[answer] += probability
    ends[SignDecision.OPEN] = sum(going.values())
    return ends


def test_a_fair_coin_decides_in_at_most_one_percent() -> None:
    ends = chances(0.5)
    assert 0 < ends[SignDecision.WITHIN] <= 1 / ENOUGH
    assert ends[SignDecision.BEYOND] == pytest.approx(ends[SignDecision.WITHIN])
    assert ends[SignDecision.OPEN] > 0.97


@pytest.mark.parametrize(("within", "right"), [(0.95, SignDecision.WITHIN), (0.05, SignDecision.BEYOND)])
def test_mostly_right_signs_decide_rightly(within: float, right: SignDecision) -> None:
    ends = chances(within)
    assert ends[right] > 0.999
    assert 1 - ends[right] - ends[SignDecision.OPEN] < 1e-9


@given(SIGNS)
def test_signs_count_alike_in_any_order_and_for_both_answers(signs: list[bool]) -> None:
    shuffled = random.Random(0).sample(signs, len(signs))
    assert decide(shuffled) is decide(signs)
    opposite = {
        SignDecision.WITHIN: SignDecision.BEYOND,
        SignDecision.BEYOND: SignDecision.WITHIN,
        SignDecision.OPEN: SignDecision.OPEN,
    }
    assert decide([not sign for sign in signs]) is opposite[decide(signs)]
    if decide(signs) is SignDecision.WITHIN:
        assert decide([*signs, True]) is SignDecision.WITHIN
    assert (
        wealth_of_bets(signs.count(True) + 1, signs.count(False))[0]
        > wealth_of_bets(signs.count(True), signs.count(False))[0]
    )


@given(st.lists(st.booleans(), max_size=FEWEST_PAIRS - 1))
def test_too_few_pairs_leave_it_open(signs: list[bool]) -> None:
    assert decide(signs) is SignDecision.OPEN


@given(SIGNS, st.data())
def test_stopping_early_changes_no_decision(signs: list[bool], data: st.DataObject) -> None:
    left = MOST_PAIRS - len(signs)
    rest = data.draw(st.lists(st.booleans(), min_size=left, max_size=left))
    decided = any(decide([*signs, *rest[:more]]) is not SignDecision.OPEN for more in range(1, left + 1))
    assert can_still_decide(signs) or not decided


@given(st.lists(st.floats(0, 1e6), min_size=1))
def test_quartiles_lie_in_order_among_the_figures(figures: list[float]) -> None:
    low, middle, high = quartiles(figures)
    assert min(figures) <= low <= middle <= high <= max(figures)


ROUND_TRIP_S = 200e-6
CALL_S = 1e-3


class Fake:
    """A side that answers with the `number` of each input, after a round trip and `call_s` a call, times noise."""

    def __init__(self, call_s: float, round_trip_s: float = ROUND_TRIP_S, noise: Callable[[], float] = lambda: 1.0):
        self.call_s = call_s
        self.round_trip_s = round_trip_s
        self.noise = noise
        self.batches: list[Inputs] = []
        self.answer: Callable[[int], int] = lambda number: number

    def time(self, inputs: Inputs) -> TimedBatch:
        self.batches.append(inputs)
        elapsed_s = (self.round_trip_s + self.call_s * len(inputs)) * self.noise()
        return TimedBatch(elapsed_s, [self.answer(drawn["number"]) for drawn in inputs], 8 * len(inputs))


class Fresh:
    """A draw of inputs whose numbers never repeat."""

    def __init__(self) -> None:
        self.drawn = 0

    def __call__(self, rounds: int) -> Inputs:
        start, self.drawn = self.drawn, self.drawn + rounds
        return [{"number": number} for number in range(start, self.drawn)]


def verify(inputs: Inputs, outputs: Sequence[Any]) -> Finding | None:
    for drawn, output in zip(inputs, outputs, strict=True):
        if output != drawn["number"]:
            return Finding(str(drawn["number"]), str(output))
    return None


def compared(
    baseline: Fake,
    submission: Fake,
    at_most: float = 1.25,
    *,
    null: Fake | None = None,
    seed: int = 0,
    settings: SequentialSettings | None = None,
    on_pair: Callable[[int], None] = lambda pairs: None,
) -> Comparison:
    """Prepare and compare both sides; return the comparison."""
    null = null or Fake(0.0, baseline.round_trip_s, baseline.noise)
    comparer = PairedComparison(baseline, null, Fresh(), verify, random.Random(seed), settings)
    comparer.prepare()
    return comparer.result if comparer.result.too_small else comparer.compare(submission, at_most, on_pair)


def bursts(seed: int, often: float = 0.3) -> Callable[[], float]:
    """Return the noise of a busy machine: some per cent always, and at times a factor of two to six."""
    chance = random.Random(seed)

    def factor() -> float:
        burst = chance.uniform(2, 6) if chance.random() < often else 1.0
        return burst * chance.lognormvariate(0, 0.03)

    return factor


@pytest.mark.parametrize(
    ("factor", "answer"),
    [
        (0.5, SignDecision.WITHIN),
        (1.0, SignDecision.WITHIN),
        (1.2, SignDecision.WITHIN),
        (1.3, SignDecision.BEYOND),
        (30, SignDecision.BEYOND),
    ],
)
def test_without_noise_ten_pairs_decide(factor: float, answer: SignDecision) -> None:
    result = compared(Fake(CALL_S), Fake(CALL_S * factor))
    assert result.answer is answer
    assert len(result.signs) == FEWEST_PAIRS
    assert median(result.ratios) == pytest.approx(factor)


@pytest.mark.parametrize("factor", [1.0, 1.5])
def test_bursts_of_noise_rarely_make_it_wrong(factor: float) -> None:
    right, runs = SignDecision.WITHIN if factor == 1.0 else SignDecision.BEYOND, 200
    answers = [
        compared(Fake(CALL_S, noise=bursts(seed)), Fake(CALL_S * factor, noise=bursts(seed + 1000)), seed=seed).answer
        for seed in range(runs)
    ]
    assert sum(answer not in (right, SignDecision.OPEN) for answer in answers) <= 0.01 * runs
    assert answers.count(right) >= 0.95 * runs


def test_code_at_the_limit_is_open_and_slow_inputs_keep_batches_small() -> None:
    flips = itertools.cycle([1.0, 1.6])
    settings = SequentialSettings(attempts=1, baseline_samples=1)
    submission = Fake(CALL_S * 1.0, noise=lambda: next(flips))
    result = compared(Fake(CALL_S), submission, settings=settings)
    assert result.answer is SignDecision.OPEN
    assert len(result.signs) <= MOST_PAIRS
    # A learner waits for drawing too; the calls by themselves would fit into the time.
    clock = itertools.count()
    quick, slow = (
        compared(Fake(CALL_S), Fake(CALL_S), settings=SequentialSettings(longest_s=0.5, most_s=1e9, now_s=now_s)).calls
        for now_s in (lambda: 0.0, lambda: float(next(clock)))
    )
    assert slow == 1 < quick


def test_the_round_trip_is_subtracted_and_batches_stand_out_of_it() -> None:
    round_trip_s = 0.9e-3
    result = compared(Fake(CALL_S, round_trip_s), Fake(6 * CALL_S, round_trip_s), at_most=4)
    assert result.answer is SignDecision.BEYOND
    assert median(result.ratios) == pytest.approx(6)
    result = compared(Fake(CALL_S), Fake(CALL_S))
    assert result.calls * CALL_S >= max(5e-3, 20 * 200e-6)
    assert result.calls < 20
    baseline = Fake(CALL_S / 1000, 100 * CALL_S)
    assert compared(baseline, Fake(CALL_S)).too_small


@pytest.mark.parametrize(
    ("settings", "most"),
    [
        (SequentialSettings(most_calls=3), 3),
        (SequentialSettings(most_bytes=8 * 2), 2),
        (SequentialSettings(longest_s=2.5 * CALL_S), 2),
    ],
)
def test_a_batch_keeps_to_its_bounds(settings: SequentialSettings, most: int) -> None:
    assert 1 <= compared(Fake(CALL_S), Fake(CALL_S), settings=settings).calls <= most


@pytest.mark.parametrize("right", [0, 100], ids=["in a warm-up", "in a pair"])
def test_the_first_wrong_result_ends_the_timing(right: int) -> None:
    submission = Fake(CALL_S)
    answered = itertools.count()
    submission.answer = lambda number: -1 if next(answered) == right else number
    result = compared(Fake(CALL_S), submission)
    assert result.wrong is not None
    assert (result.wrong.got, result.answer) == ("-1", SignDecision.OPEN)
    assert (len(submission.batches) == 1) is (right == 0)
    assert bool(result.signs) is (right > 0)
    assert len(result.signs) < FEWEST_PAIRS


def test_pairs_have_new_inputs_both_orders_a_steady_baseline_and_an_end() -> None:
    submission = Fake(CALL_S)
    reported: list[int] = []
    result = compared(Fake(CALL_S), submission, on_pair=reported.append)
    assert reported == list(range(1, len(result.signs) + 1))
    numbers = [drawn["number"] for batch in submission.batches for drawn in batch]
    assert len(set(numbers)) == len(numbers)
    order: list[str] = []

    def side(name: str) -> Fake:
        def noise() -> float:
            order.append(name)
            return 1.0

        return Fake(CALL_S, noise=noise)

    result = compared(side("baseline"), side("submission"), null=Fake(0.0))
    paired = order[-2 * SequentialSettings().attempts * len(result.signs) :]
    assert {tuple(paired[at : at + 2]) for at in range(0, len(paired), 2)} == {
        ("baseline", "submission"),
        ("submission", "baseline"),
    }
    baseline = Fake(CALL_S)

    def answer(number: int) -> int:
        baseline.call_s = 2 * CALL_S
        return number

    submission.answer = answer
    assert compared(baseline, submission).contended
    assert not compared(Fake(CALL_S), Fake(CALL_S)).contended
    now = itertools.count()
    result = compared(Fake(CALL_S), Fake(CALL_S), settings=SequentialSettings(most_s=3, now_s=lambda: float(next(now))))
    assert result.answer is SignDecision.OPEN
    assert len(result.signs) == 2
