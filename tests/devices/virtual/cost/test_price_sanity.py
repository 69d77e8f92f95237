"""Sanity of prices: of operators of training programs, sizes and GPUs, and of all that PyTorch samples dispatch."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from gpututor.devices.virtual.cost.cpu import cpu_price_s, cpu_spec
from gpututor.devices.virtual.cost.kernel import price
from gpututor.devices.virtual.cost.memory_traffic import Tensor
from gpututor.devices.virtual.operator_facts import NO_COST, kind_of, tables
from gpututor.hardware.gpus import GpuSpec, gpu_names, gpu_spec
from tests.support.workloads import Workload, workloads

WORKLOADS = workloads()
SIZES = [4**power for power in range(15)]
DTYPES = ["float32", "float16", "bfloat16", "float64"]
BY_BANDWIDTH = ["T4", "A100 40", "A100 80", "H100", "H200", "B200"]
_WAVES = 0.98
"""Least ratio of the prices of more and less work: additional blocks can fill a wave, or split better."""

each_workload = pytest.mark.parametrize("workload", WORKLOADS, ids=lambda value: value.label)


def peak_rate(gpu: GpuSpec, dtype: str) -> float:
    """Return the highest data-sheet rate for the dtype, with TF32 allowed."""
    rates = {
        "float64": max(gpu.float64_flops, gpu.float64_tensor_flops), "float16": gpu.float16_flops,
        "bfloat16": gpu.bfloat16_flops, "float32": gpu.tf32_flops,
    }  # fmt: skip
    return rates[dtype] if dtype == "float64" else max(gpu.float32_flops, rates[dtype])


@each_workload
def test_more_elements_never_take_less_time(workload: Workload) -> None:
    for gpu in gpu_names():
        for dtype in DTYPES:
            longest = 0.0
            for size in SIZES:
                result = workload.price(gpu, size, dtype).seconds
                assert result >= _WAVES * longest, (gpu, dtype, size)
                longest = max(longest, result)


@each_workload
@pytest.mark.parametrize("tf32", [False, True])
def test_nothing_is_faster_than_the_memory_or_the_arithmetic_units(workload: Workload, tf32: bool) -> None:
    for gpu in map(gpu_spec, gpu_names()):
        for dtype in DTYPES:
            for size in SIZES:
                result = workload.price(gpu.name, size, dtype, tf32=tf32)
                # What fits the L2 cache is read there, 2.5 times as fast.
                bandwidth = gpu.bytes_per_s * (1 if result.bytes > gpu.l2_cache_bytes else 2.5)
                assert result.seconds > result.bytes / bandwidth, (gpu.name, dtype, size)
                assert result.seconds > result.flops / peak_rate(gpu, dtype), (gpu.name, dtype, size)
                assert result.seconds >= 1e-6
                assert 0 < result.fill <= 1


@each_workload
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_gpu_with_more_bandwidth_is_not_slower(workload: Workload, dtype: str) -> None:
    for size in SIZES:
        results = [workload.price(gpu, size, dtype).seconds for gpu in BY_BANDWIDTH]
        for slower, faster in pairwise(results):
            assert faster <= 1.1 * slower, (size, results)


@each_workload
def test_half_precision_is_not_slower_and_double_not_faster(workload: Workload) -> None:
    for gpu in gpu_names():
        for size in SIZES:
            half, single, double = (
                workload.price(gpu, size, name).seconds for name in ("float16", "float32", "float64")
            )
            assert half <= 1.02 * single, (gpu, size)
            # An H200's tensor cores attain 65 TFLOP/s in float64, its other units 51 in float32, in whole waves of
            # large tiles.
            with_tensor_cores = gpu_spec(gpu).float64_tensor_flops >= gpu_spec(gpu).float32_flops
            assert single <= (2.0 if with_tensor_cores else 1.02) * double, (gpu, size)


@pytest.mark.parametrize("gpu", [name for name in gpu_names() if gpu_spec(name).float16_flops])
def test_tensor_cores_make_large_products_of_half_precision_faster(gpu: str) -> None:
    square = ((4096, 4096), "float32")
    half = ((4096, 4096), "float16")
    single_s = price(gpu_spec(gpu), "mm", [square, square], [square]).seconds
    assert price(gpu_spec(gpu), "mm", [half, half], [half]).seconds < 0.65 * single_s


@pytest.mark.parametrize("gpu", ["T4", "A100 40", "H100"])
def test_a_step_of_adam_on_a_hundred_million_parameters_takes_their_traffic(gpu: str) -> None:
    lists = [((10**6,), "float32")] * 400
    moved = 4 * 7 * 10**8
    fused = price(gpu_spec(gpu), "aten::_fused_adam_", [*lists, *[((), "float32")] * 100], [])
    assert fused.bytes == pytest.approx(moved, rel=1e-3)
    assert 0.65 * gpu_spec(gpu).bytes_per_s < fused.bytes / fused.seconds < 0.95 * gpu_spec(gpu).bytes_per_s


@pytest.mark.parametrize("gpu", ["T4", "A100 40", "H100"])
def test_a_matrix_of_one_column_is_read_at_the_speed_of_memory(gpu: str) -> None:
    matrix, vector, made = ((32768, 8192), "float16"), ((8192, 1), "float16"), ((32768, 1), "float16")
    result = price(gpu_spec(gpu), "mm", [matrix, vector], [made])
    assert 0.65 * gpu_spec(gpu).bytes_per_s < result.bytes / result.seconds < gpu_spec(gpu).bytes_per_s


_NAMES_IN_LISTS = {"mm", "addmm", "bmm", "convolution", "native_batch_norm", "native_layer_norm", "_softmax", "cumsum"}


def _plain(value: Any) -> list[Tensor]:
    tensors = [tensor for tensor in pytree.tree_leaves(value) if isinstance(tensor, torch.Tensor)]
    return [(tuple(tensor.shape), str(tensor.dtype).removeprefix("torch.")) for tensor in tensors]


class _Dispatched(TorchDispatchMode):
    """Collects each operator with the shapes of its first call."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen: dict[str, tuple[Any, list[Tensor], list[Tensor]]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if str(func) not in self.seen:
            self.seen[str(func)] = (func, _plain((args, kwargs)), _plain(out))
        return out


_Seen = dict[str, tuple[Any, list[Tensor], list[Tensor]]]


@pytest.fixture(scope="module")
def seen() -> _Seen:
    """Each operator that the samples of `op_db` dispatch."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_methods_invocations import op_db

        mode = _Dispatched()
        for op in op_db:
            # Sparse tensors have no one shape of memory; the compiled ones need a real GPU.
            if torch.float32 not in op.dtypes or "sparse" in op.name or "jiterator" in op.name:
                continue
            sample = next(iter(op.sample_inputs("cpu", torch.float32, requires_grad=op.supports_autograd)), None)
            if sample is None:
                continue
            with mode:
                out = op(sample.input, *sample.args, **sample.kwargs)
                used = [
                    tensor
                    for tensor in pytree.tree_leaves(out)
                    if isinstance(tensor, torch.Tensor) and tensor.requires_grad
                ]
                if used and op.supports_autograd:
                    torch.autograd.backward([item.abs().sum() for item in used])
    return mode.seen


def _with_types(tensors: list[Tensor], dtype: str) -> list[Tensor]:
    return [(shape, dtype) for shape, _ in tensors]


def _emptied(tensors: list[Tensor]) -> list[Tensor]:
    return [((*shape[:-1], 0) if shape else (), dtype) for shape, dtype in tensors]


@pytest.mark.long
def test_every_dtype_and_empty_tensors_have_a_price(seen: _Seen) -> None:
    changes: list[Callable[[list[Tensor]], list[Tensor]]] = [_emptied]
    for dtype in ("bool", "float8_e4m3fn", "complex64", "complex128", "bfloat16", "float64", "int64", "bits16"):
        changes.append(partial(_with_types, dtype=dtype))
    wrong = []
    for name, (_, inputs, outputs) in seen.items():
        for change in changes:
            ins, outs = change(inputs), change(outputs)
            for gpu in ("T4", "P100", "B200"):
                result = price(gpu_spec(gpu), name, ins, outs, tf32=True)
                if (
                    (result.seconds > 0) != (kind_of(name) != NO_COST)
                    or not result.seconds < 1
                    or not 0 <= result.fill <= 1
                ):
                    wrong.append((name, gpu, ins, outs))
            if not 0 < cpu_price_s(cpu_spec(), name, ins, outs) < 1:
                wrong.append((name, "CPU", ins, outs))
    assert wrong == []


@pytest.mark.long
def test_pricing_is_fast_enough_for_every_new_shape(seen: _Seen) -> None:
    # A bound on the work, not on the time: Python calls that one price makes.
    def calls(name: str, inputs: list[Tensor], outputs: list[Tensor]) -> int:
        count = 0

        def counting(frame: Any, event: str, _: Any) -> None:
            nonlocal count
            count += event == "call"

        sys.setprofile(counting)
        try:
            price(gpu_spec("A100"), name, inputs, outputs)
        finally:
            sys.setprofile(None)
        return count

    for name, (_, inputs, outputs) in seen.items():
        price(gpu_spec("A100"), name, inputs, outputs)
        assert calls(name, inputs, outputs) < 60 + 10 * (len(inputs) + len(outputs)), name


@pytest.mark.long
def test_every_operator_of_op_db_has_a_price_and_views_have_none(seen: _Seen) -> None:
    assert len(seen) > 500
    assert {kind_of(name) for name in seen} >= {"matmul", "convolution", "pool", "fft", "linalg", "sort"}
    wrong = []
    for name, (func, inputs, outputs) in seen.items():
        result = price(gpu_spec("T4"), name, inputs, outputs)
        writes = any(
            argument.alias_info is not None and argument.alias_info.is_write for argument in func._schema.arguments
        )
        is_view = not writes and any(argument.alias_info is not None for argument in func._schema.returns)
        if is_view and result.seconds != 0:
            wrong.append(f"{name} is a view and has a price")
        if kind_of(name) != NO_COST and not (math.isfinite(result.seconds) and 1e-6 < result.seconds < 1):
            wrong.append(f"{name} costs {result.seconds} s")
        if not 0 <= result.fill <= 1:
            wrong.append(f"{name} fills {result.fill}")
    assert wrong == []


def test_the_names_in_the_lists_are_operators_of_torch() -> None:
    listed = {name if name.endswith("__") else name.removesuffix("_") for name in tables()["operators"]}
    assert listed >= _NAMES_IN_LISTS
    known = {name.split("::")[1].split(".")[0].removesuffix("_") for name in torch._C._dispatch_get_all_op_names()}
    known |= {"dim", "is_contiguous", "numel"}  # operators from PyTorch 2.12 on
    known |= {"cholesky"}  # until 2.13
    assert sorted(name for name in listed if name not in known) == []
