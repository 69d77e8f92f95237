"""What `torch.cuda.get_device_properties` gives."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from gpututor.devices.virtual.face.visible import uuid_of
from gpututor.devices.virtual.machine import VirtualGpu

REGISTERS = 64 << 10
"""32-bit registers of a multiprocessor, and of a block at most, for every capability (CUDA C++ Programming Guide)."""
SHARED_PER_BLOCK = 48 << 10
"""Bytes of shared memory that a block has without asking for more (the same guide)."""


class CudaUuid:
    """As torch shows a `CUuuid`: 16 `bytes`, and text without `GPU-`."""

    def __init__(self, value: uuid.UUID) -> None:
        self.bytes = list(value.bytes)
        self._text = str(value)

    def __str__(self) -> str:
        return self._text


CudaUuid.__name__ = CudaUuid.__qualname__ = "_CUuuid"
CudaUuid.__module__ = "torch._C"


@dataclass(frozen=True, eq=False, repr=False)
class DeviceProperties:
    """The fields that torch shows of `cudaDeviceProp` (torch/csrc/cuda/Module.cpp); memory in bytes, clocks in kHz."""

    name: str
    major: int
    minor: int
    total_memory: int
    multi_processor_count: int
    max_threads_per_multi_processor: int
    shared_memory_per_multiprocessor: int
    shared_memory_per_block_optin: int
    L2_cache_size: int
    clock_rate: int
    memory_clock_rate: int
    memory_bus_width: int
    uuid: CudaUuid
    pci_bus_id: int
    pci_device_id: int = 0
    pci_domain_id: int = 0
    shared_memory_per_block: int = SHARED_PER_BLOCK
    regs_per_multiprocessor: int = REGISTERS
    max_threads_per_block: int = 1024
    warp_size: int = 32
    is_integrated: int = 0
    is_multi_gpu_board: int = 0

    @property
    def gcnArchName(self) -> str:
        """On CUDA builds torch gives the name here."""
        return self.name

    def __repr__(self) -> str:
        return (
            f"_CudaDeviceProperties(name='{self.name}', major={self.major}, minor={self.minor}, "
            f"total_memory={self.total_memory // 2**20}MB, multi_processor_count={self.multi_processor_count}, "
            f"uuid={self.uuid}, pci_bus_id={self.pci_bus_id}, pci_device_id={self.pci_device_id}, "
            f"pci_domain_id={self.pci_domain_id}, L2_cache_size={self.L2_cache_size // 2**20}MB)"
        )


DeviceProperties.__name__ = DeviceProperties.__qualname__ = "_CudaDeviceProperties"
DeviceProperties.__module__ = "torch._C"


def properties_of(gpu: VirtualGpu) -> DeviceProperties:
    """The properties of one GPU, from its spec."""
    spec = gpu.spec
    return DeviceProperties(
        name=spec.reported_name,
        major=spec.capability[0],
        minor=spec.capability[1],
        total_memory=gpu.memory.total,
        multi_processor_count=spec.multiprocessors,
        max_threads_per_multi_processor=spec.threads_per_multiprocessor,
        shared_memory_per_multiprocessor=spec.shared_bytes_per_multiprocessor,
        shared_memory_per_block_optin=spec.shared_bytes_per_block_at_most,
        L2_cache_size=spec.l2_cache_bytes,
        clock_rate=spec.clock_khz,
        memory_clock_rate=spec.memory_clock_khz,
        memory_bus_width=spec.memory_bus_bits,
        uuid=CudaUuid(uuid_of(gpu.slot)),
        pci_bus_id=gpu.slot + 1,
    )
