"""Random numbers: one generator for each virtual GPU, and `torch.Generator` on a device."""

from __future__ import annotations

from typing import Any, cast

import torch

from gpututor.devices.virtual.machine import CPU, VirtualGpu, active, python_device

_RealGenerator: Any = torch._C.Generator


class _Kind(type(_RealGenerator)):  # type: ignore[misc]
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _RealGenerator)


class DeviceGenerator(_RealGenerator, metaclass=_Kind):  # type: ignore[misc]
    """Stands in for `torch.Generator`: it draws on the CPU for whichever device it is for."""

    _python_device: torch.device

    def __new__(cls, device: Any = CPU) -> DeviceGenerator:
        self = _RealGenerator.__new__(cls, "cpu")
        self._python_device = python_device(device)
        return cast(DeviceGenerator, self)

    def __init__(self, device: Any = CPU) -> None:
        pass

    @property
    def device(self) -> torch.device:
        return self._python_device


def generator_kind(generator: Any) -> str:
    """The kind of device that a generator was made for; torch's own are the CPU's."""
    device: torch.device = getattr(generator, "_python_device", CPU)
    return device.type


def _gpu(device: Any) -> VirtualGpu:
    return active().gpus[python_device("cuda" if device in (None, -1) else device).index]


def manual_seed(seed: int) -> None:
    active().current.generator.manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    for gpu in active().gpus:
        gpu.generator.manual_seed(int(seed))


def seed() -> None:
    active().current.generator.seed()


def seed_all() -> None:
    gpus = active().gpus
    if gpus:
        manual_seed_all(gpus[0].generator.seed())


def initial_seed() -> int:
    return active().current.generator.initial_seed()


def get_rng_state(device: Any = "cuda") -> torch.Tensor:
    return _gpu(device).generator.get_state()


def get_rng_state_all() -> list[torch.Tensor]:
    return [gpu.generator.get_state() for gpu in active().gpus]


def set_rng_state(new_state: torch.Tensor, device: Any = "cuda") -> None:
    _gpu(device).generator.set_state(new_state)


def set_rng_state_all(new_states: Any) -> None:
    for gpu, state in zip(active().gpus, new_states, strict=False):
        gpu.generator.set_state(state)
