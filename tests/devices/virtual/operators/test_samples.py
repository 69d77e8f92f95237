"""PyTorch's own operator samples on a virtual GPU, forward and backward, in three dtypes."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch

from gpututor.devices.virtual import virtual_gpu
from gpututor.devices.virtual.operator_facts import tables
from tests.support import operator_samples as samples
from tests.support.parameters import mostly_long

pytestmark = pytest.mark.filterwarnings("ignore:Sparse:UserWarning")

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
WANTED_SHARE = {torch.float32: 0.98, torch.float16: 0.97, torch.bfloat16: 0.97}
_EVERY = 16
"""The short test takes every nth operator."""
_PARTS = 4
"""Number of parts of the long test, which can run at the same time."""
# The samples of these call unsupported operators, or have tensors in CSR.
_UNSUPPORTED = {
    *(
        "jiterator_unary",
        "jiterator_binary",
        "jiterator_4inputs_with_extra_args",
        "jiterator_binary_return_by_ref",
        "jiterator_2inputs_2outputs",
    ),
    *("sparse.mm.reduce", "sparse.sampled_addmm"),
    *("torch.ops.aten._flash_attention_forward", "torch.ops.aten._efficient_attention_forward"),
}

# Those of complex numbers that are tried at each run of the tests; and those that the CPU has for real ones only.
# fmt: off
_COMPLEX = frozenset({
    "abs", "angle", "as_strided", "bmm", "conj", "conj_physical", "cumsum", "dot", "imag", "index_put", "mH", "matmul",
    "mm", "mul", "real", "resolve_conj", "resolve_neg", "vdot", "view_as_complex", "view_as_real",
})
# fmt: on
_REFUSED_COMPLEX = frozenset({"nanmean", "nansum"})


def _supported(dtype: torch.dtype) -> list[Any]:
    return [op for op in samples.operators(dtype) if samples.name_of(op) not in _UNSUPPORTED]


@pytest.mark.parametrize("dtype", mostly_long(DTYPES, [torch.float32]), ids=str)
def test_sampled_operators_match_the_cpu(dtype: torch.dtype) -> None:
    operators = _supported(dtype)
    drawn = random.Random(2).sample(operators, len(operators) // _EVERY)
    assert len(drawn) > 30
    assert samples.faults(drawn, dtype, 2) == {}


@pytest.mark.long
@pytest.mark.parametrize("part", range(_PARTS))
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_operator_matches_the_cpu(dtype: torch.dtype, part: int) -> None:
    operators = _supported(dtype)[part::_PARTS]
    assert len(operators) > 130
    assert samples.faults(operators, dtype, 4) == {}


def _complex_operators() -> list[Any]:
    return [op for op in _supported(torch.complex64) if samples.name_of(op) not in _REFUSED_COMPLEX]


@pytest.mark.long
@pytest.mark.parametrize("conjugated", [False, True], ids=["plain", "conjugated"])
def test_sampled_complex_operators_accept_conjugate_views(conjugated: bool) -> None:
    chosen = [op for op in _complex_operators() if op.name in _COMPLEX or op.name.startswith(("fft.", "linalg."))]
    assert len(chosen) > 70
    assert set(samples.faults(chosen, torch.complex64, 2, conjugated)) == ({"view_as_real"} if conjugated else set())


@pytest.mark.long
@pytest.mark.parametrize("conjugated", [False, True], ids=["plain", "conjugated"])
def test_every_complex_operator_accepts_conjugate_views(conjugated: bool) -> None:
    operators = _complex_operators()
    assert len(operators) > 370
    # This operator refuses conjugate views on every device.
    assert set(samples.faults(operators, torch.complex64, 4, conjugated)) == ({"view_as_real"} if conjugated else set())


@pytest.mark.parametrize("name", sorted(_REFUSED_COMPLEX))
def test_a_sum_that_the_cpu_has_for_real_numbers_only_is_refused_by_name(name: str) -> None:
    with virtual_gpu(), pytest.raises(NotImplementedError, match=r"torch\.nansum of complex tensors"):
        getattr(torch, name)(torch.ones(2, dtype=torch.complex64, device="cuda"))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_few_operators_are_excluded(dtype: torch.dtype) -> None:
    assert len(_supported(dtype)) / len(samples.operators(dtype)) >= WANTED_SHARE[dtype]


def _attention(short: str) -> None:
    query = torch.zeros(1, 4, 2, 8, device="cuda", dtype=torch.float16)
    packet = getattr(torch.ops.aten, short)
    if short == "_flash_attention_forward":
        packet(query, query, query, None, None, 4, 4, 0.0, False, False)
    else:
        packet(query, query, query, None, None, None, None, None, 0.0, 0)


_CALLS: dict[str, Callable[[], object]] = {
    "torch.cuda.jiterator._JittedFunction.__call__": lambda: torch.cuda.jiterator._create_jit_fn(
        "template <typename T> T f(T x) { return x; }"
    )(torch.ones(1, device="cuda")),
    "aten::_flash_attention_forward": lambda: _attention("_flash_attention_forward"),
    "aten::_efficient_attention_forward": lambda: _attention("_efficient_attention_forward"),
    "aten::_batch_norm_no_update": lambda: torch.ops.aten._batch_norm_no_update(
        torch.ones(2, 2, device="cuda"), None, None, None, None, 0.5, 0.5
    ),
    "aten::_reshape_alias_copy": lambda: torch.ops.aten._reshape_alias_copy(torch.ones(0, device="cuda"), [1], [1]),
}


def test_each_entry_of_the_list_of_unsupported_calls_is_called_below() -> None:
    listed = {f"aten::{name}" for name in tables()["unsupported"]}
    assert listed == {name for name in _CALLS if name.startswith("aten::")}
    assert all(reason and instead for reason, instead in tables()["unsupported"].values())


@pytest.mark.parametrize("name", _CALLS)
def test_an_unsupported_call_is_refused_by_name(name: str) -> None:
    said = name.replace("aten::", r"torch.ops.aten.")
    with virtual_gpu(), pytest.raises(NotImplementedError, match=said):
        _CALLS[name]()


def test_an_operator_without_a_cpu_kernel_is_refused_by_name() -> None:
    with virtual_gpu(), pytest.raises(NotImplementedError, match=r"torch\.ops\.aten\.cudnn_affine_grid_generator"):
        torch.ops.aten.cudnn_affine_grid_generator(torch.zeros(1, 2, 3, device="cuda"), 1, 1, 2, 2)
