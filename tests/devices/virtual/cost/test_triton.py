"""Prices of Triton launches follow from what the programs did."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpututor.devices.virtual.cost.calibration import calibrated
from gpututor.devices.virtual.cost.triton import LaunchWork, launch_price, occupancy
from gpututor.hardware.gpus import gpu_names, gpu_spec

A100 = calibrated(gpu_spec("A100"))
FLOOR = A100.factors["memory.floor_us"] / 1e6
MIB = 1 << 20
DOT = ("float16", "INPUT_PRECISION.TF32", (128, 128, 64))
STREAM = LaunchWork(
    programs=65536,
    requested_bytes=768 * MIB,
    sectors=24 * MIB,
    dram_sectors=24 * MIB,
    distinct_sectors=24 * MIB,
    accesses=3 * 65536,
    plain={"float32": 64 * MIB},
    largest_elements=1024,
    least_bytes=768 * MIB,
)


def seconds(work: LaunchWork) -> float:
    return launch_price(A100, work).seconds


def test_a_stream_of_bytes_takes_the_attainable_bandwidth() -> None:
    assert seconds(STREAM) == pytest.approx(768 * MIB / A100.bytes_per_s + FLOOR)
    price = launch_price(A100, STREAM)
    assert (price.bytes, price.flops, price.fill) == (768 * MIB, 64 * MIB, 1.0)


def test_scattered_cached_special_and_atomic_accesses_have_their_costs() -> None:
    scattered = replace(STREAM, sectors=8 * STREAM.sectors, dram_sectors=8 * STREAM.sectors)
    assert seconds(scattered) == pytest.approx(8 * seconds(STREAM), rel=0.05)
    again = replace(STREAM, sectors=2 * STREAM.sectors, dram_sectors=2 * STREAM.sectors)
    cached = replace(again, dram_sectors=STREAM.dram_sectors)
    assert seconds(STREAM) <= seconds(cached) < seconds(again)
    plain = replace(STREAM, plain={"float32": 10**12})
    special = replace(STREAM, plain={}, special=10**12)
    assert seconds(special) == pytest.approx(8 * seconds(plain), rel=0.05)
    crowded = replace(STREAM, most_atomics_at_one=10**9)
    assert seconds(crowded) == pytest.approx(10**9 / A100.clock_hz, rel=0.05)
    assert launch_price(A100, LaunchWork(programs=0)).seconds == 0


def test_products_run_on_tensor_cores_by_dtype_and_tile() -> None:
    flops = 2 * 4096**3
    work = LaunchWork(programs=1024, num_warps=8, dot={DOT: flops}, accesses=1024, tile_bytes=32768)
    half = seconds(work)
    assert half == pytest.approx(flops / (A100.tensor_rate("float16", True) * A100.tensor_share), rel=0.2)
    small = replace(work, dot={("float16", "TF32", (16, 16, 16)): flops})
    exact = replace(work, dot={("float32", "INPUT_PRECISION.IEEE", (128, 128, 64)): flops})
    assert seconds(small) > 4 * half
    assert seconds(exact) == pytest.approx(flops / A100.float32, rel=0.2)


def test_the_last_wave_takes_as_long_as_a_full_one() -> None:
    work = LaunchWork(programs=108, dot={DOT: 108 * 10**9}, accesses=108)
    one_more = replace(work, programs=109, dot={DOT: 109 * 10**9})
    assert seconds(one_more) == pytest.approx(2 * seconds(work), rel=0.05)
    alone = replace(work, programs=1, dot={DOT: 10**9})
    assert seconds(alone) == pytest.approx(seconds(work), rel=0.05)


def test_threads_registers_and_shared_memory_limit_the_programs_at_once() -> None:
    work = LaunchWork(programs=1000, largest_elements=1024)
    assert occupancy(A100, work).programs == 16
    assert occupancy(A100, replace(work, num_warps=8)).programs == 8
    assert occupancy(A100, replace(work, largest_elements=1 << 15)).programs == 2
    assert occupancy(A100, replace(work, tile_bytes=24 << 10)).programs == 3
    assert occupancy(A100, replace(work, tile_bytes=24 << 10, num_stages=4)).programs == 2


@pytest.mark.parametrize("name", gpu_names())
def test_every_model_has_prices(name: str) -> None:
    gpu = calibrated(gpu_spec(name))
    work = replace(STREAM, dot={(dtype, "TF32", (64, 64, 32)): 10**9 for dtype in ("float16", "bfloat16", "int8")})
    price = launch_price(gpu, work)
    assert 0 < price.seconds < 10
    assert 0 < price.fill <= 1


def test_a_loop_over_cached_rows_takes_as_long_as_on_h100() -> None:
    gpu = calibrated(gpu_spec("H100"))
    for rows, measured_us in ((256, 15.3), (64, 6.3)):
        loop = LaunchWork(programs=1, sectors=8 * rows, distinct_sectors=8 * rows, accesses=rows, largest_elements=64)
        assert launch_price(gpu, loop).seconds == pytest.approx(measured_us / 1e6, rel=0.25)
    missing = replace(loop, dram_sectors=loop.sectors)
    assert launch_price(gpu, missing).seconds > launch_price(gpu, loop).seconds
