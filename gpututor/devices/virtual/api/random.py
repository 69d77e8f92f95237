"""Random numbers: a generator for each virtual GPU, and `torch.Generator` on a device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch

from gpututor.devices.virtual import cuda_errors, torch_private
from gpututor.devices.virtual.machine import CPU, VirtualGpu, active_machine, meant_device, python_device

_RealGenerator: Any = torch_private.Generator


class _Kind(type(_RealGenerator)):  # type: ignore[misc]
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _RealGenerator)


def _cpu_only(name: str) -> Any:
    """Return the real method of that name, which refuses generators of a GPU."""

    def method(self: DeviceGenerator, *args: Any) -> Any:
        if self._python_device.type == "cuda":
            raise cuda_errors.unsupported(f"Generator.{name}", "Use get_state and set_state.")
        return getattr(_RealGenerator, name)(self, *args)

    return method


class DeviceGenerator(_RealGenerator, metaclass=_Kind):  # type: ignore[misc]
    """`torch.Generator` that draws on the CPU for any device."""

    _python_device: torch.device

    def __new__(cls, device: Any = CPU) -> DeviceGenerator:
        self = _RealGenerator.__new__(cls, "cpu")
        self._python_device = meant_device(device)
        return cast(DeviceGenerator, self)

    def __init__(self, device: Any = CPU) -> None:
        pass

    @classmethod
    def on(cls, device: torch.device) -> DeviceGenerator:
        """Return a generator for a known device, without starting a machine."""
        self = _RealGenerator.__new__(cls, "cpu")
        self._python_device = device
        return cast(DeviceGenerator, self)

    @property
    def device(self) -> torch.device:
        return self._python_device

    def clone_state(self) -> DeviceGenerator:
        """Return another generator for the same device, in the same state."""
        clone = type(self).on(self._python_device)
        clone.set_state(self.get_state())
        return clone

    # CUDA's generator counts in another way than the CPU's.
    get_offset = _cpu_only("get_offset")
    set_offset = _cpu_only("set_offset")
    graphsafe_get_state = _cpu_only("graphsafe_get_state")
    graphsafe_set_state = _cpu_only("graphsafe_set_state")

    def __reduce__(self) -> Any:
        return _rebuilt, (str(self._python_device), self.get_state())


DeviceGenerator.__module__ = "torch._C"
DeviceGenerator.__name__ = DeviceGenerator.__qualname__ = "Generator"


def generator_kind(generator: Any) -> str:
    """Return the kind of device that a generator was made for; torch's own are the CPU's."""
    device: torch.device = getattr(generator, "_python_device", CPU)
    return device.type


def _rebuilt(device: str, state: torch.Tensor) -> DeviceGenerator:
    generator = DeviceGenerator(device)
    generator.set_state(state)
    return generator


class DefaultGenerators(Sequence[torch.Generator]):
    """`torch.cuda.default_generators`: each GPU's own."""

    def __len__(self) -> int:
        return len(active_machine().gpus)

    def __getitem__(self, index: Any) -> Any:
        gpus = active_machine().gpus[index]
        return tuple(gpu.generator for gpu in gpus) if isinstance(gpus, tuple) else gpus.generator


def _gpu(device: Any) -> VirtualGpu:
    """Return the GPU as torch.cuda.random reads its argument: `cuda` is the current GPU, -1 too."""
    machine = active_machine()
    machine.start()
    return machine.gpus[python_device("cuda" if device in (None, -1) else device).index]


def _is_queued() -> bool:
    """Return True if CUDA would queue a seed for its start, which never comes: without GPUs, and in a forked child."""
    machine = active_machine()
    return machine.in_bad_fork or not machine.gpus


def manual_seed(seed: int) -> None:
    if not _is_queued():
        active_machine().current.generator.manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    if not _is_queued():
        for gpu in active_machine().gpus:
            gpu.generator.manual_seed(int(seed))


def seed() -> None:
    if not _is_queued():
        active_machine().current.generator.seed()


def seed_all() -> None:
    gpus = active_machine().gpus
    if not _is_queued():
        manual_seed_all(gpus[0].generator.seed())


def initial_seed() -> int:
    return active_machine().current.generator.initial_seed()


def get_rng_state(device: Any = "cuda") -> torch.Tensor:
    return _gpu(device).generator.get_state()


def get_rng_state_all() -> list[torch.Tensor]:
    return [get_rng_state(index) for index in range(len(active_machine().gpus))]


def set_rng_state(new_state: torch.Tensor, device: Any = "cuda") -> None:
    if not _is_queued():
        _gpu(device).generator.set_state(new_state)


def set_rng_state_all(new_states: Any) -> None:
    for index, state in enumerate(new_states):
        set_rng_state(state, index)
