"""Random numbers: a generator for each virtual GPU, and `torch.Generator` on a device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch

from gpututor.devices.virtual import cuda_errors, torch_private
from gpututor.devices.virtual.execution import waits
from gpututor.devices.virtual.machine import (
    CPU,
    GraphCapture,
    VirtualGpu,
    active_machine,
    is_on,
    python_device,
    requested_device,
)
from gpututor.devices.virtual.operators.draws import RandomState, generators

_RealGenerator: Any = torch_private.Generator


class _Kind(type(_RealGenerator)):  # type: ignore[misc]
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _RealGenerator)


_OFFSET_BYTES = 8
"""Bytes of the offset at the end of a GPU generator's state."""


def _capture() -> GraphCapture | None:
    """Return the capture of this thread's current stream, or None."""
    machine = active_machine() if is_on() else None
    if machine is None or machine.capture is None:
        return None
    return machine.capture if waits.is_captured(machine, machine.current) else None


def _refuse_in_capture(attempt: str) -> None:
    if _capture() is not None:
        raise cuda_errors.not_in_capture(attempt)


def _check_seed(state: RandomState, seed: int) -> None:
    """Raise CUDA's error for a new seed in a capture."""
    if seed % 2**64 != _RealGenerator.initial_seed(state.real):
        raise cuda_errors.other_seed_in_capture()


class DeviceGenerator(_RealGenerator, metaclass=_Kind):  # type: ignore[misc]
    """`torch.Generator` that draws on the CPU for any device."""

    _python_device: torch.device
    state: RandomState | None
    """State of a GPU's generator, which generators can share; None for a CPU generator."""

    def __new__(cls, device: Any = CPU) -> DeviceGenerator:
        wanted = requested_device(device)
        if wanted.type == "cuda":
            _refuse_in_capture("Cannot construct a new CUDAGeneratorImpl")
        return cls.on(wanted)

    def __init__(self, device: Any = CPU) -> None:
        pass

    @classmethod
    def on(cls, device: torch.device, state: RandomState | None = None) -> DeviceGenerator:
        """Return a generator for a known device, without starting a machine."""
        self = _RealGenerator.__new__(cls, "cpu")
        self._python_device, self.state = device, None
        if device.type == "cuda":
            self.state = state or RandomState()
            generators[self._cdata] = self
        return cast(DeviceGenerator, self)

    @property
    def device(self) -> torch.device:
        return self._python_device

    def manual_seed(self, seed: int) -> DeviceGenerator:
        if self.state is None:
            return cast(DeviceGenerator, super().manual_seed(seed))
        if _capture() is None:
            self.state.restart(seed)
        else:
            _check_seed(self.state, seed)
        return self

    def seed(self) -> int:
        if self.state is None:
            return int(super().seed())
        _refuse_in_capture("Cannot call CUDAGeneratorImpl::seed")
        return self.state.restart(None)

    def initial_seed(self) -> int:
        return int(_RealGenerator.initial_seed(self if self.state is None else self.state.real))

    def get_state(self) -> torch.Tensor:
        """Return the state as bytes; for a GPU, the offset follows. In a capture, it counts from the graph's start."""
        if self.state is None:
            return cast(torch.Tensor, super().get_state())
        capture = _capture()
        captured = None if capture is None else capture.generators.get(self.state)
        with torch_private.host_only():
            offset = self.state.read_offset() if captured is None else captured.read(capture)
            return torch.cat([self.state.get(), torch.tensor([offset]).view(torch.uint8)])

    def set_state(self, new_state: torch.Tensor) -> DeviceGenerator:
        if self.state is None:
            return cast(DeviceGenerator, super().set_state(new_state))
        if new_state.device.type != "cpu" or new_state.dtype is not torch.uint8:
            raise TypeError("RNG state must be a torch.ByteTensor")
        capture = _capture()
        captured = None if capture is None else capture.generators.get(self.state)
        with torch_private.host_only():
            values = new_state[:-_OFFSET_BYTES].clone()
            if values.numel() != self.state.get().numel():
                raise RuntimeError("RNG state is wrong size")  # CUDAGeneratorImpl.cpp
            offset = int(new_state[-_OFFSET_BYTES:].clone().view(torch.int64))
            if capture is not None:
                other = RandomState()
                other.set(values, offset)
                _check_seed(self.state, other.real.initial_seed())
            if captured is None:
                self.state.set(values, offset)
            else:
                captured.jump(capture, offset)
        return self

    def clone_state(self) -> DeviceGenerator:
        """Return another generator for the same device, in the same state."""
        if self.state is not None:
            _refuse_in_capture("Cannot call CUDAGeneratorImpl::clone_impl")
        clone = type(self).on(self._python_device, None if self.state is None else self.state.clone())
        if self.state is None:
            clone.set_state(self.get_state())
        return clone

    def get_offset(self) -> int:
        """Return the count of numbers that each thread of CUDA's kernels would have drawn, a multiple of 4."""
        if self.state is None:
            return int(super().get_offset())
        _refuse_in_capture("Cannot call CUDAGeneratorImpl::get_offset")
        return self.state.read_offset()

    def set_offset(self, offset: int) -> DeviceGenerator:
        """Continue drawing from an offset: 0, or an offset that `get_offset` has returned since the seed."""
        if self.state is None:
            return cast(DeviceGenerator, super().set_offset(offset))
        _refuse_in_capture("Cannot call CUDAGeneratorImpl::set_offset")
        self.state.jump(offset)
        return self

    def graphsafe_get_state(self) -> DeviceGenerator:
        """Return a generator that shares this generator's state, without copying it."""
        if self.state is None:
            return cast(DeviceGenerator, super().graphsafe_get_state())
        return type(self).on(self._python_device, self.state)

    def graphsafe_set_state(self, state: DeviceGenerator) -> DeviceGenerator:
        """Share the state of another generator from now on."""
        if self.state is None:
            return cast(DeviceGenerator, super().graphsafe_set_state(state))
        self.state = state_of(state)
        return self

    def __reduce__(self) -> Any:
        return _rebuilt, (str(self._python_device), self.get_state())


def state_of(generator: Any) -> RandomState:
    """Return the state of a GPU's generator; raise `RuntimeError` for any other."""
    state: RandomState | None = getattr(generator, "state", None)
    if state is None:
        raise RuntimeError("Expected a 'cuda' device type for generator but found 'cpu'")
    return state


DeviceGenerator.__module__ = "torch._C"
DeviceGenerator.__name__ = DeviceGenerator.__qualname__ = "Generator"


def generator_kind(generator: Any) -> str:
    """Return the kind of device that a generator was made for; torch's own generators are for the CPU."""
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
    """Return the GPU that an argument of `torch.cuda.random` names; "cuda" and -1 mean the current GPU."""
    machine = active_machine()
    machine.start()
    return machine.gpus[python_device("cuda" if device in (None, -1) else device).index]


def _is_queued() -> bool:
    """Return True if CUDA would queue a seed until it starts, but never starts: without GPUs, and in a forked child."""
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
