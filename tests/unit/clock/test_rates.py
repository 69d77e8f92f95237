"""The figures of gpus.toml that the clock needs agree with each other."""

from __future__ import annotations

import pytest

from gpututor.devices.virtual.clock.attainable import calibrated
from gpututor.devices.virtual.specs import model_names, spec

_LANE_BYTES_PER_S = {3: 0.985e9, 4: 1.969e9, 5: 3.938e9}


@pytest.mark.parametrize("name", model_names())
def test_rates_follow_from_lanes_and_clocks_and_links_from_generations(name: str) -> None:
    gpu = spec(name)
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


@pytest.mark.parametrize("name", model_names())
def test_what_is_attained_stays_below_the_data_sheet(name: str) -> None:
    gpu, found = spec(name), calibrated(spec(name))
    assert 0.6 * gpu.bytes_per_s < found.bytes_per_s < gpu.bytes_per_s
    assert 0.3 * gpu.float32_flops < found.float32 < gpu.float32_flops
    assert found.clock_hz <= gpu.clock_khz * 1e3
