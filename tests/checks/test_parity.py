"""Parity: honest results of every dtype and size pass, nonsense and lower precision fail by a wide margin."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gpututor.checks import parity
from gpututor.checks.parity import compare_with_reference
from gpututor.checks.tolerances import TIERS
from gpututor.errors import CourseError
from tests.support.check_runs import found, observed, run_of

FLOATS = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
SIZES = [(4, 4, 4), (64, 128, 32), (1, 512, 7), (129, 1, 65)]


def matrices(size: tuple[int, int, int], dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(sum(size))
    a = torch.randn(size[0], size[1], generator=generator, dtype=torch.float64)
    b = torch.randn(size[1], size[2], generator=generator, dtype=torch.float64)
    return a.to(dtype), b.to(dtype)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_an_honest_product_passes(size: tuple[int, int, int], dtype: torch.dtype) -> None:
    a, b = matrices(size, dtype)

    assert compare_with_reference(a @ b, a.double() @ b.double()) is None


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("size", SIZES[:3], ids=str)
def test_a_product_in_the_next_lower_precision_fails(size: tuple[int, int, int], dtype: torch.dtype) -> None:
    a, b = matrices(size, dtype)
    lower = {torch.float64: torch.float32, torch.float32: torch.float16}[dtype]

    found = compare_with_reference((a.to(lower) @ b.to(lower)).to(dtype), a.double() @ b.double())

    assert found is not None
    assert "relative error" in found.got


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("nonsense", ["zeros", "ones", "mean", "turned", "shifted", "negative"])
def test_nonsense_fails_in_every_dtype(dtype: torch.dtype, nonsense: str) -> None:
    a, b = matrices((16, 16, 16), dtype)
    ref = a.double() @ b.double()
    wrong = {
        "zeros": torch.zeros_like(ref),
        "ones": torch.ones_like(ref),
        "mean": torch.full_like(ref, float(ref.mean())),
        "turned": ref.t(),
        "shifted": ref.roll(1, 0),
        "negative": -ref,
    }[nonsense]

    assert compare_with_reference(wrong.to(dtype), ref) is not None


def test_one_wrong_element_in_a_large_result_is_seen() -> None:
    ref = torch.randn(512, 512, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    got = ref.float()
    got[300, 17] += 0.01

    found = compare_with_reference(got, ref)

    assert found is not None
    assert "[300, 17]" in found.got
    assert "1 of 262,144" in found.got


def test_a_tiny_row_beside_a_large_one_must_be_right_too() -> None:
    ref = torch.ones(2, 8, dtype=torch.float64)
    ref[1] = 1e-6
    got = ref.float()
    got[1] = 2e-6

    assert compare_with_reference(got, ref) is not None


def test_zeros_agree_with_zeros_and_nothing_else_does() -> None:
    zeros = torch.zeros(3, 3, dtype=torch.float64)

    assert compare_with_reference(zeros.float(), zeros) is None
    assert compare_with_reference(zeros.float() + 1e-3, zeros) is not None


def test_positions_of_inf_and_nan_must_match() -> None:
    inf, nan = float("inf"), float("nan")
    ref = torch.tensor([1.0, inf, -inf, nan], dtype=torch.float64)

    assert compare_with_reference(ref.float(), ref) is None
    for wrong in ([1.0, inf, inf, nan], [1.0, inf, -inf, 0.0], [nan, inf, -inf, nan], [1.0, 3.0, -inf, nan]):
        finding = compare_with_reference(torch.tensor(wrong), ref)
        assert finding is not None
        assert "inf and nan" in finding.expected


def test_integers_and_booleans_are_exact() -> None:
    ref = torch.tensor([1, 2, 3])

    assert compare_with_reference(torch.tensor([1, 2, 3]), ref) is None
    finding = compare_with_reference(torch.tensor([1, 2, 4]), ref)
    assert finding is not None
    assert "at [2] 4, not 3 (1 of 3 elements are off)" in finding.got
    assert compare_with_reference(torch.tensor([True, False]), torch.tensor([True, True])) is not None


def test_shapes_are_never_broadcast() -> None:
    finding = compare_with_reference(torch.ones(3, 1), torch.ones(3, 3, dtype=torch.float64))

    assert finding is not None
    assert finding.got == "shape (3, 1)"


def test_empty_and_scalar_results_are_compared() -> None:
    assert compare_with_reference(torch.empty(0, 3), torch.empty(0, 3, dtype=torch.float64)) is None
    assert compare_with_reference(torch.tensor(2.0), torch.tensor(2.0, dtype=torch.float64)) is None
    assert compare_with_reference(torch.tensor(2.1), torch.tensor(2.0, dtype=torch.float64)) is not None


def test_the_size_of_the_error_names_its_cause() -> None:
    a, b = matrices((64, 64, 64), torch.float32)
    exact = a.double() @ b.double()

    half = compare_with_reference((a.half() @ b.half()).float(), exact)
    brain = compare_with_reference((a.bfloat16() @ b.bfloat16()).float(), exact)

    assert half is not None
    assert brain is not None
    assert "as large as that of TF32 or float16 somewhere inside" in half.advice
    assert "as large as that of bfloat16 somewhere inside" in brain.advice


def test_the_size_of_an_error_that_few_elements_carry_is_compared_with_no_precision() -> None:
    exact = torch.randn(64, 64, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    wrong = exact.float()
    wrong[:8] *= 1 + 1e-3

    found = compare_with_reference(wrong, exact)

    assert found is not None
    assert "inside" not in found.advice


def flipped_at_the_edge(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A ReLU in bfloat16 that lets small values through, or stops them, in a few places of 2,048."""
    generator = torch.Generator().manual_seed(3)
    ref = torch.randn(32, 64, generator=generator, dtype=torch.float64).relu()
    got = ref.bfloat16().flatten()
    places = torch.randperm(got.numel(), generator=generator)[:count]
    got[places] = got[places] + torch.tensor([0.3, 0.35, 0.28][:count], dtype=torch.bfloat16)
    return got.reshape(ref.shape), ref


def noise(scale: float, numel: int = 1 << 16) -> tuple[torch.Tensor, torch.Tensor]:
    """Many values so close together that sorting hides their errors."""
    generator = torch.Generator().manual_seed(4)
    ref = torch.randn(numel, generator=generator, dtype=torch.float64)
    return (ref + scale * torch.randn(numel, generator=generator, dtype=torch.float64)).float(), ref


def swapped(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    ref = torch.randn(2048, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    got = ref.float()
    got[:count] = ref[:count].float().roll(1)
    return got, ref


@pytest.mark.parametrize(
    ("case", "is_another_order"),
    [
        (flipped_at_the_edge(3), False),
        (flipped_at_the_edge(1), False),
        (noise(1e-3), False),
        (noise(0.02), False),
        (swapped(3), True),
        (swapped(2048), True),
    ],
)
def test_another_order_is_named_only_where_a_permutation_explains_what_differs(
    case: tuple[torch.Tensor, torch.Tensor], is_another_order: bool
) -> None:
    found = compare_with_reference(*case)

    assert found is not None
    assert ("another order" in found.advice) is is_another_order


def test_a_factor_is_named_only_where_it_explains_the_error() -> None:
    ref = torch.randn(4096, generator=torch.Generator().manual_seed(6), dtype=torch.float64)
    got = (ref * 1.003 + 0.009 * torch.randn(4096, dtype=torch.float64)).bfloat16()
    found = compare_with_reference(got, ref, 0.9)

    assert found is not None
    assert "times the right one" not in found.advice
    halved = compare_with_reference((ref / 2).bfloat16(), ref)
    assert halved is not None
    assert "1/2 times the right one" in halved.advice


def test_elements_that_are_all_a_little_off_are_shown_too() -> None:
    exact = torch.ones(100, dtype=torch.float64)
    found = compare_with_reference((exact * (1 + 3e-5)).float(), exact)
    assert found is not None
    assert found.got.startswith("relative error 3.0e-05; at [0] 1.00003, not 1;")
    assert "(100 of 100 elements are off)" in found.got


@settings(max_examples=60)
@given(st.sampled_from(FLOATS), st.floats(-44, 37), st.lists(st.integers(1, 6), min_size=0, max_size=3))
def test_rounding_to_the_dtype_is_always_allowed_at_every_scale(
    dtype: torch.dtype, exponent: float, shape: list[int]
) -> None:
    scale = 10.0 ** (exponent if dtype is not torch.float16 else exponent / 10)
    ref = torch.randn(shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64) * scale

    assert compare_with_reference(ref.to(dtype), ref) is None


def test_the_reference_gets_float64_and_copies_of_the_inputs() -> None:
    x = torch.arange(3.0)
    seen: list[torch.dtype] = []

    def reference(x: torch.Tensor) -> torch.Tensor:
        seen.append(x.dtype)
        return x.mul_(2)

    assert parity(reference).find(run_of(observed(2 * x), {"x": x})) is None
    assert seen == [torch.float64]
    assert torch.equal(x, torch.arange(3.0))


def test_tensors_arrays_and_modules_are_compared_side_by_side() -> None:
    layer = torch.nn.Linear(2, 3)
    x = torch.arange(6.0)

    def mixed(x: torch.Tensor) -> dict[str, object]:
        return {"tensor": x, "array": x.numpy(), "layers": [layer], "size": 6}

    assert parity(mixed).find(run_of(observed(mixed(x)), {"x": x})) is None
    for part, wrong in {"tensor": x + 1, "array": (x + 1).numpy(), "layers": [torch.nn.Linear(2, 3)]}.items():
        finding = found(parity(mixed), run_of(observed({**mixed(x), part: wrong}), {"x": x}))
        assert finding.got.startswith(f"result['{part}")


def test_a_reference_without_tensors_is_the_authors_fault() -> None:
    with pytest.raises(CourseError, match="no tensors"):
        parity(lambda: 3.0).find(run_of(3.0))


def test_parity_names_the_part_and_the_call() -> None:
    x = torch.arange(6.0).reshape(2, 3)

    finding = found(parity(lambda x: {"a": x, "b": x + 1}), run_of(observed({"a": x, "b": x}), {"x": x}))

    assert finding.got.startswith("result['b']: ")
    assert "x of shape (2, 3)" in finding.got


def test_every_float_dtype_has_a_tier_with_its_second_gate_ten_times_wider() -> None:
    for tier in TIERS.values():
        assert tier.largest == pytest.approx(10 * tier.frobenius)
