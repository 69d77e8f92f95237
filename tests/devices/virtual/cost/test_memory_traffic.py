"""Bytes that operators move, and the number of kernels of foreach operators."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpututor.devices.virtual.cost.kernel import launches, price
from gpututor.devices.virtual.cost.memory_traffic import (
    Tensor,
    bytes_accessed,
    is_in_place,
    lists_of,
    multi_tensor_kernels,
)
from gpututor.devices.virtual.operator_facts import NO_COST, kind_of, tables
from gpututor.hardware.gpus import gpu_spec
from tests.support.workloads import tensor

_NAMES = sorted(tables()["operators"])


def moved(name: str, inputs: list[Tensor], outputs: list[Tensor]) -> int:
    return bytes_accessed(name, kind_of(name), inputs, outputs)


@pytest.mark.parametrize(
    ("name", "inputs", "outputs", "times"),
    [
        ("aten::add", 2, 1, 3), ("aten::add_", 2, 1, 3), ("aten::fill_", 1, 1, 1), ("aten.zero_.default", 1, 1, 1),
        ("aten::copy_", 2, 1, 2), ("aten::normal_", 1, 1, 1), ("aten::normal", 1, 1, 2), ("aten::relu_", 1, 1, 2),
        ("aten::addcmul_", 3, 1, 4), ("aten::zero_", 1, 0, 1), ("aten::clone", 1, 1, 2),
        ("aten::add_", 1, 0, 1),
    ],
)  # fmt: skip
def test_an_operator_reads_its_inputs_and_writes_its_outputs(name: str, inputs: int, outputs: int, times: int) -> None:
    assert moved(name, [tensor(100)] * inputs, [tensor(100)] * outputs) == times * 400


@pytest.mark.parametrize(
    ("name", "lists", "times"),
    [
        ("aten::_foreach_sqrt_", 1, 2), ("aten::_foreach_add_", 2, 3), ("aten::_foreach_addcdiv_", 3, 4),
        ("aten::_foreach_zero_", 1, 1), ("aten::_foreach_copy_", 2, 2), ("aten::_foreach_lerp_", 2, 3),
    ],
)  # fmt: skip
def test_an_in_place_foreach_operator_writes_its_first_list(name: str, lists: int, times: int) -> None:
    tensors = [tensor(100), tensor(3, 10), tensor(70)]
    assert lists_of(name, tensors * lists) == lists
    assert moved(name, tensors * lists, []) == moved(name, tensors * lists, tensors) == times * 4 * 200


def test_fused_optimizers_write_all_but_the_gradients() -> None:
    tensors = [tensor(100), tensor(3, 10), tensor(70)]
    steps = [tensor()] * 3
    assert moved("aten::_fused_adam_", tensors * 4 + steps, []) == pytest.approx(7 * 800, abs=40)
    assert moved("aten::_fused_adamw_", tensors * 5 + steps, []) == pytest.approx(9 * 800, abs=40)
    assert moved("aten::_fused_sgd_", tensors * 3, []) == 5 * 800
    assert moved("aten::_fused_sgd_", tensors * 2, []) == 3 * 800


def test_foreach_operators_launch_few_kernels() -> None:
    assert multi_tensor_kernels("aten::_foreach_sqrt_", [tensor(10)] * 100) == 1
    assert multi_tensor_kernels("aten::_foreach_sqrt_", [tensor(10)] * 1100) == 10
    assert multi_tensor_kernels("aten::_foreach_sqrt_", [tensor(320 * 65536 * 3)]) == 3
    assert multi_tensor_kernels("aten::_foreach_sqrt_", []) == 1
    few, many = (
        price(gpu_spec("T4"), "aten::_foreach_sqrt_", [tensor(10)] * count, []).seconds for count in (100, 1100)
    )
    assert many == pytest.approx(10 * few, rel=0.1)
    single, all_of_them = (launches("aten::_foreach_add_", tensors=count) for count in (1, 1000))
    assert 1 <= single < all_of_them < 100 < 1000 * launches("aten::add_")


def test_operators_in_place_leave_the_rest_of_a_table() -> None:
    assert all(map(is_in_place, ("aten::add_", "aten.add_.Tensor", "add_", "c10d::allreduce_")))
    assert not any(map(is_in_place, ("aten::add", "aten.add.Tensor", "add", "aten::__and__", "aten.__or__.Tensor")))
    table, places, rows = tensor(10**6, 256), tensor(128, dtype="int64"), tensor(128, 256)
    in_place = moved("aten::index_add_", [table, places, rows], [table])
    assert in_place == 128 * 8 + 3 * 128 * 1024
    assert moved("aten::index_add", [table, places, rows], [table]) > 2 * 10**9
    assert moved("aten::index_put_", [table, places, tensor()], [table]) < 10**5
    everything = tensor(10**6, dtype="int64")
    assert moved("aten::scatter_add_", [tensor(100), everything, tensor(10**6)], [tensor(100)]) < 13 * 10**6


_SHAPES = st.one_of(
    st.sampled_from([(), (0,), (1,), (0, 3), (3, 0), (2, 0, 4), (2, 3, 8, 8), (4, 3, 3, 3), (2, 4, 6, 6)]),
    st.lists(st.integers(0, 64), max_size=5).map(tuple),
)
_TENSORS = st.lists(
    st.tuples(
        _SHAPES,
        st.sampled_from(["float32", "float16", "bfloat16", "float64", "int64", "bool", "complex64", "complex128",
                         "complex32", "uint8", "int8", "quint8", "float8_e4m3fn", "float8_e5m2", "a type to come"]),
    ),
    max_size=6,
)  # fmt: skip


@settings(max_examples=400)
@given(
    st.sampled_from([name for name in _NAMES if kind_of(name) == "contraction"]),
    st.lists(st.tuples(st.lists(st.integers(0, 9), max_size=4).map(tuple), st.just("float32")), max_size=4),
)
def test_matrix_products_under_other_names_have_a_price(name: str, inputs: list[Tensor]) -> None:
    result = price(gpu_spec("T4"), name, inputs, inputs[:1], 0.0, tf32=False, convolution_tf32=False)
    assert result.seconds > 0
    assert math.isfinite(result.seconds)


@given(
    st.sampled_from([*_NAMES, "_foreach_add_", "_fused_adam_", "_fused_sgd_", "_foreach_norm", "mine::own"]),
    st.sampled_from(["T4", "P100", "A100", "B200"]), _TENSORS, _TENSORS, st.sampled_from([0.0, 1e6]), st.booleans(),
)  # fmt: skip
def test_every_combination_of_tensors_has_a_price(
    name: str, gpu: str, inputs: list[Tensor], outputs: list[Tensor], flops: float, tf32: bool
) -> None:
    result = price(gpu_spec(gpu), name, inputs, outputs, flops, tf32=tf32, convolution_tf32=tf32)
    assert (result.seconds == 0) == (kind_of(name) == NO_COST)
    assert math.isfinite(result.seconds)
    assert result.bytes >= 0
    assert 0 <= result.fill <= 1
    assert launches(name, tensors=len(inputs)) > 0


@pytest.mark.parametrize("name", ["nonzero", "argwhere", "unique_consecutive"])
def test_data_dependent_operators_have_a_price_without_inputs(name: str) -> None:
    result = price(gpu_spec("T4"), name, [], [((), "float32")], 0.0, tf32=False, convolution_tf32=False)
    assert math.isfinite(result.seconds)
