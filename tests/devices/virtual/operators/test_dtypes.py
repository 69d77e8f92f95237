"""Dtypes without a CUDA kernel are refused with CUDA's message."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from gpututor.devices.virtual import virtual_gpu
from gpututor.devices.virtual.operator_facts import facts_of, tables
from gpututor.devices.virtual.operator_registry import cuda_kernel


@pytest.fixture(autouse=True)
def model(request: pytest.FixtureRequest) -> Iterator[str]:
    """The GPU that a test runs on."""
    chosen = getattr(request, "param", "T4")
    with virtual_gpu(1, chosen):
        yield chosen


def _ones(*sizes: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.ones(*sizes, device="cuda").to(dtype)


_WORDS: list[tuple[Callable[[torch.dtype], Any], str]] = [
    (lambda d: _ones(2, 3, dtype=d) @ _ones(3, 2, dtype=d), "addmm_cuda"),
    (lambda d: F.linear(_ones(2, 3, dtype=d), _ones(2, 3, dtype=d)), "addmm_cuda"),
    (lambda d: F.linear(_ones(2, 3, dtype=d), _ones(2, 3, dtype=d), _ones(2, dtype=d)), "addmm_cuda"),
    (lambda d: _ones(2, 2, dtype=d).addmm_(_ones(2, 3, dtype=d), _ones(3, 2, dtype=d)), "addmm_cuda"),
    (lambda d: torch.einsum("ij,jk->ik", _ones(2, 3, dtype=d), _ones(3, 2, dtype=d)), "baddbmm_cuda"),
    (lambda d: torch.bmm(_ones(1, 2, 3, dtype=d), _ones(1, 3, 2, dtype=d)), "baddbmm_cuda"),
    (lambda d: _ones(2, 3, dtype=d) @ _ones(3, dtype=d), "addmv_impl_cuda"),
    (lambda d: _ones(3, dtype=d) @ _ones(3, dtype=d), "dot"),
    (lambda d: torch.vdot(_ones(3, dtype=d), _ones(3, dtype=d)), "dot"),
    (lambda d: F.max_pool2d(_ones(1, 4, 4, dtype=d), 2), "max_pool2d_with_indices_out_cuda_frame"),
    (lambda d: F.avg_pool2d(_ones(1, 4, 4, dtype=d), 2), "avg_pool2d_out_cuda_frame"),
    (
        lambda d: F.interpolate(_ones(1, 3, 4, 4, dtype=d), size=2, mode="bicubic", antialias=True),
        "upsample_bilinear2d_out_frame",
    ),
    (lambda d: F.mse_loss(_ones(2, dtype=d), _ones(2, dtype=d)), "mse_cuda"),
    (lambda d: _ones(2, 2, dtype=d).softmax(0), "host_softmax"),
    (lambda d: torch.randn(2, dtype=d, device="cuda"), "normal_kernel_cuda"),
]
_CALLED = {torch.int64: "Long", torch.int32: "Int", torch.uint8: "Byte", torch.bool: "Bool"}


@pytest.mark.parametrize("dtype", _CALLED, ids=str)
@pytest.mark.parametrize(("call", "kernel"), _WORDS, ids=[f"{n}-{words[1]}" for n, words in enumerate(_WORDS)])
def test_integers_and_booleans_raise_cudas_kernel_errors(
    call: Callable[[torch.dtype], Any], kernel: str, dtype: torch.dtype
) -> None:
    with pytest.raises(NotImplementedError) as caught:
        call(dtype)
    assert str(caught.value).splitlines()[0] == f"\"{kernel}\" not implemented for '{_CALLED[dtype]}'"
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


@pytest.mark.parametrize("dtype", _CALLED, ids=str)
def test_a_convolution_of_integers_is_refused_in_cudnns_words(dtype: torch.dtype) -> None:
    words = f"getCudnnDataTypeFromScalarType() not supported for {_CALLED[dtype]}"
    with pytest.raises(RuntimeError, match=re.escape(words)):
        F.conv2d(_ones(1, 1, 4, 4, dtype=dtype), _ones(1, 1, 2, 2, dtype=dtype))


def test_sizes_are_checked_first_and_products_without_elements_need_no_kernel() -> None:
    with pytest.raises(RuntimeError, match="mat1 and mat2 shapes cannot be multiplied"):
        _ones(2, 3, dtype=torch.int64) @ _ones(2, 3, dtype=torch.int64)
    target = _ones(2, 2, dtype=torch.int64)
    with pytest.raises(NotImplementedError, match="addmm_cuda"):
        target.addmm_(target.clone(), target.clone())
    assert target.tolist() == [[1, 1], [1, 1]]
    assert (_ones(0, 3, dtype=torch.int64) @ _ones(3, 2, dtype=torch.int64)).shape == (0, 2)
    assert (_ones(2, 0, dtype=torch.int64) @ _ones(0, 2, dtype=torch.int64)).tolist() == [[0, 0], [0, 0]]


def test_integer_operators_of_cuda_compute() -> None:
    ones = _ones(4, 4, dtype=torch.int64)
    assert torch.outer(ones[0], ones[0]).sum().item() == 16
    assert (ones * ones).sum().item() == 16
    eight_bits = _ones(32, 32, dtype=torch.int8)
    assert torch._int_mm(eight_bits, eight_bits)[0, 0].item() == 32
    assert ones.scatter_reduce(0, ones * 0, ones, "amax")[0, 0].item() == 1


@pytest.mark.parametrize("dtype", [torch.bool, torch.complex64, torch.complex128], ids=str)
@pytest.mark.filterwarnings("ignore:The reduce argument of torch.scatter")
def test_scatter_multiplies_neither_booleans_nor_complex_numbers(dtype: torch.dtype) -> None:
    ones, first = _ones(2, 2, dtype=dtype), torch.zeros(2, 2, dtype=torch.int64, device="cuda")
    with pytest.raises(NotImplementedError, match=r"not implemented for '(Bool|ComplexFloat|ComplexDouble)'"):
        ones.scatter_(0, first, ones.clone(), reduce="multiply")
    assert ones.scatter(0, first, ones)[0, 0].item() == 1


def _product_of_eight_bit_floats() -> torch.Tensor:
    eight = _ones(16, 16, dtype=torch.float8_e4m3fn)
    scale = torch.ones((), device="cuda")
    return torch._scaled_mm(eight, eight.t(), scale_a=scale, scale_b=scale, out_dtype=torch.bfloat16)


@pytest.mark.parametrize("model", ["A100 80", "T4"], indirect=True)
def test_eight_bit_floats_are_not_multiplied_before_ada(model: str) -> None:
    words = "torch._scaled_mm is only supported on CUDA devices with compute capability >= 9.0 or 8.9"
    with pytest.raises(RuntimeError, match=words):
        _product_of_eight_bit_floats()


@pytest.mark.parametrize("model", ["L4", "H100"], indirect=True)
def test_eight_bit_floats_are_multiplied_from_ada_on(model: str) -> None:
    assert _product_of_eight_bit_floats()[0, 0].item() == 16


def test_histograms_of_floats_have_no_cuda_kernel() -> None:
    words = "Could not run 'aten::histogram.bin_ct' with arguments from the 'CUDA' backend."
    with pytest.raises(NotImplementedError, match=re.escape(words)):
        torch.histogram(torch.ones(3, device="cuda"), 4)


# Half precision that op_db leaves out only where it finds no GPU; and dtypes without a CPU kernel of ours.
_ELSEWHERE = {torch.bfloat16, torch.complex32, torch.float8_e4m3fnuz, torch.float8_e5m2, torch.float8_e5m2fnuz}

_EVERY = 5
"""Short runs try every fifth pair of operator and dtype."""


def _lacking() -> list[Any]:
    from torch.testing._internal.common_methods_invocations import op_db

    results = [
        (op, dtype) for op in op_db for dtype in sorted(set(op.dtypes) - set(op.dtypesIfCUDA) - _ELSEWHERE, key=str)
    ]
    return [
        pytest.param(
            *item,
            id=f"{item[0].formatted_name}-{item[1]}".replace("torch.", ""),
            marks=[] if number % _EVERY == 0 else [pytest.mark.long],
        )
        for number, item in enumerate(results)
    ]


@pytest.mark.parametrize(("op", "dtype"), _lacking())
def test_dtypes_without_cuda_support_in_opinfo_are_refused(op: Any, dtype: torch.dtype) -> None:
    refusals = []
    for sample in op.sample_inputs("cpu", dtype):
        there = sample.transform(lambda value: value.cuda() if isinstance(value, torch.Tensor) else value)
        try:
            op(there.input, *there.args, **there.kwargs)
        except (NotImplementedError, RuntimeError) as error:
            refusals.append(str(error))
    assert refusals
    assert not [words for words in refusals if "cpu" in words.casefold()]


def test_every_kernel_in_the_table_belongs_to_an_operator() -> None:
    rows = [name for name in tables()["operators"] if cuda_kernel(facts_of(name)) is not None]
    assert len(rows) > 30
    assert [name for name in rows if not hasattr(torch.ops.aten, name)] == []
