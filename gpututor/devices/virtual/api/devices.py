"""`torch.cuda` for devices: counts, properties, visibility and settings."""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass
from typing import Any, cast
from weakref import WeakKeyDictionary

import torch

from gpututor.devices.virtual import execution, torch_private
from gpututor.devices.virtual.execution import waits
from gpututor.devices.virtual.machine import VirtualGpu, active_machine

_NAMESPACE = uuid.UUID("6f0f8c2e-6d0c-5b0e-9d2e-0c4f7a3b1d58")


def uuid_of(slot: int) -> uuid.UUID:
    """Return the UUID of the GPU in a slot. It never changes, so `CUDA_VISIBLE_DEVICES` can name it."""
    return uuid.uuid5(_NAMESPACE, str(slot))


def visible_slots(count: int) -> list[int]:
    """Return the slots that the process sees of a machine with `count` GPUs, in the order of `CUDA_VISIBLE_DEVICES`.

    The variable lists numbers, or UUIDs (`GPU-…`) that may be shortened. An entry that is not a GPU of the machine ends
    the list. The list is empty if it names a GPU twice (CUDA C++ Programming Guide, "CUDA Environment Variables";
    torch/cuda/__init__.py).
    """
    wanted = torch_private.parse_visible_devices()
    if not wanted:
        return []
    if isinstance(wanted[0], str):
        names = [f"GPU-{uuid_of(slot)}" for slot in range(count)]
        return cast(list[int], torch_private.ordinals_of_uuids(wanted, names))
    slots = []
    for slot in wanted:
        if slot >= count:
            break
        slots.append(slot)
    return slots


REGISTERS = 64 << 10
"""32-bit registers of a multiprocessor, also the maximum for a block (CUDA C++ Programming Guide)."""
SHARED_PER_BLOCK = 48 << 10
"""Bytes of shared memory that a block has by default (the same guide)."""


class CudaUuid:
    """A `CUuuid` as torch shows it: 16 `bytes`, and text without `GPU-`."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CudaUuid) and self.bytes == other.bytes

    def __hash__(self) -> int:
        return hash(self._text)

    def __init__(self, value: uuid.UUID) -> None:
        self.bytes = list(value.bytes)
        self._text = str(value)

    def __str__(self) -> str:
        return self._text


CudaUuid.__name__ = CudaUuid.__qualname__ = "_CUuuid"
CudaUuid.__module__ = "torch._C"


@dataclass(frozen=True, repr=False)
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
        """The name, as on CUDA builds."""
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


def gpu_of(device: Any = None) -> VirtualGpu:
    """Return the GPU of a `torch.cuda` function's argument: a device, a name, a number; None is the current one."""
    machine = active_machine()
    machine.start()
    index = torch_private.cuda_device_index(device, optional=True)
    return machine.current if index < 0 else machine.gpu(index)


def is_available() -> bool:
    """Return True if there is a GPU. As in CUDA, this starts the driver, but `device_count` asks NVML."""
    machine = active_machine()
    machine.refresh_gpus()
    if os.environ.get("PYTORCH_NVML_BASED_CUDA_CHECK") != "1":
        machine.driver_started = True
    return len(machine.gpus) > 0


def is_built() -> bool:
    return "cuda" in active_machine().backends


def device_count() -> int:
    machine = active_machine()
    machine.refresh_gpus()
    return len(machine.gpus)


def current_device() -> int:
    return active_machine().current.index


def set_device(device: Any) -> None:
    index = torch_private.cuda_device_index(device)
    if index >= 0:
        active_machine().set_current(index)


def exchange_device(index: int) -> int:
    """Make GPU `index` the current one, unless it is negative; return the previous one."""
    if not isinstance(index, int):
        raise RuntimeError("invalid argument to exchangeDevice")  # torch/csrc/cuda/Module.cpp
    machine = active_machine()
    if index < 0:
        return -1
    machine.start()
    before = machine.current_index
    machine.set_current(index)
    return before


def lazy_init() -> None:
    active_machine().start()


def lazy_call(call: Any, **kwargs: Any) -> None:
    """Run `call` now. CUDA would queue the call until it starts, and it never starts without a GPU."""
    machine = active_machine()
    if machine.gpus and not machine.in_bad_fork:
        call()


def is_initialized() -> bool:
    machine = active_machine()
    return machine.started and not machine.in_bad_fork


def is_in_bad_fork() -> bool:
    return active_machine().in_bad_fork


def get_device_name(device: Any = None) -> str:
    return get_device_properties(device).name


def get_device_capability(device: Any = None) -> tuple[int, int]:
    properties = get_device_properties(device)
    return properties.major, properties.minor


def get_device_properties(device: Any = None) -> DeviceProperties:
    """Return a GPU's properties from its spec. Raises torch's `AssertionError` for a number that no GPU has."""
    machine = active_machine()
    machine.start()
    index = torch_private.cuda_device_index(device, optional=True)
    if not 0 <= index < len(machine.gpus):
        raise AssertionError("Invalid device id")
    gpu = machine.gpus[index]
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


def is_bf16_supported(including_emulation: bool = True) -> bool:
    if not is_available():
        return False
    return including_emulation or get_device_capability()[0] >= 8


def can_device_access_peer(device: Any, peer_device: Any) -> bool:
    """Return True for two different GPUs. As in CUDA, a GPU is not its own peer."""
    machine = active_machine()
    machine.start()
    index = torch_private.cuda_device_index(device, optional=True)
    peer = torch_private.cuda_device_index(peer_device)
    if not 0 <= index < len(machine.gpus):
        raise AssertionError("Invalid device id")
    if not 0 <= peer < len(machine.gpus):
        raise AssertionError("Invalid peer device id")
    return bool(index != peer)


def get_arch_list() -> list[str]:
    return sorted({f"sm_{gpu.spec.capability[0]}{gpu.spec.capability[1]}" for gpu in active_machine().gpus})


def synchronize(device: Any = None) -> None:
    execution.synchronize(active_machine(), gpu_of(device), "torch.cuda.synchronize")


def get_sync_debug_mode() -> int:
    machine = active_machine()
    machine.start()
    return machine.sync_debug


_SYNC_DEBUG = {"default": 0, "warn": waits.WARN, "error": waits.ERROR}


def set_sync_debug_mode(debug_mode: int | str) -> None:
    """Choose the reaction to waits for streams and blocking copies: none, a warning or an error."""
    machine = active_machine()
    machine.start()
    if isinstance(debug_mode, str):
        if debug_mode not in _SYNC_DEBUG:
            raise RuntimeError("invalid value of debug_mode, expected one of `default`, `warn`, `error`")
        debug_mode = _SYNC_DEBUG[debug_mode]
    if debug_mode not in _SYNC_DEBUG.values():
        raise RuntimeError("invalid value of debug_mode, expected one of 0,1,2")
    machine.sync_debug = debug_mode


CUDA_VERSION: str = torch.version.cuda or "12.8"
"""The CUDA version; for a CPU build, the newest that supports every GPU of gpus.toml, from Pascal to Blackwell."""
_CUDNN_VERSION = 91002
"""cuDNN 9.10.2, as in PyTorch's builds for CUDA 12.8; the last series that supports Pascal and Volta."""
_real_cudnn_version: Any = torch.backends.cudnn.version

_PLANS_AT_MOST = 4096
"""cuFFT's default (aten/src/ATen/native/cuda/CuFFTPlanCache.h)."""
_limits: WeakKeyDictionary[VirtualGpu, int] = WeakKeyDictionary()


def has_cudnn() -> bool:
    """Return True for a CUDA build, which includes cuDNN even on a machine without a GPU."""
    return "cuda" in active_machine().backends


def cudnn_version() -> int | None:
    """Return the build's own number if it has one."""
    if not has_cudnn():
        return None
    return (_real_cudnn_version() if torch.version.cuda and torch_private.has_cudnn else None) or _CUDNN_VERSION


class PlanCache:
    """The cuFFT plan cache of one GPU, by default the current GPU. It is always empty, but remembers its limit."""

    def __init__(self, gpu: VirtualGpu | None = None) -> None:
        self._of = gpu

    def _gpu(self) -> VirtualGpu:
        return active_machine().current if self._of is None else self._of

    @property
    def size(self) -> int:
        self._gpu()
        return 0

    @property
    def max_size(self) -> int:
        return _limits.get(self._gpu(), _PLANS_AT_MOST)

    @max_size.setter
    def max_size(self, limit: int) -> None:
        _limits[self._gpu()] = int(limit)

    def clear(self) -> None:
        self._gpu()


class PlanCaches(PlanCache):
    """`torch.backends.cuda.cufft_plan_cache`: the current GPU's cache; an index selects another GPU's."""

    def __getitem__(self, device: Any) -> PlanCache:
        index = torch_private.cuda_device_index(device)
        gpus = active_machine().gpus
        if not 0 <= index < len(gpus):
            raise RuntimeError(
                f"cufft_plan_cache: expected 0 <= device index < {len(gpus)}, but got device with index {index}"
            )
        return PlanCache(gpus[index])
