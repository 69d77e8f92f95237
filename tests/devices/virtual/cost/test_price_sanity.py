"""Sanity of prices: a sweep over operators of training programs, sizes and GPUs."""

from __future__ import annotations

from itertools import pairwise

import pytest

from gpututor.devices.virtual.cost.kernel import price
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
