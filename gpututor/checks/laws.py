"""Distributions that random results are compared with, named or given by a sampler of the author's."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from gpututor.errors import CourseError


@dataclass(frozen=True)
class Law:
    """The distribution of each element; elements are independent of each other."""

    name: str
    mean: float
    variance: float
    fourth: float
    """The fourth central moment: it says how exactly a variance is known."""
    low: float
    high: float
    cdf: Callable[[torch.Tensor], torch.Tensor] | None = None
    """For float64 tensors; None for a law with few values."""
    chances: tuple[tuple[float, float], ...] = ()
    """(value, probability), for a law with few values."""


@dataclass(frozen=True)
class Sampled:
    """The distribution of what `sampler(generator, **drawn)` gives."""

    sampler: Callable[..., torch.Tensor]
    name: str = "the author's samples"


def uniform(low: float = 0.0, high: float = 1.0) -> Law:
    """Evenly from `low` to `high`."""
    _check(low < high, f"uniform({low}, {high})", "`low` has to be below `high`.")
    width = high - low
    return Law(
        f"uniform from {low:g} to {high:g}",
        (low + high) / 2,
        width**2 / 12,
        width**4 / 80,
        low,
        high,
        lambda x: ((x - low) / width).clamp(0, 1),
    )


def normal(mean: float = 0.0, std: float = 1.0) -> Law:
    """The normal distribution."""
    _check(std > 0, f"normal({mean}, {std})", "`std` has to be above 0.")
    return Law(
        f"normal with mean {mean:g} and standard deviation {std:g}",
        mean,
        std**2,
        3 * std**4,
        -math.inf,
        math.inf,
        lambda x: torch.special.ndtr((x - mean) / std),
    )


def exponential(rate: float = 1.0) -> Law:
    """The exponential distribution, of mean 1/rate."""
    _check(rate > 0, f"exponential({rate})", "`rate` has to be above 0.")
    return Law(
        f"exponential with rate {rate:g}",
        1 / rate,
        1 / rate**2,
        9 / rate**4,
        0.0,
        math.inf,
        lambda x: -torch.expm1(-rate * x.clamp_min(0)),
    )


def few_values(chances: dict[float, float]) -> Law:
    """Each value with its probability: `{0.0: 0.1, 1 / 0.9: 0.9}` for a dropout of ones."""
    possible = {value: chance for value, chance in chances.items() if chance > 0}
    total = sum(chances.values())
    _check(
        bool(possible) and min(chances.values()) >= 0 and math.isclose(total, 1, abs_tol=1e-9),
        f"few_values({chances})",
        "Give probabilities that are not negative and add up to 1.",
    )

    def moment(power: int, around: float) -> float:
        return sum(chance * (value - around) ** power for value, chance in possible.items())

    mean = moment(1, 0.0)
    words = ", ".join(f"{value:g} with probability {chance:g}" for value, chance in list(possible.items())[:4])
    return Law(
        words + (", …" if len(possible) > 4 else ""),
        mean,
        moment(2, mean),
        moment(4, mean),
        min(possible),
        max(possible),
        None,
        tuple(sorted(possible.items())),
    )


def _check(holds: bool, what: str, advice: str) -> None:
    if not holds:
        raise CourseError(what, advice)


def samples_of(sampled: Sampled, drawn: dict[str, Any], least: int) -> torch.Tensor:
    """At least `least` numbers of the sampler, from seeds of their own. Raises `CourseError` when it breaks."""
    parts: list[torch.Tensor] = []
    have = 0
    for seed in range(1, 1001):
        try:
            part = sampled.sampler(torch.Generator().manual_seed(seed), **drawn).flatten().double()
        except Exception as error:
            words = f"The exercise's own sampler failed: {type(error).__name__}: {error}"
            raise CourseError(words, "Mend the exercise's checks.py.") from error
        parts.append(part)
        have += part.numel()
        if have >= least:
            return torch.cat(parts)
    raise CourseError(
        f"1,000 calls of the exercise's sampler gave {have:,} numbers, not {least:,}", "Let it return more."
    )
