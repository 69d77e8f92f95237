"""Cost of operators on CPU tensors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpututor.devices.virtual.cost.cpu import CpuSpec, all_cpus, cpu_price_s, cpu_spec
from gpututor.devices.virtual.cost.kernel import price
from gpututor.errors import UsageError
from gpututor.hardware.gpus import gpu_spec
from tests.support.workloads import tensor

CPUS = list(all_cpus().values())


@pytest.mark.parametrize("cpu", CPUS, ids=lambda value: value.name)
def test_cpu_rates_are_consistent(cpu: CpuSpec) -> None:
    assert 1e12 < cpu.float32_flops < 1e13
    assert cpu.core_memory_bytes_per_s < cpu.core_l3_bytes_per_s < cpu.core_l2_bytes_per_s
    assert cpu.core_memory_bytes_per_s * cpu.cores > 0.8 * cpu.memory_bytes_per_s
    assert cpu.l2_bytes * cpu.cores < 2 * cpu.l3_bytes
    assert len(cpu.source) > 20


def test_a_cpu_is_found_by_name_and_there_is_a_default() -> None:
    assert cpu_spec() is CPUS[0] is cpu_spec(CPUS[0].name.lower())
    with pytest.raises(UsageError, match="No CPU is called"):
        cpu_spec("abacus")


@pytest.mark.parametrize("cpu", CPUS, ids=lambda value: value.name)
def test_nothing_is_faster_than_the_data_sheet(cpu: CpuSpec) -> None:
    large, square = tensor(2**28), tensor(8192, 8192)
    assert cpu_price_s(cpu, "add", [large, large], [large], threads=cpu.cores) > 3 * 2**30 / cpu.memory_bytes_per_s
    assert cpu_price_s(cpu, "mm", [square, square], [square], threads=cpu.cores) > 2 * 8192**3 / cpu.float32_flops


@given(
    st.sampled_from(CPUS),
    st.sampled_from(["add", "exp", "sum", "cumsum", "sort", "mm", "_softmax", "index_select", "mine::own"]),
    st.integers(1, 3000), st.integers(1, 3000),
)  # fmt: skip
def test_more_work_takes_less_time_only_if_more_threads_help(cpu: CpuSpec, name: str, first: int, second: int) -> None:
    few, many = sorted((first, second))
    results = [
        cpu_price_s(cpu, name, [tensor(rows, 256), tensor(256, 256)], [tensor(rows, 256)], threads=1)
        for rows in (few, many)
    ]
    assert results[0] <= results[1]


def test_a_small_operator_costs_its_call_and_a_large_one_its_bytes() -> None:
    cpu = cpu_spec()
    assert cpu_price_s(cpu, "add", [tensor(4)], [tensor(4)]) < 1.1 * cpu.operator_s
    assert cpu_price_s(cpu, "view", [tensor(2**28)], [tensor(2**28)]) < cpu.operator_s
    assert cpu_price_s(cpu, "add", [tensor(2**28)], [tensor(2**28)]) > 100 * cpu.operator_s


def test_caches_fresh_memory_and_threads_change_the_price() -> None:
    cpu = cpu_spec()
    inside, outside = (
        (cpu_price_s(cpu, "add", [tensor(size)], [tensor(size)], threads=1) - cpu.operator_s) / size
        for size in (2**16, 2**26)
    )
    assert 3 * inside < outside
    large = tensor(2**26)
    fresh, in_place = (cpu_price_s(cpu_spec(), name, [large], [large], threads=1) for name in ("neg", "neg_"))
    assert 1.05 * in_place < fresh < 2 * in_place
    large, small = tensor(2**24), tensor(2**10)
    assert cpu_price_s(cpu, "exp", [large], [large]) < 0.3 * cpu_price_s(cpu, "exp", [large], [large], threads=1)
    assert cpu_price_s(cpu, "exp", [small], [small]) == cpu_price_s(cpu, "exp", [small], [small], threads=1)


def test_large_work_is_slower_on_the_cpu_than_on_a_gpu() -> None:
    square = tensor(4096, 4096)
    for name in ("mm", "add", "exp", "sum"):
        on_gpu = price(gpu_spec("T4"), name, [square, square], [square]).seconds
        assert cpu_price_s(cpu_spec(), name, [square, square], [square]) > 2 * on_gpu, name


@pytest.mark.parametrize("name", ["mm", "add", "convolution", "sum", "view", "sort", "_foreach_add"])
def test_unusual_shapes_have_a_price(name: str) -> None:
    for inputs in ([], [tensor()], [tensor(0)], [tensor(0, 3), tensor(3, 0)], [tensor(2, 3), tensor()]):
        assert 0 < cpu_price_s(cpu_spec(), name, inputs, inputs[:1]) < 1e-3
