"""Tolerances that are too loose accept nonsense, and the audit finds them."""

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
    return {nonsense.kind: nonsense for nonsense in tolerances([structure(product), check], [drawn])}


def weak(check: Check, **drawn: Any) -> set[str]:
    return {kind for kind, nonsense in tried(check, **drawn).items() if nonsense.weak}


WIDE = {"x": randn(2, 100_000)}
K512 = {"a": randn(64, 512), "b": randn(512, 64, seed=1)}


def test_the_tiers_reject_all_nonsense() -> None:
    assert weak(parity(softmax), **WIDE) == set()
    assert {"zeros", "ones", "the mean", "the unchanged 'x'", "the transposed result", LOWER} == set(
        tried(parity(softmax), **WIDE)
    )


def test_gates_that_accept_a_constant_are_weak() -> None:
    loose = tried(parity(softmax, times=1e6), **WIDE)

    assert {"zeros", "the mean", LOWER} <= {kind for kind, nonsense in loose.items() if nonsense.weak}
    assert loose["zeros"].sentence.startswith("parity: zeros ")


def test_gates_close_to_half_precision_are_weak() -> None:
    near = tried(parity(product, times=10), **K512)

    assert {kind for kind, nonsense in near.items() if nonsense.weak} == {LOWER}
    assert "10 times are required" in near[LOWER].sentence
    assert "would be accepted" in tried(parity(product, times=100), **K512)[LOWER].sentence
    # An allowed lower precision is compared with the next lower.
    inside = tried(parity(product, inside=torch.float16), **K512)[LOWER]
    assert (inside.least, inside.weak) == (2, False)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_the_tiers_are_sound_in_each_dtype(dtype: torch.dtype) -> None:
    drawn = {name: tensor.to(dtype) for name, tensor in K512.items()}

    assert weak(parity(product), **drawn) == set()
    assert (LOWER in tried(parity(product), **drawn)) == (dtype is not torch.bfloat16)


def test_an_identity_is_excused_and_large_errors_of_references_are_weak() -> None:
    same = tried(parity(lambda x: x), x=randn(8, 8))

    assert same["the unchanged 'x'"].excused
    assert "another check" in same["the unchanged 'x'"].sentence
    assert not same["zeros"].excused

    def cancels(x: torch.Tensor) -> torch.Tensor:
        return (x + 1e6) - 1e6

    assert {"the mean", LOWER} <= weak(parity(cancels), x=randn(16, 16) * 0.05)


def test_a_single_rejecting_case_is_enough_for_each_part() -> None:
    check = parity(lambda x: {"a": x * 0, "b": x})
    by_part = {
        (nonsense.path, nonsense.kind): nonsense
        for nonsense in tolerances([check], [{"x": torch.zeros(3, 4)}, {"x": randn(3, 4)}])
    }

    assert by_part["a", "zeros"].excused
    assert not by_part["b", "zeros"].weak
    assert not by_part["b", "zeros"].excused


def test_whole_numbers_are_exact() -> None:
    x = torch.arange(12).reshape(3, 4)
    by_kind = tried(parity(lambda x: x + 1), x=x)

    assert not any(nonsense.weak or nonsense.excused for nonsense in by_kind.values())
    assert LOWER not in by_kind
