"""Rates in `gpus.toml`, and the cost of copies and collectives over PCIe and NVLink."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpututor.devices.virtual.cost.calibration import calibrated
from gpututor.devices.virtual.cost.links import Direction, collective_kind, collective_s, copy_s, peer_s
from gpututor.hardware.gpus import gpu_names, gpu_spec

_GIB = 2**30
KINDS = ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "all_to_all", "gather", "scatter"]


@pytest.mark.parametrize("name", gpu_names())
@pytest.mark.parametrize("direction", get_args(Direction))
def test_a_large_pinned_copy_uses_the_link_fully_and_pageable_is_slower(name: str, direction: Direction) -> None:
    gpu = gpu_spec(name)
    pinned = copy_s(gpu, _GIB, pinned=True, direction=direction)
    assert _GIB / pinned == pytest.approx(gpu.pinned_bytes_per_s, rel=0.01)
    assert copy_s(gpu, _GIB, pinned=False, direction=direction) > 1.5 * pinned


def test_copies_back_are_slower_and_nvlink_carries_more_than_pcie() -> None:
    there = copy_s(gpu_spec("T4"), _GIB, pinned=False, direction="h2d")
    back = copy_s(gpu_spec("T4"), _GIB, pinned=False, direction="d2h")
    assert there < back < 1.5 * there
    assert 5 * peer_s(gpu_spec("H100"), _GIB) < peer_s(gpu_spec("H100 PCIe"), _GIB) < peer_s(gpu_spec("T4"), _GIB)


@pytest.mark.parametrize("name", gpu_names())
def test_a_tiny_copy_takes_the_latency_and_an_empty_copy_nothing(name: str) -> None:
    gpu = gpu_spec(name)
    assert copy_s(gpu, 4, pinned=True) == pytest.approx(gpu.copy_latency_s, rel=0.01)
    assert copy_s(gpu, 0, pinned=True) == peer_s(gpu, 0) == 0
    assert 1e-6 < peer_s(gpu, 4) < 2e-5


@given(st.sampled_from(gpu_names()), st.integers(0, 2**34), st.integers(0, 2**34))
def test_more_bytes_never_take_less_time(name: str, first: int, second: int) -> None:
    gpu, (few, many) = gpu_spec(name), sorted((first, second))
    for pinned in (True, False):
        assert copy_s(gpu, few, pinned=pinned) <= copy_s(gpu, many, pinned=pinned)
    assert peer_s(gpu, few) <= peer_s(gpu, many)
    for kind in KINDS:
        assert collective_s(gpu, kind, few, 4) <= collective_s(gpu, kind, many, 4)


@pytest.mark.parametrize("count", [2, 4, 8])
def test_large_collectives_have_the_bus_bandwidth_of_the_link(count: int) -> None:
    gpu, size = gpu_spec("A100 80"), 4 * _GIB
    # Bytes of the whole array: what one GPU puts in is a part of it in all-gather and gather.
    whole = {"all_gather": size * count, "gather": size * count}
    share = {"all_reduce": 2 * (count - 1) / count, "broadcast": 1.0, "reduce": 1.0}
    for kind in KINDS:
        bus = share.get(kind, (count - 1) / count) * whole.get(kind, size) / collective_s(gpu, kind, size, count)
        assert bus == pytest.approx(gpu.peer_bytes_per_s, rel=0.01), kind


@pytest.mark.parametrize("name", ["T4", "A100", "H100"])
def test_a_small_collective_takes_microseconds_and_more_with_more_gpus(name: str) -> None:
    two, eight = (collective_s(gpu_spec(name), "c10d::allreduce_", 8, count) for count in (2, 8))
    assert 3e-6 < two < eight < 50e-6
    assert 3e-6 < collective_s(gpu_spec(name), "c10d::barrier", 0, 2) < 50e-6


def test_collectives_of_one_rank_are_free_and_of_two_halves_cost_both() -> None:
    assert collective_s(gpu_spec("T4"), "c10d::allreduce_", _GIB, 1) == 0
    gpu, size, count = gpu_spec("H100"), _GIB, 8
    halves = collective_s(gpu, "reduce_scatter", size, count) + collective_s(gpu, "all_gather", size // count, count)
    assert collective_s(gpu, "all_reduce", size, count) == pytest.approx(halves, rel=0.02)


def test_every_collective_that_the_virtual_gpu_carries_has_a_kind() -> None:
    from gpututor.devices.virtual.distributed.collectives import _KNOWN

    assert [name for name in sorted(_KNOWN) if not collective_kind(f"c10d::{name}")] == []
    for name, kind in (
        ("c10d::allreduce_", "all_reduce"),
        ("c10d::_allgather_base_", "all_gather"),
        ("c10d::_reduce_scatter_base_", "reduce_scatter"),
        ("c10d::reduce_", "reduce"),
        ("_c10d_functional::all_reduce", "all_reduce"),
        ("_c10d_functional::all_gather_into_tensor", "all_gather"),
        ("_c10d_functional::all_to_all_single", "all_to_all"),
        ("_c10d_functional::broadcast_", "broadcast"),
    ):
        assert collective_kind(name) == kind
    assert collective_kind("aten::mm") == ""


# GB/s and 10^12 operations a second, dense, as the data sheets print them (their rates with sparsity halved): memory,
# float32, TF32, float16 with float32 accumulation, float8, int8; 0 where there are none.
_PRINTED = {
    "T4": (320, 8.1, 0, 65, 0, 130),
    "P100": (732, 9.3, 0, 0, 0, 0),
    "RTX 3080": (760, 29.8, 29.8, 59.5, 0, 238),
    "RTX 4090": (1008, 82.6, 82.6, 165.2, 330.3, 660.6),
    "A10G": (600, 35, 35, 70, 0, 140),
    "L4": (300, 30.3, 60, 121, 242.5, 242.5),
    "L40S": (864, 91.6, 183, 362, 733, 733),
    "A100 40": (1555, 19.5, 156, 312, 0, 624),
    "A100 80": (2039, 19.5, 156, 312, 0, 624),
    "H100": (3350, 67, 494.5, 989.5, 1979, 1979),
    "H100 PCIe": (2000, 51, 378, 756, 1513, 1513),
    "H200": (4800, 67, 494.5, 989.5, 1979, 1979),
    "B200": (8000, 75, 1125, 2250, 4500, 4500),
}
# FLOPs a cycle and multiprocessor of the tensor cores in float16 with float32 accumulation, by the white papers; Ada's
# consumer boards have half.
_TENSOR_FLOPS = {(7, 5): 1024, (8, 0): 2048, (8, 6): 512, (8, 9): 1024, (9, 0): 4096, (10, 0): 8192}
# One way, in GB/s: half of what the data sheets give for both ways together.
_NVLINK = {"NVLink 3": 300, "NVLink 4": 450, "NVLink 5": 900}
_LANE_BYTES_PER_S = {3: 0.985e9, 4: 1.969e9, 5: 3.938e9}


@pytest.mark.parametrize("name", gpu_names())
def test_rates_follow_from_data_sheets_lanes_clocks_and_links(name: str) -> None:
    gpu = gpu_spec(name)
    lanes = gpu.multiprocessors * gpu.float32_lanes_per_multiprocessor
    assert gpu.float32_flops == pytest.approx(2 * lanes * gpu.clock_khz * 1e3, rel=0.03)
    if gpu.capability in ((6, 0), (8, 0), (9, 0), (10, 0)):
        assert gpu.float64_flops == pytest.approx(gpu.float32_flops / 2, rel=0.03)
    else:
        assert gpu.float32_flops / 65 < gpu.float64_flops < gpu.float32_flops / 30
    assert gpu.float64_tensor_flops == 0 or gpu.float64_tensor_flops >= gpu.float64_flops
    assert gpu.tf32_flops <= gpu.float16_flops
    if gpu.capability >= (8, 0):
        assert gpu.bfloat16_flops == gpu.float16_flops >= gpu.float32_flops
    else:
        assert gpu.tf32_flops == gpu.bfloat16_flops == 0
    assert (gpu.float8_flops > 0) == (gpu.capability >= (8, 9))
    one_way = _LANE_BYTES_PER_S[gpu.pcie_generation] * gpu.pcie_lanes
    assert gpu.pageable_bytes_per_s < gpu.pinned_bytes_per_s < one_way
    assert gpu.peer_link.startswith("NVLink") or gpu.peer_bytes_per_s < one_way
    assert gpu.copy_engines >= 2
    assert 1e-6 < gpu.launch_s < 2e-5
    assert len(gpu.rate_source) > 20
    memory, *rates = _PRINTED[name]
    assert gpu.bytes_per_s == pytest.approx(memory * 1e9, rel=0.03)
    results = (gpu.float32_flops, gpu.tf32_flops, gpu.float16_flops, gpu.float8_flops, gpu.int8_flops)
    assert results == pytest.approx([rate * 1e12 for rate in rates], rel=0.03)
    if gpu.peer_link in _NVLINK:
        assert 0.75 < gpu.peer_bytes_per_s / (_NVLINK[gpu.peer_link] * 1e9) < 0.9
    else:
        assert gpu.peer_link == "PCIe"
        assert 0.5 < gpu.peer_bytes_per_s / (_LANE_BYTES_PER_S[gpu.pcie_generation] * gpu.pcie_lanes) < 0.85
    result = calibrated(gpu)
    assert 0.6 * gpu.bytes_per_s < result.bytes_per_s < gpu.bytes_per_s
    assert 0.3 * gpu.float32_flops < result.float32 < gpu.float32_flops
    assert result.clock_hz <= gpu.clock_khz * 1e3


@pytest.mark.parametrize("name", gpu_names())
def test_tensor_rates_follow_from_the_generation_and_the_clock(name: str) -> None:
    gpu = gpu_spec(name)
    if not gpu.float16_flops:
        assert gpu.tf32_flops == gpu.bfloat16_flops == gpu.float8_flops == gpu.int8_flops == 0
        return
    whole = _TENSOR_FLOPS[gpu.capability] * gpu.multiprocessors * gpu.clock_khz * 1e3
    consumer = name.startswith("RTX 4")
    # Hopper's and Blackwell's data sheets count tensor rates at a lower clock than the highest one.
    assert gpu.float16_flops == pytest.approx(whole / (2 if consumer else 1), rel=0.08)
    if gpu.tf32_flops:
        assert gpu.float16_flops / gpu.tf32_flops == pytest.approx(2, rel=0.03)
    if gpu.float8_flops:
        assert gpu.float8_flops / gpu.float16_flops == pytest.approx(2, rel=0.03)
    assert gpu.int8_flops / gpu.float16_flops == pytest.approx(4 if name.startswith("RTX") else 2, rel=0.03)
