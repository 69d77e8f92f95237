"""Pairs of two sides whose time is simulated: what is subtracted, verified, counted and refused."""

from __future__ import annotations

import itertools
from statistics import median

import pytest

from gpututor.judge.timing.sequential_test import FEWEST_PAIRS, MOST_PAIRS, Answer, Settings
from tests.support.simulated_timings import CALL_S, Fake, bursts, compared


@pytest.mark.parametrize(
    ("factor", "answer"),
    [(0.5, Answer.WITHIN), (1.0, Answer.WITHIN), (1.2, Answer.WITHIN), (1.3, Answer.BEYOND), (30, Answer.BEYOND)],
)
def test_without_noise_ten_pairs_tell(factor: float, answer: Answer) -> None:
    result = compared(Fake(CALL_S), Fake(CALL_S * factor))

    assert result.answer is answer
    assert len(result.signs) == FEWEST_PAIRS
    assert median(result.ratios) == pytest.approx(factor)


@pytest.mark.parametrize("factor", [1.0, 1.5])
def test_bursts_of_noise_make_it_wrong_in_less_than_one_of_a_hundred_timings(factor: float) -> None:
    right, runs = Answer.WITHIN if factor == 1.0 else Answer.BEYOND, 200
    answers = [
        compared(Fake(CALL_S, noise=bursts(seed)), Fake(CALL_S * factor, noise=bursts(seed + 1000)), seed=seed).answer
        for seed in range(runs)
    ]

    assert sum(answer not in (right, Answer.OPEN) for answer in answers) <= 0.01 * runs
    assert answers.count(right) >= 0.95 * runs


def test_code_at_the_very_limit_is_told_nothing_at_the_cap() -> None:
    flips = itertools.cycle([1.0, 1.6])
    settings = Settings(attempts=1, baseline_samples=1)
    submission = Fake(CALL_S * 1.0, noise=lambda: next(flips))

    result = compared(Fake(CALL_S), submission, settings=settings)

    assert result.answer is Answer.OPEN
    assert len(result.signs) <= MOST_PAIRS


def test_the_round_trip_is_subtracted_from_both_sides() -> None:
    round_trip_s = 0.9e-3
    result = compared(Fake(CALL_S, round_trip_s), Fake(6 * CALL_S, round_trip_s), at_most=4)

    assert result.answer is Answer.BEYOND
    assert median(result.ratios) == pytest.approx(6)


def test_a_batch_grows_until_the_baseline_stands_out_of_the_round_trip() -> None:
    result = compared(Fake(CALL_S), Fake(CALL_S))

    assert result.calls * CALL_S >= max(5e-3, 20 * 200e-6)
    assert result.calls < 20


@pytest.mark.parametrize(
    ("settings", "most"),
    [
        (Settings(most_calls=3), 3),
        (Settings(most_bytes=8 * 2), 2),
        (Settings(longest_s=2.5 * CALL_S), 2),
    ],
)
def test_a_batch_keeps_to_its_bounds(settings: Settings, most: int) -> None:
    assert 1 <= compared(Fake(CALL_S), Fake(CALL_S), settings=settings).calls <= most


def test_work_that_is_lost_in_the_round_trip_is_called_too_small() -> None:
    baseline = Fake(CALL_S / 1000, 100 * CALL_S)

    assert compared(baseline, Fake(CALL_S)).too_small


def test_every_timed_result_is_verified_and_the_first_wrong_one_ends_it() -> None:
    submission = Fake(CALL_S)
    answered = itertools.count()
    submission.answer = lambda number: -1 if next(answered) == 100 else number

    result = compared(Fake(CALL_S), submission)

    assert result.wrong is not None
    assert result.wrong.got == "-1"
    assert result.answer is Answer.OPEN
    assert 0 < len(result.signs) < FEWEST_PAIRS


def test_each_pair_is_told() -> None:
    told: list[int] = []

    result = compared(Fake(CALL_S), Fake(CALL_S), on_pair=told.append)

    assert told == list(range(1, len(result.signs) + 1))


def test_results_of_warm_ups_are_verified_too() -> None:
    submission = Fake(CALL_S)
    submission.answer = lambda number: -1

    result = compared(Fake(CALL_S), submission)

    assert result.wrong is not None
    assert len(submission.batches) == 1
    assert not result.signs


def test_no_input_is_ever_seen_twice_by_one_side() -> None:
    submission = Fake(CALL_S)
    compared(Fake(CALL_S), submission)
    numbers = [drawn["number"] for batch in submission.batches for drawn in batch]

    assert len(set(numbers)) == len(numbers)


def test_both_orders_occur_within_the_pairs() -> None:
    order: list[str] = []

    def side(name: str) -> Fake:
        def noise() -> float:
            order.append(name)
            return 1.0

        return Fake(CALL_S, noise=noise)

    result = compared(side("baseline"), side("submission"), null=Fake(0.0))
    paired = order[-2 * Settings().attempts * len(result.signs) :]

    assert {tuple(paired[at : at + 2]) for at in range(0, len(paired), 2)} == {
        ("baseline", "submission"),
        ("submission", "baseline"),
    }


def test_a_baseline_that_slows_down_once_the_submission_is_there_is_noticed() -> None:
    baseline = Fake(CALL_S)
    submission = Fake(CALL_S)

    def answer(number: int) -> int:
        baseline.call_s = 2 * CALL_S
        return number

    submission.answer = answer

    assert compared(baseline, submission).contended
    assert not compared(Fake(CALL_S), Fake(CALL_S)).contended


def test_pairs_end_when_their_time_is_over() -> None:
    now = itertools.count()

    result = compared(Fake(CALL_S), Fake(CALL_S), settings=Settings(most_s=3, now_s=lambda: float(next(now))))

    assert result.answer is Answer.OPEN
    assert len(result.signs) == 2
