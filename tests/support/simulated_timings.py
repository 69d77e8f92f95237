"""Sides of a comparison that take simulated time, with noise from a seed."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from gpututor.checks.model import Finding
from gpututor.judge.timing.sequential_test import Comparison, Inputs, PairedComparison, Settings, Timed

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

    def time(self, inputs: Inputs) -> Timed:
        self.batches.append(inputs)
        elapsed_s = (self.round_trip_s + self.call_s * len(inputs)) * self.noise()
        return Timed(elapsed_s, [self.answer(drawn["number"]) for drawn in inputs], 8 * len(inputs))


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
    settings: Settings | None = None,
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
