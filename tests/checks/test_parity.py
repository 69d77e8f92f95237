"""Parity: honest results pass in every dtype; nonsense and lower precision fail by a wide margin."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gpututor.checks import parity
from gpututor.checks.parity import Disagreement, compare_with_reference
from gpututor.checks.tolerances import TIERS, errors_of, gates_for_dtype
from tests.support.check_runs import failure, observed, run_of

F32, F64 = torch.float32, torch.float64
FLOATS = [F64, F32, torch.float16, torch.bfloat16]
SIZES = [(4, 4, 4), (64, 128, 32), (1, 512, 7), (129, 1, 65)]


def randn(*shape: int, dtype: torch.dtype = F64, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def wrong(got: torch.Tensor, ref: torch.Tensor, times: float = 1.0) -> Disagreement:
    """Compare the two, which must disagree."""
    disagreement = compare_with_reference(got, ref, times)
    assert disagreement is not None
    return disagreement


def matrices(size: tuple[int, int, int], dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    return randn(*size[:2]).to(dtype), randn(*size[1:], seed=1).to(dtype)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_an_honest_product_passes(size: tuple[int, int, int], dtype: torch.dtype) -> None:
    a, b = matrices(size, dtype)

    assert compare_with_reference(a @ b, a.double() @ b.double()) is None


@pytest.mark.parametrize("dtype", [F64, torch.float32], ids=str)
@pytest.mark.parametrize("size", SIZES[:3], ids=str)
def test_a_product_in_the_next_lower_precision_fails(size: tuple[int, int, int], dtype: torch.dtype) -> None:
    a, b = matrices(size, dtype)
    lower = {F64: torch.float32, torch.float32: torch.float16}[dtype]

    assert "relative error" in wrong((a.to(lower) @ b.to(lower)).to(dtype), a.double() @ b.double()).got


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("nonsense", ["zeros", "ones", "mean", "turned", "shifted", "negative"])
def test_nonsense_fails_in_every_dtype(dtype: torch.dtype, nonsense: str) -> None:
    a, b = matrices((16, 16, 16), dtype)
    ref = a.double() @ b.double()
    results = {
        "zeros": torch.zeros_like(ref),
        "ones": torch.ones_like(ref),
        "mean": torch.full_like(ref, float(ref.mean())),
        "turned": ref.t(),
        "shifted": ref.roll(1, 0),
        "negative": -ref,
    }

    assert compare_with_reference(results[nonsense].to(dtype), ref) is not None


def test_each_element_must_be_right_next_to_any_others_in_its_shape() -> None:
    ref = randn(512, 512)
    got = ref.float()
    got[300, 17] += 0.01

    assert all(words in wrong(got, ref).got for words in ("[300, 17]", "1 of 262,144"))
    ref = torch.ones(2, 8, dtype=F64)
    ref[1] = 1e-6
    got = ref.float()
    got[1] = 2e-6

    assert compare_with_reference(got, ref) is not None
    zeros = torch.zeros(3, 3, dtype=F64)

    assert compare_with_reference(zeros.float(), zeros) is None
    assert compare_with_reference(zeros.float() + 1e-3, zeros) is not None
    assert wrong(torch.ones(3, 1), torch.ones(3, 3, dtype=F64)).got == "shape (3, 1)"


def test_positions_of_inf_and_nan_must_match() -> None:
    inf, nan = math.inf, math.nan
    ref = torch.tensor([1.0, inf, -inf, nan], dtype=F64)

    assert compare_with_reference(ref.float(), ref) is None
    for values in ([1.0, inf, inf, nan], [1.0, inf, -inf, 0.0], [nan, inf, -inf, nan], [1.0, 3.0, -inf, nan]):
        assert "inf and nan" in wrong(torch.tensor(values), ref).expected


def test_integers_and_booleans_are_exact_and_no_fractions() -> None:
    ref = torch.tensor([1, 2, 3])

    assert compare_with_reference(torch.tensor([1, 2, 3]), ref) is None
    assert "at [2] 4, not 3 (1 of 3 " in wrong(torch.tensor([1, 2, 4]), ref).got
    assert compare_with_reference(torch.tensor([True, False]), torch.tensor([True, True])) is not None
    assert compare_with_reference(torch.tensor([0, 0]), torch.tensor([0.3, 0.7], dtype=F64)) is not None
    assert compare_with_reference(torch.tensor([1.0, 2.0]), torch.tensor([1, 2])) is not None


def test_the_size_of_the_error_of_many_elements_names_its_cause() -> None:
    a, b = matrices((64, 64, 64), F32)
    exact = a.double() @ b.double()

    assert "float16 in an intermediate step" in wrong((a.half() @ b.half()).float(), exact).advice
    assert "bfloat16 in an intermediate step" in wrong((a.bfloat16() @ b.bfloat16()).float(), exact).advice
    exact = randn(64, 64, seed=1)
    got = exact.float()
    got[:8] *= 1 + 1e-3

    assert "inside" not in wrong(got, exact).advice
    ones = torch.ones(100, dtype=F64)
    shown = wrong((ones * (1 + 3e-5)).float(), ones).got
    assert all(words in shown for words in ("3.0e-05", "at [0] 1.00003, not 1;", "100 of 100 "))


def flipped_at_the_edge(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a ReLU in bfloat16 that lets small values through, or stops them, in a few places of 2,048."""
    ref = randn(32, 64, seed=3).relu()
    got = ref.bfloat16().flatten()
    places = torch.randperm(got.numel(), generator=torch.Generator().manual_seed(3))[:count]
    got[places] = got[places] + torch.tensor([0.3, 0.35, 0.28][:count], dtype=torch.bfloat16)
    return got.reshape(ref.shape), ref


def noise(scale: float, numel: int = 1 << 16) -> tuple[torch.Tensor, torch.Tensor]:
    """Return many values so close together that sorting hides their errors."""
    ref = randn(numel, seed=4)
    return (ref + scale * randn(numel, seed=5)).float(), ref


def swapped(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    ref = randn(2048, seed=5)
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
def test_another_order_is_named_only_if_a_permutation_explains_the_error(
    case: tuple[torch.Tensor, torch.Tensor], is_another_order: bool
) -> None:
    assert ("another order" in wrong(*case).advice) is is_another_order


def test_a_factor_is_named_only_if_it_explains_the_error() -> None:
    ref = randn(4096, seed=6)
    got = (ref * 1.003 + 0.009 * randn(4096, seed=7)).bfloat16()

    assert "times the right value" not in wrong(got, ref, 0.9).advice
    assert "1/2 times the right value" in wrong((ref / 2).bfloat16(), ref).advice
    assert "times" not in wrong(torch.tensor([4.0]), torch.tensor([2.0], dtype=F64)).advice, "of a single element"


@settings(max_examples=60)
@given(st.sampled_from(FLOATS), st.floats(-44, 37), st.lists(st.integers(1, 6), min_size=0, max_size=3))
def test_rounding_to_the_dtype_passes_at_every_scale(dtype: torch.dtype, exponent: float, shape: list[int]) -> None:
    scale = 10.0 ** (exponent if dtype is not torch.float16 else exponent / 10)
    ref = randn(*shape, seed=1) * scale

    assert compare_with_reference(ref.to(dtype), ref) is None


def test_the_reference_receives_float64_copies_of_the_inputs() -> None:
    x = torch.arange(3.0)
    seen: list[torch.dtype] = []

    def reference(x: torch.Tensor) -> torch.Tensor:
        seen.append(x.dtype)
        return x.mul_(2)

    assert parity(reference).find(run_of(observed(2 * x), {"x": x})) is None
    assert seen == [F64]
    assert torch.equal(x, torch.arange(3.0))


def test_tensors_arrays_and_modules_are_compared() -> None:
    layer = torch.nn.Linear(2, 3)
    x = torch.arange(6.0)

    def mixed(x: torch.Tensor) -> dict[str, object]:
        return {"tensor": x, "array": x.numpy(), "layers": [layer], "size": 6}

    assert parity(mixed).find(run_of(observed(mixed(x)), {"x": x})) is None
    for part, other in {"tensor": x + 1, "array": (x + 1).numpy(), "layers": [torch.nn.Linear(2, 3)]}.items():
        finding = failure(parity(mixed), run_of(observed({**mixed(x), part: other}), {"x": x}))
        assert finding.got.startswith(f"result['{part}")


def test_parity_names_the_part_and_the_call() -> None:
    x = torch.arange(6.0).reshape(2, 3)

    finding = failure(parity(lambda x: {"a": x, "b": x + 1}), run_of(observed({"a": x, "b": x}), {"x": x}))

    assert finding.got.startswith("result['b']: ")
    assert "x of shape (2, 3)" in finding.got


def test_each_number_in_place_of_a_reference_of_zeros_is_listed() -> None:
    got = torch.tensor([[0.0, 0.5], [2.0, 0.0]])

    assert wrong(got, torch.zeros(2, 2)).got == "at [0, 1] 0.5, not 0; at [1, 0] 2, not 0 (2 of 4 elements are off)"


def test_gates_widen_by_tiers_and_errors_up_to_a_limit() -> None:
    for tier in TIERS.values():
        assert tier.largest == pytest.approx(10 * tier.frobenius)
    ref = randn(8, 8)
    gates = gates_for_dtype(F32, errors_of(torch.zeros(8, 8), ref))

    assert not errors_of(torch.zeros(8, 8), ref).within(gates)
    assert gates.frobenius == 0.1
    assert gates_for_dtype(F32, errors_of(torch.full((8, 8), math.nan), ref)) == TIERS[F32]


@pytest.mark.parametrize("dtype", TIERS, ids=str)
@pytest.mark.parametrize("shape", [(), (1,), (0,), (0, 3), (3, 0), (1, 1), (2, 3, 4)], ids=str)
def test_unusual_shapes_are_compared_in_every_dtype(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    ref = randn(*shape, dtype=torch.complex128 if dtype.is_complex else F64) + 2

    assert compare_with_reference(ref.to(dtype), ref) is None
    if ref.numel():
        assert compare_with_reference((1.5 * ref).to(dtype), ref) is not None
        assert compare_with_reference(torch.zeros_like(ref, dtype=dtype), ref) is not None


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1e160, 1e300])
def test_squares_beyond_the_range_of_float64_hide_no_error(scale: float) -> None:
    ref = randn(5, 7) * scale

    assert compare_with_reference(ref.clone(), ref) is None
    assert compare_with_reference(ref * 1.001, ref) is not None
    assert compare_with_reference(torch.zeros_like(ref), ref) is not None
    assert compare_with_reference(-ref * 1e7 if scale < 1 else -ref, ref) is not None


def test_inf_and_zero_are_right_only_beyond_the_dtypes_range() -> None:
    ref = torch.tensor([70_000.0, -70_000.0, 1.0], dtype=F64)
    inf = math.inf

    assert compare_with_reference(ref.half(), ref) is None
    assert compare_with_reference(torch.tensor([inf, inf, 1.0]).half(), ref) is not None
    assert compare_with_reference(torch.tensor([inf, -inf, inf]).half(), ref) is not None
    assert compare_with_reference(ref.float().where(ref < 2, torch.tensor(inf)), ref) is not None
    ref = torch.tensor([1e-40, 3e-39, 0.0], dtype=F64)

    assert compare_with_reference(torch.zeros(3), ref) is None
    assert compare_with_reference(torch.full((3,), 1e-36), ref) is not None
    assert compare_with_reference((ref * 1e33).half(), ref * 1e33) is None


def test_complex_results_are_compared_and_conjugates_are_named() -> None:
    ref = randn(4, 4, dtype=torch.complex128)

    assert compare_with_reference(ref.to(torch.complex64), ref) is None
    assert "conjugate" in wrong(ref.conj().to(torch.complex64), ref).advice
    assert compare_with_reference(ref.real.float(), ref) is not None


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
        (lambda ref: ref + 0.25, "+0.25"),
        (lambda ref: ref.flip(0), "another order"),
        (lambda ref: torch.zeros_like(ref), "all zeros"),
        (lambda ref: torch.relu(ref), "than rounding"),
        (lambda ref: torch.where(ref == ref.max(), 0.0, ref), "other elements are right"),
        (lambda ref: ref * (1 + 2e-3 * randn(16, 16, seed=1)), "that of bfloat16"),
        (lambda ref: ref * (1 + 3e-4 * randn(16, 16, seed=1)), "TF32 or float16"),
        (lambda ref: ref * (1 + 3e-5 * randn(16, 16, seed=1)), "nearly right"),
        (lambda ref: ref * (1 + 1.6e-2 * randn(16, 16, seed=1)), "nearly right"),
        (lambda ref: torch.where(ref > 2, math.nan, ref), "NaN comes from"),
        (lambda ref: torch.where(ref > 2, math.inf, ref), "inf comes from"),
    ],
)
def test_causes_are_named(change: Any, words: str) -> None:
    ref = randn(16, 16)

    assert words in wrong(change(ref).float(), ref).advice


def test_a_wrong_reshape_and_float32_inside_of_float64_are_named() -> None:
    ref = randn(3, 5)

    assert "a reshape does not transpose" in wrong(ref.mT.contiguous().reshape(3, 5).float(), ref).advice
    assert "that of float32" in wrong(randn(16, 16).float().double(), randn(16, 16)).advice


def chain(x: torch.Tensor) -> torch.Tensor:
    """Run a chain of steps, each of which doubles the error of the previous step."""
    for _ in range(12):
        x = 4 * x * (1 - x)
    return x


def test_a_result_may_have_the_references_own_error_in_its_dtype() -> None:
    x = torch.rand(64, 64, generator=torch.Generator().manual_seed(3))
    other_order = x.clone()
    for _ in range(12):
        other_order = 4 * other_order - 4 * other_order * other_order

    assert compare_with_reference(other_order, chain(x.double())) is not None
    assert parity(chain).find(run_of(observed(other_order), {"x": x})) is None
    assert "relative error" in failure(parity(chain), run_of(observed(other_order + 0.1), {"x": x})).got


def jump(x: torch.Tensor) -> torch.Tensor:
    """Return a hundredth more if the sum is not positive."""
    return torch.where(x.sum() > 0, x, 1.01 * x)


def test_at_a_jump_of_the_reference_the_results_of_both_sides_pass() -> None:
    x = torch.randn(1000, generator=torch.Generator().manual_seed(3))
    edge = x.clone()
    edge[0] -= x.double().sum().float()
    for inputs, passing in ((edge, [1.0, 1.01]), (x.abs(), [1.0]), (-x.abs(), [1.01])):
        passed = [by for by in (1.0, 1.01, 1.05) if not parity(jump).find(run_of(observed(inputs * by), {"x": inputs}))]
        assert passed == passing


def test_the_tiers_apply_if_the_cpu_cannot_compute_in_the_dtype() -> None:
    def only_wide(x: torch.Tensor) -> torch.Tensor:
        if x.dtype is not F64:
            raise RuntimeError("not implemented for 'Half'")
        return 2 * x

    x = randn(4, 4).half()
    assert parity(only_wide).find(run_of(observed(2 * x), {"x": x})) is None
    assert parity(only_wide).find(run_of(observed(3 * x), {"x": x})) is not None


def test_a_lower_precision_than_the_references_has_to_be_allowed() -> None:
    x = randn(16, 16).float()
    run = run_of(observed(torch.relu(x).half()), {"input": x})

    assert "TF32 or float16" in failure(parity(torch.relu), run).advice
    assert parity(torch.relu, inside=torch.float16).find(run) is None
    advised = failure(parity(torch.relu, advice="Look."), run)
    assert "float16 in an intermediate step" in advised.got, "the author's advice does not hide the cause"
    assert advised.got.count("relative error") == 1
    a, b = randn(32, 32).float(), randn(32, 32, seed=1).float()
    run = run_of(observed((a.half() @ b.half()).float()), {"input": a, "mat2": b})

    assert parity(torch.mm).find(run) is not None
    assert parity(torch.mm, inside=torch.float16).find(run) is None
