"""The sequential sign test: pairs of timed batches in random order until the signs decide.

Each pair of times gives one sign: whether the submission kept to the allowed ratio. Two bets are made on the signs,
one on `it keeps to it` and one on `it does not`; each multiplies what it has by 1 + 0.6 where it is right and by 1 -
0.6 where it is wrong. Were the signs a fair coin, neither could reach 100 with more than 1 % probability, however
often one looks (Ville's inequality). Only the median of the pairs' ratios matters: how wild the noise is changes how
many pairs it takes, not how often the answer is wrong.

No process and no clock is touched here: `Side` and `Settings.now_s` bring both, so that tests can simulate them.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

from gpututor.checks.model import Finding

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


def log_evidence(within: int, beyond: int) -> tuple[float, float]:
    """What the two bets have made of 1, after so many signs of either kind: (for `within`, for `beyond`)."""
    won, lost = math.log1p(STAKE), math.log1p(-STAKE)
    return math.exp(within * won + beyond * lost), math.exp(beyond * won + within * lost)


def decide(signs: Sequence[bool], fewest: int = FEWEST_PAIRS) -> Answer:
    """What `signs` (True: the pair kept to the ratio) say so far; `OPEN` before `fewest` of them."""
    within = sum(signs)
    for_within, for_beyond = log_evidence(within, len(signs) - within)
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
    return log_evidence(within + left, beyond)[0] >= ENOUGH or log_evidence(within, beyond + left)[1] >= ENOUGH


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


Inputs = Sequence[dict[str, Any]]
Draw = Callable[[int], Inputs]
"""`draw(rounds)`: fresh inputs for so many rounds over the exercise's cases."""
Tell = Callable[[int], None]
"""Called with the number of pairs that were timed, after each."""


def tell_nobody(pairs: int) -> None:
    """A `Tell` for where nobody waits."""


@dataclass(frozen=True)
class Timed:
    """One batch: from revealing its inputs to holding its results, by the judge's clock."""

    elapsed_s: float
    outputs: Sequence[Any]
    size_bytes: int = 0
    """Of inputs and results together."""


class Side(Protocol):
    """What can be timed. Only one side runs at a time."""

    def time(self, inputs: Inputs) -> Timed:
        """Call it once for each of `inputs`."""


@dataclass(frozen=True)
class Settings:
    """The design's figures. Tests and benchmarks may change them."""

    shortest_s: float = 5e-3
    """A batch of the baseline takes at least this long, without the round trip …"""
    over_round_trip: float = 20.0
    """… and so many times the round trip of a single round of calls."""
    most_calls: int = 256
    """In a batch."""
    most_bytes: int = 64 << 20
    """Of inputs and results in a batch."""
    longest_s: float = 0.5
    """A batch that takes longer is not made larger."""
    least_share: float = 0.25
    """The baseline's own work is at least this part of the round trip of its batch: below, nobody can tell."""
    attempts: int = 3
    """Batches of each side in a pair; the fastest counts, for noise only ever adds."""
    warm_ups: int = 3
    before: int = 5
    """Times of the baseline that are taken before the submission is loaded."""
    contention: float = 1.5
    """The baseline may later take so many times what it took before."""
    most_s: float = 90.0
    """All pairs together."""
    now_s: Callable[[], float] = time.monotonic


@dataclass
class Comparison:
    """What was measured. Times are seconds for one batch, the null's round trip subtracted."""

    calls: int = 0
    """In a batch."""
    baseline_before_s: float = 0.0
    null_s: float = 0.0
    baseline_s: list[float] = field(default_factory=list)
    submission_s: list[float] = field(default_factory=list)
    signs: list[bool] = field(default_factory=list)
    answer: Answer = Answer.OPEN
    wrong: Finding | None = None
    """What a timed result was wrong in."""
    too_small: bool = False
    """The baseline's work is lost in the round trip."""
    contended: bool = False

    @property
    def ratios(self) -> list[float]:
        pairs = zip(self.submission_s, self.baseline_s, strict=True)
        return [submission / baseline for submission, baseline in pairs if baseline > 0]


class PairedComparison:
    """Times a submission beside a baseline. `verify` says what is wrong with results, or None."""

    def __init__(
        self,
        baseline: Side,
        null: Side,
        draw: Draw,
        verify: Callable[[Inputs, Sequence[Any]], Finding | None],
        coin: random.Random,
        settings: Settings | None = None,
    ) -> None:
        self._baseline = baseline
        self._null = null
        self._draw = draw
        self._verify = verify
        self._coin = coin
        self._settings = settings or Settings()
        self._rounds = 1
        self._nulls: list[float] = []
        self.result = Comparison()

    def prepare(self) -> None:
        """Before there is a submission: how many calls make a batch, and what the baseline takes for one.

        Without enough work to tell, `result.too_small` is set.
        """
        settings, result = self._settings, self.result
        for _ in range(settings.warm_ups):
            inputs = self._draw(1)
            self._null.time(inputs)
            self._baseline.time(inputs)
        self._size_batch()
        if result.too_small:
            return
        times = [self._least([self._baseline])[0] for _ in range(settings.before)]
        result.null_s = median(self._nulls)
        result.baseline_before_s = median(times) - result.null_s

    def compare(self, submission: Side, at_most: float, tell: Tell = tell_nobody) -> Comparison:
        """Pairs until the signs tell whether `submission` keeps to `at_most` times the baseline, or until the cap."""
        settings, result = self._settings, self.result
        until = settings.now_s() + settings.most_s
        for _ in range(settings.warm_ups):
            inputs = self._draw(self._rounds)
            if self._is_wrong(inputs, submission.time(inputs)):
                return result
        while can_still_tell(result.signs) and settings.now_s() < until:
            baseline_s, submission_s = self._least([self._baseline, submission], verified=submission)
            if result.wrong is not None:
                return result
            result.null_s = median(self._nulls)
            baseline_s, submission_s = baseline_s - result.null_s, submission_s - result.null_s
            result.baseline_s.append(baseline_s)
            result.submission_s.append(submission_s)
            result.signs.append(submission_s <= at_most * baseline_s)
            result.answer = decide(result.signs)
            tell(len(result.signs))
            if result.answer is not Answer.OPEN:
                break
        if result.baseline_s:
            result.contended = median(result.baseline_s) > settings.contention * result.baseline_before_s
        return result

    def _size_batch(self) -> None:
        """As many rounds as the baseline needs to stand out of the round trip."""
        settings = self._settings
        single_s = 0.0
        while True:
            baseline_s, null_s, timed = self._tried()
            single_s = single_s or null_s
            own_s = baseline_s - null_s
            wanted_s = max(settings.shortest_s, settings.over_round_trip * single_s)
            if own_s >= wanted_s:
                break
            factor = min(wanted_s / own_s * 1.1, 8.0) if own_s > 0 else 8.0
            rounds = max(self._rounds + 1, round(self._rounds * factor))
            calls_a_round = len(timed.outputs) // self._rounds
            roomy = min(
                settings.most_calls // calls_a_round,
                settings.most_bytes * self._rounds // max(1, timed.size_bytes),
                int(settings.longest_s * self._rounds / baseline_s),
            )
            if roomy <= self._rounds:
                break
            self._rounds = min(rounds, roomy)
        self.result.calls = len(timed.outputs)
        self.result.too_small = own_s < settings.least_share * null_s or own_s <= 0
        self._nulls.clear()

    def _tried(self) -> tuple[float, float, Timed]:
        """The least times of the baseline and the null for a batch of the size of now."""
        answers = [self._baseline.time(self._draw(self._rounds)) for _ in range(self._settings.attempts)]
        nulls = [self._null.time(self._draw(self._rounds)) for _ in range(self._settings.attempts)]
        return min(one.elapsed_s for one in answers), min(one.elapsed_s for one in nulls), answers[0]

    def _least(self, sides: list[Side], verified: Side | None = None) -> list[float]:
        """The least time of each side out of some attempts, each with fresh inputs and in random order."""
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

    def _is_wrong(self, inputs: Inputs, timed: Timed) -> bool:
        self.result.wrong = self._verify(inputs, timed.outputs)
        return self.result.wrong is not None
