"""Tolerances that are too loose are found by trying nonsense on them."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from gpututor.checks import parity, structure
from gpututor.checks.model import Check
from gpututor.checks.tolerance_audit import LOWER, Nonsense, tolerances


def randn(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, -1)


def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a @ b


def tried(check: Check, **drawn: Any) -> dict[str, Nonsense]:
    return {one.kind: one for one in tolerances([structure(product), check], [drawn])}


def weak(check: Check, **drawn: Any) -> set[str]:
    return {kind for kind, one in tried(check, **drawn).items() if one.weak}


WIDE = {"x": randn(2, 100_000)}
K512 = {"a": randn(64, 512), "b": randn(512, 64, seed=1)}


def test_the_tiers_reject_everything_for_a_wide_softmax_and_a_long_product() -> None:
    assert weak(parity(softmax), **WIDE) == set()
    assert weak(parity(product), **K512) == set()
    assert {"zeros", "ones", "the mean", "the unchanged 'x'", "the transposed result", LOWER} == set(
        tried(parity(softmax), **WIDE)
    )


def test_gates_that_would_accept_a_constant_for_a_wide_softmax_are_found() -> None:
    loose = tried(parity(softmax, times=1e6), **WIDE)

    assert {"zeros", "the mean", LOWER} <= {kind for kind, one in loose.items() if one.weak}
    assert loose["zeros"].sentence == "parity: zeros for the result would be accepted"


def test_gates_that_come_near_to_half_precision_are_found_for_a_long_product() -> None:
    near = tried(parity(product, times=10), **K512)

    assert {kind for kind, one in near.items() if one.weak} == {LOWER}
    assert "times off what is allowed; 10 times are wanted" in near[LOWER].sentence
    assert "would be accepted" in tried(parity(product, times=100), **K512)[LOWER].sentence


def test_what_may_be_lower_inside_is_measured_by_the_precision_below_that() -> None:
    inside = tried(parity(product, inside=torch.float16), **K512)

    assert inside[LOWER].least == 2
    assert not inside[LOWER].weak


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_the_tiers_are_sound_in_each_dtype(dtype: torch.dtype) -> None:
    drawn = {name: tensor.to(dtype) for name, tensor in K512.items()}

    assert weak(parity(product), **drawn) == set()
    assert (LOWER in tried(parity(product), **drawn)) == (dtype is not torch.bfloat16)


def test_an_identity_is_excused_and_named() -> None:
    same = tried(parity(lambda x: x), x=randn(8, 8))

    assert same["the unchanged 'x'"].excused
    assert "is the right result: another check" in same["the unchanged 'x'"].sentence
    assert not same["zeros"].excused


def test_one_case_that_rejects_is_enough_and_no_other_part_counts_for_it() -> None:
    check = parity(lambda x: {"a": x * 0, "b": x})
    found = {(one.path, one.kind): one for one in tolerances([check], [{"x": torch.zeros(3, 4)}, {"x": randn(3, 4)}])}

    assert found["a", "zeros"].excused
    assert not found["b", "zeros"].weak
    assert not found["b", "zeros"].excused


def test_a_reference_whose_own_error_is_large_makes_gates_that_nonsense_comes_near() -> None:
    def cancels(x: torch.Tensor) -> torch.Tensor:
        return (x + 1e6) - 1e6

    assert {"the mean", LOWER} <= weak(parity(cancels), x=randn(16, 16) * 0.05)


def test_whole_numbers_are_exact() -> None:
    x = torch.arange(12).reshape(3, 4)
    found = tried(parity(lambda x: x + 1), x=x)

    assert not any(one.weak or one.excused for one in found.values())
    assert LOWER not in found
