"""Cost of copies and collectives over PCIe and NVLink."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpututor.devices.virtual.cost.links import Direction, collective_kind, collective_s, copy_s, peer_s
from gpututor.hardware.gpus import gpu_names, gpu_spec

_GIB = 2**30
KINDS = ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "all_to_all", "gather", "scatter"]


@pytest.mark.parametrize("name", gpu_names())
@pytest.mark.parametrize("direction", get_args(Direction))
def test_a_large_pinned_copy_takes_what_the_link_attains_and_a_pageable_one_longer(
    name: str, direction: Direction
) -> None:
    gpu = gpu_spec(name)
    pinned = copy_s(gpu, _GIB, pinned=True, direction=direction)
    assert _GIB / pinned == pytest.approx(gpu.pinned_bytes_per_s, rel=0.01)
    assert copy_s(gpu, _GIB, pinned=False, direction=direction) > 1.5 * pinned


def test_a_pageable_copy_back_is_slower_than_one_there() -> None:
    there = copy_s(gpu_spec("T4"), _GIB, pinned=False, direction="h2d")
    back = copy_s(gpu_spec("T4"), _GIB, pinned=False, direction="d2h")
    assert there < back < 1.5 * there


@pytest.mark.parametrize("name", gpu_names())
def test_a_copy_of_a_few_bytes_takes_the_latency_and_one_of_none_nothing(name: str) -> None:
    gpu = gpu_spec(name)
    assert copy_s(gpu, 4, pinned=True) == pytest.approx(gpu.copy_latency_s, rel=0.01)
    assert copy_s(gpu, 0, pinned=True) == peer_s(gpu, 0) == 0
    assert 1e-6 < peer_s(gpu, 4) < 2e-5


def test_nvlink_carries_more_between_gpus_than_pcie() -> None:
    assert 5 * peer_s(gpu_spec("H100"), _GIB) < peer_s(gpu_spec("H100 PCIe"), _GIB) < peer_s(gpu_spec("T4"), _GIB)


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


def test_a_collective_of_a_single_rank_costs_nothing() -> None:
    assert collective_s(gpu_spec("T4"), "c10d::allreduce_", _GIB, 1) == 0


def test_an_all_reduce_costs_what_its_two_halves_do() -> None:
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
