"""Device properties of each GPU model, and spellings of model names."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from gpututor.devices.virtual import virtual_gpu
from gpututor.devices.virtual.api.devices import uuid_of
from gpututor.hardware.gpus import gpu_names, gpu_spec

CUDA: Any = torch.cuda
"""Untyped: torch's stubs do not know all of it."""


def test_properties_match_the_model_and_print_as_on_cuda() -> None:
    with virtual_gpu(2, model="A100 80"):
        assert CUDA.get_device_name(1) == "NVIDIA A100-SXM4-80GB"
        assert CUDA.get_device_capability("cuda:0") == (8, 0)
        result = CUDA.get_device_properties("cuda:1")
        assert CUDA.get_device_properties(0) == CUDA.get_device_properties(None) != result
        assert (result.name, result.gcnArchName) == ("NVIDIA A100-SXM4-80GB", "NVIDIA A100-SXM4-80GB")
        assert (result.major, result.minor, result.warp_size, result.multi_processor_count) == (8, 0, 32, 108)
        assert result.total_memory == int(79.14 * 2**30)
        assert result.L2_cache_size == 40 * 2**20
        assert result.max_threads_per_multi_processor == 2048
        assert result.regs_per_multiprocessor == 65536
        assert result.shared_memory_per_block == 48 * 1024
        assert result.shared_memory_per_block_optin == 163 * 1024
        assert result.shared_memory_per_multiprocessor == 164 * 1024
        assert (result.is_integrated, result.is_multi_gpu_board) == (0, 0)
        assert len(result.uuid.bytes) == 16
        assert repr(result) == (
            "_CudaDeviceProperties(name='NVIDIA A100-SXM4-80GB', major=8, minor=0, total_memory=81039MB, "
            f"multi_processor_count=108, uuid={uuid_of(1)}, pci_bus_id=2, pci_device_id=0, pci_domain_id=0, "
            "L2_cache_size=40MB)"
        )
        assert type(result).__name__ == "_CudaDeviceProperties"


@pytest.mark.parametrize("name", gpu_names())
def test_every_model_can_be_simulated_with_its_bandwidth(name: str) -> None:
    with virtual_gpu(1, model=name):
        result = CUDA.get_device_properties()
        bytes_per_s = 2 * result.memory_clock_rate * 1e3 * result.memory_bus_width / 8
        assert bytes_per_s == pytest.approx(gpu_spec(name).bytes_per_s, rel=0.025)


@pytest.mark.parametrize(
    ("spelling", "name"), [("a100", "A100 40"), ("A100-80GB", "A100 80"), ("h100_pcie", "H100 PCIe")]
)
def test_model_names_accept_usual_spellings(spelling: str, name: str) -> None:
    assert gpu_spec(spelling).name == name
