"""The sequential sign test: pairs of timed batches in random order until the signs decide.

Each pair gives one sign: True if the submission kept to the allowed ratio. Two bets are placed on the signs, one that
it keeps to the ratio and one that it does not. Each bet starts with 1, and multiplies its wealth by 1.6 when right and
by 0.4 when wrong.
With fair-coin signs, either bet reaches 100 with at most 1 % probability, even if checked after each pair (Ville's
inequality).
Only the median of the pairs' ratios matters: noise changes the number of pairs, not the error rate.

This module uses no process and no clock: `TimedSide` and `Settings.now_s` provide both, so that tests can simulate
them.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from statistics import median
from typing import Any, Protocol

import numpy as np

from gpututor.checks.model import Finding

STAKE = 0.6
"""Share of its wealth that each bet risks on the next sign."""
ENOUGH = 100.0
"""Wealth at which a bet has won: at most 1 in 100 does so by luck."""
FEWEST_PAIRS = 10
MOST_PAIRS = 60


class SignDecision(Enum):
    """Decision of the signs."""

    WITHIN = "within"
    BEYOND = "beyond"
    OPEN = "open"


def wealth_of_bets(within: int, beyond: int) -> tuple[float, float]:
    """Return the wealth of the bets on (`within`, `beyond`) after these counts of signs."""
    won, lost = math.log1p(STAKE), math.log1p(-STAKE)
    return math.exp(within * won + beyond * lost), math.exp(beyond * won + within * lost)


def decide(signs: Sequence[bool]) -> SignDecision:
    """Return the decision of `signs` (True: the pair kept to the ratio); `OPEN` before `FEWEST_PAIRS` of them."""
    if len(signs) < FEWEST_PAIRS:
        return SignDecision.OPEN
    within = sum(signs)
    for_within, for_beyond = wealth_of_bets(within, len(signs) - within)
    if for_within >= ENOUGH:
        return SignDecision.WITHIN
    return SignDecision.BEYOND if for_beyond >= ENOUGH else SignDecision.OPEN


def can_still_decide(signs: Sequence[bool]) -> bool:
    """Return True if the remaining pairs, up to `MOST_PAIRS`, could still decide."""
    left = MOST_PAIRS - len(signs)
    if left <= 0:
        return False
    within, beyond = sum(signs), len(signs) - sum(signs)
    return wealth_of_bets(within + left, beyond)[0] >= ENOUGH or wealth_of_bets(within, beyond + left)[1] >= ENOUGH


def quartiles(figures: Sequence[float]) -> tuple[float, float, float]:
    """Return the lower quartile, the median and the upper quartile of at least one figure, interpolated linearly."""
    low, middle, high = np.quantile(figures, (0.25, 0.5, 0.75)).tolist()
    return low, middle, high


Inputs = Sequence[dict[str, Any]]
Draw = Callable[[int], Inputs]
"""`draw(rounds)`: fresh inputs for that many rounds over the exercise's cases."""


@dataclass(frozen=True)
class TimedBatch:
    """A timed batch: from sending its inputs to holding its results, by the judge's clock."""

    elapsed_s: float
    outputs: Sequence[Any]
    size_bytes: int = 0
    """Bytes of inputs and results together."""


class TimedSide(Protocol):
    """A program that can be timed. Only one side runs at a time."""

    def time(self, inputs: Inputs) -> TimedBatch:
        """Call it once for each of `inputs`."""


@dataclass(frozen=True)
class SequentialSettings:
    """Parameters of the test. Only tests and benchmarks change them."""

    shortest_s: float = 5e-3
    """Least seconds of a baseline batch, without the round trip."""
    over_round_trip: float = 20.0
    """Least multiple of a single round's round trip that a baseline batch takes."""
    most_calls: int = 256
    most_bytes: int = 64 << 20
    """Bytes of inputs and results of a batch."""
    longest_s: float = 0.1
    """Seconds of an attempt at which batches stop growing: drawing and sending inputs, calls, and receiving results.

    A learner waits for at least 30 attempts.
    """
    least_share: float = 0.25
    """Least time of the baseline's own work, as a share of the null worker's: less cannot be measured."""
    attempts: int = 3
    """Batches of each side in a pair; the fastest counts, because noise only adds time."""
    warmups: int = 3
    baseline_samples: int = 5
    """Times of the baseline that are measured before the submission is loaded."""
    contention: float = 1.5
    """Multiple of these times beyond which a later median of the baseline means contention."""
    most_s: float = 90.0
    """Seconds of all pairs together."""
    now_s: Callable[[], float] = time.monotonic


@dataclass
class Comparison:
    """Measurements. Times are seconds of one batch, without the round trip of the null worker."""

    calls: int = 0
    baseline_before_s: float = 0.0
    null_s: float = 0.0
    baseline_s: list[float] = field(default_factory=list)
    submission_s: list[float] = field(default_factory=list)
    signs: list[bool] = field(default_factory=list)
    answer: SignDecision = SignDecision.OPEN
    wrong: Finding | None = None
    too_small: bool = False
    """True if the baseline's work is too short to measure next to the round trip."""
    contended: bool = False

    @property
    def ratios(self) -> list[float]:
        pairs = zip(self.submission_s, self.baseline_s, strict=True)
        return [submission / baseline for submission, baseline in pairs if baseline > 0]


class PairedComparison:
    """Comparison of a submission with a baseline. `verify` returns a finding if results are wrong."""

    def __init__(
        self,
        baseline: TimedSide,
        null: TimedSide,
        draw: Draw,
        verify: Callable[[Inputs, Sequence[Any]], Finding | None],
        coin: random.Random,
        settings: SequentialSettings | None = None,
    ) -> None:
        self._baseline, self._null, self._draw, self._verify, self._coin = baseline, null, draw, verify, coin
        self._settings = settings or SequentialSettings()
        self._rounds = 1
        self._nulls: list[float] = []
        self.result = Comparison()

    def prepare(self) -> None:
        """Size the batches, and time the baseline unless it is `too_small`, before the submission is loaded."""
        settings, result = self._settings, self.result
        for _ in range(settings.warmups):
            inputs = self._draw(1)
            self._null.time(inputs)
            self._baseline.time(inputs)
        self._size_batch()
        if result.too_small:
            return
        times = [self._least([self._baseline])[0] for _ in range(settings.baseline_samples)]
        result.null_s = median(self._nulls)
        result.baseline_before_s = median(times) - result.null_s

    def compare(
        self, submission: TimedSide, at_most: float, on_pair: Callable[[int], None] = lambda pairs: None
    ) -> Comparison:
        """Time pairs until the signs decide, cannot decide any more, or the time is up."""
        settings, result = self._settings, self.result
        until = settings.now_s() + settings.most_s
        for _ in range(settings.warmups):
            inputs = self._draw(self._rounds)
            if self._is_wrong(inputs, submission.time(inputs)):
                return result
        while can_still_decide(result.signs) and settings.now_s() < until:
            baseline_s, submission_s = self._least([self._baseline, submission], verified=submission)
            if result.wrong is not None:
                return result
            result.null_s = median(self._nulls)
            baseline_s, submission_s = baseline_s - result.null_s, submission_s - result.null_s
            result.baseline_s.append(baseline_s)
            result.submission_s.append(submission_s)
            result.signs.append(submission_s <= at_most * baseline_s)
            result.answer = decide(result.signs)
            on_pair(len(result.signs))
            if result.answer is not SignDecision.OPEN:
                break
        if result.baseline_s:
            result.contended = median(result.baseline_s) > settings.contention * result.baseline_before_s
        return result

    def _size_batch(self) -> None:
        """Find the number of rounds at which the baseline takes long enough, within the limits of the settings."""
        settings = self._settings
        single_s = 0.0
        while True:
            timed, baseline_s, null_s, attempt_s = self._try_batch()
            single_s = single_s or null_s
            own_s = baseline_s - null_s
            wanted_s = max(settings.shortest_s, settings.over_round_trip * single_s)
            if own_s >= wanted_s:
                break
            factor = min(wanted_s / own_s * 1.1, 8.0) if own_s > 0 else 8.0
            rounds = max(self._rounds + 1, round(self._rounds * factor))
            by_calls = settings.most_calls // (len(timed.outputs) // self._rounds)
            largest = min(by_calls, settings.most_bytes * self._rounds // max(1, timed.size_bytes))
            if own_s >= settings.least_share * null_s:  # otherwise only larger batches can show the baseline's work
                largest = min(largest, int(settings.longest_s * self._rounds / attempt_s))
            if largest <= self._rounds:
                break
            self._rounds = min(rounds, largest)
        self.result.calls = len(timed.outputs)
        self.result.too_small = own_s < settings.least_share * null_s or own_s <= 0
        self._nulls.clear()

    def _try_batch(self) -> tuple[TimedBatch, float, float, float]:
        """Return a timed baseline batch, and the least seconds of the baseline, the null worker and an attempt."""
        now_s, times = self._settings.now_s, []
        for _ in range(self._settings.attempts):
            began = now_s()
            timed, null = self._baseline.time(self._draw(self._rounds)), self._null.time(self._draw(self._rounds))
            # At least the sum of both times, even with the simulated clock of a test.
            attempt_s = max(now_s() - began, timed.elapsed_s + null.elapsed_s)
            times.append((timed.elapsed_s, null.elapsed_s, attempt_s))
        baseline_s, null_s, attempt_s = map(min, zip(*times, strict=True))
        return timed, baseline_s, null_s, attempt_s

    def _least(self, sides: list[TimedSide], verified: TimedSide | None = None) -> list[float]:
        """Return the least time of each side out of some attempts, each with fresh inputs and in random order."""
        least = [float("inf")] * len(sides)
        null_s = float("inf")
        for _ in range(self._settings.attempts):
            inputs = self._draw(self._rounds)
            null_s = min(null_s, self._null.time(inputs).elapsed_s)
            for index in self._coin.sample(range(len(sides)), len(sides)):
                timed = sides[index].time(inputs)
                least[index] = min(least[index], timed.elapsed_s)
                if sides[index] is verified:
                    answer = timed
            # After both were timed, so that the judge's own work disturbs neither.
            if verified is not None and self._is_wrong(inputs, answer):
                break
        self._nulls.append(null_s)
        return least

    def _is_wrong(self, inputs: Inputs, timed: TimedBatch) -> bool:
        self.result.wrong = self._verify(inputs, timed.outputs)
        return self.result.wrong is not None
