"""Honest random numbers pass; wrong laws, constants, copies and dependent numbers fail, each with its reason."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from gpututor.checks import Sampled, distribution, exponential, few_values, normal, uniform
from gpututor.checks.core import Check, Run
from gpututor.checks.laws import Law
from gpututor.errors import CourseError
from tests.unit.checks.runs import found, observed, run_of

N = 4000
CHANCE = torch.Generator()
Draw = Callable[[], torch.Tensor]


def flat() -> torch.Tensor:
    return torch.rand(N, generator=CHANCE)


def bell() -> torch.Tensor:
    return torch.randn(N, generator=CHANCE)


def decay() -> torch.Tensor:
    return torch.empty(N).exponential_(2.0, generator=CHANCE)


def kept(chance: float = 0.9) -> torch.Tensor:
    return (torch.rand(N, generator=CHANCE) < chance) / 0.9


def dropout(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.dropout(x, 0.1)


def run_with(*outputs: Any, drawn: dict[str, Any] | None = None) -> Run:
    run = run_of(None, drawn)
    calls = tuple(replace(run.calls[0], output=observed(output)) for output in outputs)
    return replace(run, calls=calls[:1], repeated=(calls,))


def judged(check: Check, draw: Draw, seed: int = 1) -> Any:
    CHANCE.manual_seed(seed)
    return check.find(run_with(draw(), draw()))


DROPPED = few_values({0.0: 0.1, 1 / 0.9: 0.9})
HONEST: list[tuple[Law | Sampled, Draw]] = [
    (uniform(), flat),
    (uniform(-3, 5), lambda: 8 * flat() - 3),
    (normal(), bell),
    (normal(4, 0.5), lambda: 0.5 * bell() + 4),
    (normal(), lambda: bell().half()),
    (normal(), lambda: bell().bfloat16()),
    (uniform(), lambda: flat().bfloat16()),
    (exponential(2), decay),
    (DROPPED, kept),
    (few_values({float(face): 1 / 6 for face in range(6)}), lambda: torch.randint(0, 6, (N,), generator=CHANCE)),
    (Sampled(lambda generator: torch.randn(500, generator=generator) ** 3), lambda: bell() ** 3),
]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("number", range(len(HONEST)))
def test_honest_numbers_pass(number: int, seed: int) -> None:
    law, draw = HONEST[number]

    assert judged(distribution(law), draw, seed) is None


WRONG: list[tuple[Law | Sampled, Draw, str]] = [
    (uniform(), lambda: 1.1 * flat(), "numbers from"),
    (uniform(), lambda: 0.8 * flat(), "a mean of"),
    (uniform(), lambda: flat().sqrt(), "a mean of"),
    (normal(), lambda: 1.3 * bell(), "a variance of 1.7"),
    (normal(), lambda: bell() + 0.2, "a mean of 0."),
    (normal(), lambda: (flat() - 0.5) * math.sqrt(12), "away"),
    (normal(), lambda: flat().round() * 2 - 1, "away"),
    (normal(), lambda: bell().sort().values, "correlation"),
    (uniform(), lambda: (torch.arange(N) + flat()[0]) / N, "correlation"),
    (normal(), lambda: bell()[:1000].repeat(4), "only 1,000 different ones"),
    (exponential(2), lambda: decay() * 2, "a mean of"),
    (DROPPED, lambda: kept(0.8), "0 in 19.9% of them"),
    (DROPPED, lambda: kept() * 0.9, "1 among them"),
    (Sampled(lambda generator: torch.randn(500, generator=generator) ** 3), bell, "away"),
    (normal(), lambda: bell() / 0, "inf or nan"),
    (normal(), lambda: torch.zeros(N) + flat()[0] / 1000, "variance"),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_wrong_numbers_fail_with_their_reason(number: int) -> None:
    law, draw, words = WRONG[number]

    finding = judged(distribution(law), draw)

    assert finding is not None
    assert words in finding.got
    assert finding.advice
    assert law.name in finding.expected


def test_two_calls_must_differ_unless_a_seed_is_among_the_inputs() -> None:
    one, other = bell(), bell()

    assert "the same numbers in two calls" in found(distribution(normal()), run_with(one, one)).got
    assert distribution(normal(), again="agrees").find(run_with(one, one)) is None
    assert "other numbers in the second" in found(distribution(normal(), again="agrees"), run_with(one, other)).got
    assert distribution(normal()).repeats == 2


def test_both_calls_are_judged() -> None:
    assert distribution(normal()).find(run_with(bell(), bell() + 1)) is not None


@pytest.mark.parametrize("short", [torch.randn(10), torch.empty(0), torch.randn(())])
def test_too_few_numbers_are_a_failure(short: torch.Tensor) -> None:
    for outputs in ((short, bell()), (bell(), short)):
        assert found(distribution(normal()), run_with(*outputs)).got.startswith("the result: only ")


def test_a_law_may_depend_on_the_inputs_and_the_numbers_on_the_result() -> None:
    x = torch.rand(N) + 1
    check = distribution(
        lambda drawn: few_values({0.0: drawn["p"], 1 / (1 - drawn["p"]): 1 - drawn["p"]}),
        part="y",
        of=lambda values, drawn: values / drawn["x"],
    )
    drawn = {"x": x, "p": 0.1}

    right = [{"y": dropout(x)} for _ in range(2)]
    assert check.find(run_with(*right, drawn=drawn)) is None
    finding = found(check, run_with({"y": x}, {"y": dropout(x)}, drawn=drawn))
    assert finding.got.startswith("result['y']: 1 among them")
    assert "no tensor there" in found(check, run_with({"z": x}, {"z": x}, drawn=drawn)).got


def test_moments_of_the_laws_are_right() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(1_000_000, generator=generator, dtype=torch.float64)
    for law, values in (
        (uniform(2, 5), 2 + 3 * x),
        (exponential(3), -torch.log1p(-x) / 3),
        (normal(1, 2), 1 + 2 * torch.special.ndtri(x)),
        (few_values({0.0: 0.25, 2.0: 0.75}), (x < 0.75) * 2.0),
    ):
        assert law.mean == pytest.approx(float(values.mean()), rel=0.01)
        assert law.variance == pytest.approx(float(values.var()), rel=0.01)
        assert law.fourth == pytest.approx(float((values - law.mean).pow(4).mean()), rel=0.05)
        if law.cdf is not None:
            assert float(law.cdf(values.median())) == pytest.approx(0.5, abs=0.005)


@pytest.mark.parametrize(
    "make",
    [
        lambda: uniform(1, 1),
        lambda: normal(0, 0),
        lambda: exponential(-1),
        lambda: few_values({0.0: 0.5}),
        lambda: few_values({}),
        lambda: few_values({0.0: -0.5, 1.0: 1.5}),
        lambda: distribution(Sampled(lambda generator: torch.ones(1))).find(run_with(bell(), bell())),
        lambda: distribution(Sampled(lambda: torch.ones(1))).find(run_with(bell(), bell())),
    ],
)
def test_what_the_author_got_wrong_is_told(make: Callable[[], object]) -> None:
    with pytest.raises(CourseError):
        make()
