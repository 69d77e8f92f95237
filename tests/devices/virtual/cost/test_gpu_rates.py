"""Consistency of the rates in `gpus.toml`."""

from __future__ import annotations

import pytest

from gpututor.devices.virtual.cost.calibration import calibrated
from gpututor.hardware.gpus import gpu_names, gpu_spec

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
def test_rates_follow_from_lanes_and_clocks_and_links_from_generations(name: str) -> None:
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


@pytest.mark.parametrize("name", gpu_names())
def test_figures_are_those_that_the_data_sheets_print(name: str) -> None:
    gpu = gpu_spec(name)
    memory, *rates = _PRINTED[name]
    assert gpu.bytes_per_s == pytest.approx(memory * 1e9, rel=0.03)
    results = (gpu.float32_flops, gpu.tf32_flops, gpu.float16_flops, gpu.float8_flops, gpu.int8_flops)
    assert results == pytest.approx([rate * 1e12 for rate in rates], rel=0.03)


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


@pytest.mark.parametrize("name", gpu_names())
def test_links_between_gpus_attain_most_of_the_generations_rate(name: str) -> None:
    gpu = gpu_spec(name)
    if gpu.peer_link in _NVLINK:
        assert 0.75 < gpu.peer_bytes_per_s / (_NVLINK[gpu.peer_link] * 1e9) < 0.9
    else:
        assert gpu.peer_link == "PCIe"
        assert 0.5 < gpu.peer_bytes_per_s / (_LANE_BYTES_PER_S[gpu.pcie_generation] * gpu.pcie_lanes) < 0.85


@pytest.mark.parametrize("name", gpu_names())
def test_what_is_attained_stays_below_the_data_sheet(name: str) -> None:
    gpu, result = gpu_spec(name), calibrated(gpu_spec(name))
    assert 0.6 * gpu.bytes_per_s < result.bytes_per_s < gpu.bytes_per_s
    assert 0.3 * gpu.float32_flops < result.float32 < gpu.float32_flops
    assert result.clock_hz <= gpu.clock_khz * 1e3
