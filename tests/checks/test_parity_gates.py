"""Gates at the edges of what dtypes can hold, chains of operators, and the causes that are named."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from gpututor.checks import parity
from gpututor.checks.parity import compare_with_reference
from gpututor.checks.tolerances import TIERS, errors_of, gates_for_dtype
from gpututor.errors import CourseError
from tests.support.check_runs import found, observed, run_of

F32, F64 = torch.float32, torch.float64
ALL = list(TIERS)


def randn(*shape: int, dtype: torch.dtype = F64, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def advice(got: torch.Tensor, ref: torch.Tensor) -> str:
    finding = compare_with_reference(got, ref)
    assert finding is not None
    return finding.advice


@pytest.mark.parametrize("dtype", ALL, ids=str)
@pytest.mark.parametrize("shape", [(), (1,), (0,), (0, 3), (3, 0), (1, 1), (2, 3, 4)], ids=str)
def test_shapes_at_the_edge_are_compared_in_every_dtype(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    ref = randn(*shape, dtype=torch.complex128 if dtype.is_complex else F64) + 2

    assert compare_with_reference(ref.to(dtype), ref) is None
    if ref.numel():
        assert compare_with_reference((1.5 * ref).to(dtype), ref) is not None
        assert compare_with_reference(torch.zeros_like(ref, dtype=dtype), ref) is not None


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1e160, 1e300])
def test_squares_that_leave_the_range_of_float64_hide_nothing(scale: float) -> None:
    ref = randn(5, 7) * scale

    assert compare_with_reference(ref.clone(), ref) is None
    assert compare_with_reference(ref * 1.001, ref) is not None
    assert compare_with_reference(torch.zeros_like(ref), ref) is not None
    assert compare_with_reference(-ref * 1e7 if scale < 1 else -ref, ref) is not None


def test_what_a_dtype_cannot_hold_may_be_inf_and_nothing_else_may() -> None:
    ref = torch.tensor([70_000.0, -70_000.0, 1.0], dtype=F64)
    inf = math.inf

    assert compare_with_reference(ref.half(), ref) is None
    assert compare_with_reference(torch.tensor([inf, inf, 1.0]).half(), ref) is not None
    assert compare_with_reference(torch.tensor([inf, -inf, inf]).half(), ref) is not None
    assert compare_with_reference(ref.float().where(ref < 2, torch.tensor(inf)), ref) is not None


def test_numbers_below_the_smallest_normal_one_may_be_flushed_to_zero() -> None:
    ref = torch.tensor([1e-40, 3e-39, 0.0], dtype=F64)

    assert compare_with_reference(torch.zeros(3), ref) is None
    assert compare_with_reference(torch.full((3,), 1e-36), ref) is not None
    assert compare_with_reference((ref * 1e33).half(), ref * 1e33) is None


def test_complex_results_are_compared_and_conjugates_are_named() -> None:
    ref = randn(4, 4, dtype=torch.complex128)

    assert compare_with_reference(ref.to(torch.complex64), ref) is None
    assert "conjugate" in advice(ref.conj().to(torch.complex64), ref)
    assert compare_with_reference(ref.real.float(), ref) is not None


def test_whole_numbers_are_no_result_where_the_reference_has_fractions() -> None:
    assert compare_with_reference(torch.tensor([0, 0]), torch.tensor([0.3, 0.7], dtype=F64)) is not None
    assert compare_with_reference(torch.tensor([1.0, 2.0]), torch.tensor([1, 2])) is not None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda ref: ref.mT, "transposed"),
        (lambda ref: ref.mT.contiguous().reshape(ref.shape), "transposed"),
        (lambda ref: -ref, "sign"),
        (lambda ref: 2 * ref, "is 2 times"),
        (lambda ref: ref / 16, "is 1/16 times"),
        (lambda ref: -3 * ref, "is -3 times"),
        (lambda ref: ref / -5, "is -1/5 times"),
        (lambda ref: ref / math.sqrt(2), "is 0.7071 times"),
        (lambda ref: ref + 0.25, "off by the same +0.25"),
        (lambda ref: ref.flip(0), "another order"),
        (lambda ref: torch.zeros_like(ref), "all zeros"),
        (lambda ref: torch.relu(ref), "far more than any rounding"),
        (lambda ref: torch.where(ref == ref.max(), 0.0, ref), "All the other elements are right"),
        (lambda ref: ref * (1 + 2e-3 * randn(16, 16, seed=1)), "e-03: an error as large as that of bfloat16"),
        (lambda ref: ref * (1 + 3e-4 * randn(16, 16, seed=1)), "e-04: an error as large as that of TF32 or float16"),
        (lambda ref: ref * (1 + 3e-5 * randn(16, 16, seed=1)), "nearly right"),
        (lambda ref: ref * (1 + 1.6e-2 * randn(16, 16, seed=1)), "nearly right"),
        (lambda ref: torch.where(ref > 2, math.nan, ref), "NaN comes from"),
        (lambda ref: torch.where(ref > 2, math.inf, ref), "inf comes from"),
    ],
)
def test_causes_are_named(change: Any, words: str) -> None:
    ref = randn(16, 16)

    assert words in advice(change(ref).float(), ref)


def test_a_reshape_in_place_of_a_transpose_is_named() -> None:
    ref = randn(3, 5)

    assert "a reshape is no transpose" in advice(ref.mT.contiguous().reshape(3, 5).float(), ref)


def test_float32_inside_of_a_float64_result_is_named() -> None:
    ref = randn(16, 16)

    assert "as large as that of float32" in advice(ref.float().double(), ref)


def test_one_wrong_element_of_one_is_no_factor() -> None:
    assert "times" not in advice(torch.tensor([4.0]), torch.tensor([2.0], dtype=F64))


def chain(x: torch.Tensor) -> torch.Tensor:
    """Errors grow: each step doubles what the one before has lost."""
    for _ in range(12):
        x = 4 * x * (1 - x)
    return x


def test_a_chain_of_operators_may_be_as_far_off_as_its_reference_is_in_the_same_dtype() -> None:
    x = torch.rand(64, 64, generator=torch.Generator().manual_seed(3))
    other_order = x.clone()
    for _ in range(12):
        other_order = 4 * other_order - 4 * other_order * other_order

    assert compare_with_reference(other_order, chain(x.double())) is not None
    assert parity(chain).find(run_of(observed(other_order), {"x": x})) is None
    wrong = found(parity(chain), run_of(observed(other_order + 0.1), {"x": x}))
    assert "relative error" in wrong.got


def test_calibration_has_an_end() -> None:
    ref = randn(8, 8)
    gates = gates_for_dtype(F32, errors_of(torch.zeros(8, 8), ref))

    assert not errors_of(torch.zeros(8, 8), ref).within(gates)
    assert gates.frobenius == 0.1
    assert gates_for_dtype(F32, errors_of(torch.full((8, 8), math.nan), ref)) == TIERS[F32]


def test_a_reference_that_the_cpu_cannot_do_in_the_dtype_leaves_the_tiers() -> None:
    def only_wide(x: torch.Tensor) -> torch.Tensor:
        if x.dtype is not F64:
            raise RuntimeError("not implemented for 'Half'")
        return 2 * x

    x = randn(4, 4).half()
    assert parity(only_wide).find(run_of(observed(2 * x), {"x": x})) is None
    assert parity(only_wide).find(run_of(observed(3 * x), {"x": x})) is not None


def test_a_result_in_a_lower_precision_than_the_references_is_judged_by_the_references() -> None:
    x = randn(16, 16).float()

    assert "TF32 or float16" in found(parity(torch.relu), run_of(observed(torch.relu(x).half()), {"input": x})).advice
    assert parity(torch.relu, inside=torch.float16).find(run_of(observed(torch.relu(x).half()), {"input": x})) is None


def test_a_lower_precision_inside_has_to_be_allowed() -> None:
    a, b = randn(32, 32).float(), randn(32, 32, seed=1).float()
    run = run_of(observed((a.half() @ b.half()).float()), {"input": a, "mat2": b})

    assert parity(torch.mm).find(run) is not None
    assert parity(torch.mm, inside=torch.float16).find(run) is None


def test_an_authors_advice_does_not_hide_the_cause() -> None:
    x = randn(16, 16).float()
    finding = found(parity(torch.relu, advice="Look."), run_of(observed(torch.relu(x).half()), {"input": x}))

    assert finding.got.endswith(". An error as large as that of TF32 or float16 somewhere inside.")
    assert finding.got.count("relative error") == 1


@pytest.mark.parametrize("wrong", [{"times": 0}, {"times": math.inf}, {"inside": torch.int8}])
def test_gates_that_mean_nothing_are_refused(wrong: Any) -> None:
    with pytest.raises(CourseError, match="parity"):
        parity(torch.relu, **wrong)
