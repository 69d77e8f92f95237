"""Randomness: results that are random are judged by their distribution, never bit for bit.

Each test below fails an honest result with a probability under 1e-7: frequencies by Bernstein's inequality,
distribution functions by that of Dvoretzky, Kiefer, Wolfowitz and Massart, means and correlations at 6 standard
errors, variances at 8 (200,000 tries with 1,000 exponential numbers reached 5.5).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import torch

from gpututor.checks.core import Applies, Call, Check, Finding, Run, named
from gpututor.checks.laws import Law, Sampled, samples_of
from gpututor.checks.parity import leaves

Choice = Law | Sampled | Callable[[dict[str, Any]], Law | Sampled]
Pick = Callable[[torch.Tensor, dict[str, Any]], torch.Tensor]

WHY = (
    "Random numbers from the wrong distribution, or the same ones each time, make training and sampling wrong quietly."
)
LEAST = 1000
"""Elements below which a distribution cannot be told."""
CHANCE = 1e-8
"""Of an honest result to fail one test."""
_LOG = math.log(2 / CHANCE)
_MOST_DIFFERENT = 1 << 22
"""Elements among which repeated numbers are looked for."""
_MEAN_ERRORS, _VARIANCE_ERRORS = 6.0, 8.0


def distribution(
    law: Choice,
    *,
    part: str = "",
    of: Pick | None = None,
    again: Literal["differs", "agrees"] = "differs",
    name: str = "distribution",
    why: str = WHY,
    advice: str = "",
    on: Applies = "everywhere",
) -> Check:
    """The elements of the result at `part` are independent, and distributed as `law` says (or `law(drawn)`).

    `of(values, drawn)` makes the random numbers from that part, where they are not the part itself. Each case is called
    twice with the same inputs: the second result `differs`, or `agrees` where a seed is among them.
    """

    def find(run: Run) -> Finding | None:
        for calls in run.repeated:
            chosen = law(calls[0].drawn) if not isinstance(law, Law | Sampled) else law
            numbers = [_numbers(call, part, of) for call in calls]
            wrong = _missing(numbers, part) or _too_few(numbers) or _repeated(numbers, again)
            if wrong is None:
                found = next(
                    filter(None, (_off(one, chosen, calls[0].drawn) for one in numbers if one is not None)), None
                )
                wrong = None if found is None else (f"{found[0]} ({chosen.name})", *found[1:])
            if wrong is not None:
                expected, got, cause = wrong
                words = f"{named(part)}: {got}{run.which(calls[0])}"
                return Finding(expected, words, run.line_of(calls[0]), advice=cause)
        return None

    return Check(
        name,
        lambda _: "The random numbers have the right distribution",
        find,
        ("structure",),
        why,
        advice,
        on,
        repeats=2,
        kind="values",
    )


_Wrong = tuple[str, str, str]
"""What was expected, what came, what to do."""


def _numbers(call: Call, part: str, of: Pick | None) -> torch.Tensor | None:
    values = leaves(call.output).get(part)
    if values is None:
        return None
    return values if of is None else of(values, call.drawn)


def _missing(numbers: list[torch.Tensor | None], part: str) -> _Wrong | None:
    if all(one is not None for one in numbers):
        return None
    return f"a tensor at {named(part)}", "no tensor there", "Return what the task asks for."


def _too_few(numbers: list[torch.Tensor | None]) -> _Wrong | None:
    """Also where the author draws inputs for too few: the solution fails then, too."""
    least = min((one.numel() for one in numbers if one is not None), default=0)
    if least >= LEAST:
        return None
    return f"{LEAST:,} random numbers or more in a call", f"only {least:,}", "Return as many as the task asks for."


def _repeated(numbers: list[torch.Tensor | None], again: str) -> _Wrong | None:
    one, other = numbers[0], numbers[1] if len(numbers) > 1 else None
    if one is None or other is None:
        return None
    same = one.shape == other.shape and torch.equal(one, other)
    if same and again == "differs":
        cause = "Look for manual_seed inside of the function, for a generator made anew, and for a result that is kept."
        return "other random numbers in each call", "the same numbers in two calls", cause
    if not same and again == "agrees":
        cause = "Pass the seed, or the generator made from it, to every function that draws."
        return "the same numbers from the same seed", "other numbers in the second call", cause
    return None


def _off(numbers: torch.Tensor, law: Law | Sampled, drawn: dict[str, Any]) -> _Wrong | None:
    """The first test that the numbers fail."""
    eps = torch.finfo(numbers.dtype).eps if numbers.is_floating_point() else 0.0
    values = numbers.detach().flatten().double()
    if not bool(values.isfinite().all()):
        return "finite numbers", "inf or nan among them", "Look at the steps that make the random numbers."
    if isinstance(law, Sampled):
        right = samples_of(law, drawn, max(100_000, values.numel()))
        return _unlike_samples(values, right, eps) or _depends(values)
    slack = 4 * eps * max(abs(law.low), abs(law.high)) if math.isfinite(law.high - law.low) else eps
    low, high = float(values.min()), float(values.max())
    if low < law.low - slack or high > law.high + slack:
        got = f"numbers from {low:.4g} to {high:.4g}"
        return f"numbers from {law.low:g} to {law.high:g}", got, "Look at the scale and the offset."
    if law.chances:
        return _frequencies_off(values, law, eps) or _depends(values)
    return (
        _moments_off(values, law, eps) or _distance_off(values, law, eps) or _repeats(values, eps) or _depends(values)
    )


def _moments_off(values: torch.Tensor, law: Law, eps: float) -> _Wrong | None:
    count, std = values.numel(), math.sqrt(law.variance)
    mean, variance = float(values.mean()), float((values - law.mean).square().mean())
    allowed = _MEAN_ERRORS * std / math.sqrt(count) + eps * (abs(law.mean) + std)
    if abs(mean - law.mean) > allowed:
        return f"a mean of {law.mean:.4g} ± {allowed:.1g}", f"a mean of {mean:.4g}", "Look at the offset."
    allowed = _VARIANCE_ERRORS * math.sqrt((law.fourth - law.variance**2) / count) + 4 * eps * law.variance
    if abs(variance - law.variance) > allowed:
        got = f"a variance of {variance:.4g}"
        cause = "Look at the scale: a standard deviation is the root of a variance."
        return f"a variance of {law.variance:.4g} ± {allowed:.1g}", got, cause
    return None


def _distance_off(values: torch.Tensor, law: Law, eps: float) -> _Wrong | None:
    """Kolmogorov and Smirnov: the largest distance between the two distribution functions."""
    assert law.cdf is not None
    ranks = torch.arange(1, values.numel() + 1, dtype=torch.float64) / values.numel()
    right = law.cdf(values.sort().values)
    distance = float(torch.maximum((ranks - right).abs(), (right - ranks + 1 / values.numel()).abs()).max())
    return _too_far(distance, math.sqrt(_LOG / (2 * values.numel())) + eps)


def _unlike_samples(values: torch.Tensor, right: torch.Tensor, eps: float) -> _Wrong | None:
    ours, theirs = values.sort().values, right.sort().values
    points = torch.cat([ours, theirs])
    shares = [torch.searchsorted(one, points, right=True).double() / one.numel() for one in (ours, theirs)]
    n, m = ours.numel(), theirs.numel()
    return _too_far(float((shares[0] - shares[1]).abs().max()), math.sqrt(_LOG * (n + m) / (2 * n * m)) + eps)


def _too_far(distance: float, allowed: float) -> _Wrong | None:
    if distance <= allowed:
        return None
    return (
        f"a distribution function within {allowed:.2g} of the right one",
        f"it is {distance:.2g} away",
        "The mean and the variance do not make a distribution: draw from the one that the task names.",
    )


def _frequencies_off(values: torch.Tensor, law: Law, eps: float) -> _Wrong | None:
    places = [(values - value).abs() <= 4 * eps * abs(value) for value, _ in law.chances]
    known = torch.stack(places).any(0)
    if not bool(known.all()):
        odd = float(values[~known][0])
        only = ", ".join(f"{value:g}" for value, _ in law.chances[:6])
        return f"only the values {only}", f"{odd:.6g} among them", "Look at the scale of what is kept."
    count = values.numel()
    for (value, chance), here in zip(law.chances, places, strict=True):
        share = float(here.double().mean())
        # Bernstein's inequality for a share of independent trials.
        allowed = math.sqrt(2 * chance * (1 - chance) * _LOG / count) + _LOG / (3 * count)
        if abs(share - chance) > allowed:
            wanted = f"{value:g} in {chance:.1%} ± {allowed:.1%} of the elements"
            advice = "Look at the probability, and whether it is that of the other value."
            return wanted, f"{value:g} in {share:.1%} of them", advice
    return None


def _repeats(values: torch.Tensor, eps: float) -> _Wrong | None:
    """A few numbers used many times. Float32 has 2^24 of them from 0 to 1: honest ones seldom meet."""
    count = values.numel()
    if eps > 1e-6 or count > _MOST_DIFFERENT:
        return None
    different = int(values.unique().numel())
    if different >= count / 2:
        return None
    return (
        f"{count:,} different numbers, or nearly",
        f"only {different:,} different ones",
        "Draw every element by itself.",
    )


def _depends(values: torch.Tensor) -> _Wrong | None:
    """Neighbours that depend on each other: a ramp, sorted numbers, a row that is repeated."""
    centred = values - values.mean()
    size = float(centred.square().sum())
    if size == 0:
        return None
    correlation = float((centred[1:] * centred[:-1]).sum()) / size
    allowed = _MEAN_ERRORS / math.sqrt(values.numel()) + 2 / values.numel()
    if abs(correlation) > allowed:
        got = f"neighbouring elements with a correlation of {correlation:.2f}"
        return f"independent elements (a correlation within ± {allowed:.1g})", got, "Draw every element by itself."
    return None
