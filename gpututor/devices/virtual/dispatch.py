"""Runs each operator: checks devices, computes on the CPU, wraps what comes back and records a kernel."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from gpututor.devices.virtual import errors, mixing, private
from gpututor.devices.virtual.machine import CPU, active, is_on, python_device
from gpututor.devices.virtual.memory import DeviceMemory
from gpututor.devices.virtual.operators import OPERATORS, Operator, describe
from gpututor.devices.virtual.tensor import VirtualTensor

Tensor = torch.Tensor
Rule = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]
RULES: dict[Any, Rule] = {}
"""Operators that are not simply run on the CPU; filled by `rules`."""


_TO_COPY = torch.ops.aten._to_copy.default
_ZERO_TENSOR = torch.ops.aten._efficientzerotensor.default


class DeviceMode(TorchDispatchMode):
    """Sees every operator of a thread, also those that C++ runs, such as the factories of a backward pass."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Saves a wrapper around every call; nothing here is compiled.
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if private.function_mode_is_on():
            # In a backward pass: else each size and stride that is asked for below would go through the function mode.
            with private.no_function_modes():
                return self._operator(func, types, args, kwargs or {})
        return self._operator(func, types, args, kwargs or {})

    def _operator(self, func: Any, types: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        if func is _ZERO_TENSOR:
            # A tensor of zeros without memory, on the CPU too: below a mode, its kernels would read address 0.
            func = torch.ops.aten.zeros.default
        if VirtualTensor in types:
            return run(func, args, kwargs)
        device = kwargs.get("device") if kwargs else None
        if device is not None and (device.type == "cuda" or (device.type == "meta" and device.index is not None)):
            return make(func, args, kwargs)
        op = OPERATORS.get(func) or describe(func)
        if op.composite:
            with self:
                return func.decompose(*args, **kwargs)
        out = func(*args, **kwargs)
        if op.is_kernel and is_on():
            recorder = active().recorder
            if recorder.enabled and _device_of(out, args) == "cpu":
                recorder.kernel(op.name, "cpu", bytes_of(args) + bytes_of(out))
        return out


def _device_of(out: Any, args: tuple[Any, ...]) -> str:
    for value in (out, *args):
        found = value[0] if type(value) in (list, tuple) and value else value
        if isinstance(found, Tensor):
            return found.device.type
    return ""


def bytes_of(value: Any) -> int:
    """The bytes of the tensors in `value`, lists within lists included."""
    if isinstance(value, Tensor):
        return value.numel() * value.element_size() if value.layout is torch.strided else 0
    if type(value) is tuple or type(value) is list:
        return sum(bytes_of(one) for one in value)
    return 0


class Inputs:
    """What was found while the arguments were unwrapped."""

    __slots__ = ("device", "mixed", "size_bytes", "wrappers")

    def __init__(self) -> None:
        self.device: torch.device | None = None
        self.mixed = False
        self.size_bytes = 0
        self.wrappers: list[VirtualTensor] = []

    def unwrap(self, value: Any, op: Operator, where: int | str) -> Any:
        """`value` with CPU tensors in the place of virtual ones."""
        kind = type(value)
        if kind is VirtualTensor:
            device = value._device
            if self.device is None:
                self.device = device
            elif device is not self.device:
                self.mixed = True
            host = value._host
            self.wrappers.append(value)
            self.size_bytes += host.numel() * host.element_size()
            return host
        if kind is list or kind is tuple:
            return [self.unwrap(one, op, where) for one in value] if _has_tensor(value) else value
        if isinstance(value, Tensor) and value.dim():
            if where not in op.host_places:
                self.mixed = True
            elif self.device is not None and is_on():
                # CUDA moves index tensors to the device of what they index.
                active().recorder.transfer("cpu", str(self.device), bytes_of(value), name=op.name)
        return value


def _has_tensor(values: Any) -> bool:
    return any(isinstance(one, Tensor) for one in values)


def run(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """One operator that has at least one virtual tensor among its arguments."""
    rule = RULES.get(func)
    if rule is not None:
        for value in args:
            if type(value) is VirtualTensor:
                active().home(value._device)
        return rule(func, args, kwargs)
    op = OPERATORS.get(func) or describe(func)
    if op.composite:
        with DeviceMode():
            return func.decompose(*args, **kwargs)
    inputs = Inputs()
    hosts = [inputs.unwrap(value, op, position) for position, value in enumerate(args)]
    named = {name: inputs.unwrap(value, op, name) for name, value in kwargs.items()} if kwargs else kwargs
    if inputs.mixed:
        for wrapper in inputs.wrappers:
            active().home(wrapper._device)
        if op.puts_at_indices and mixing.has_strays(args):
            return _put_with_strays(func, args, kwargs)
        raise mixing.explain(op, args, kwargs)
    device = inputs.device
    assert device is not None
    machine = active()
    gpu = machine.by_device.get(id(device))
    if gpu is None:
        raise errors.left_over()
    if named.get("device") is not None:
        wanted = python_device(named["device"])
        named["device"] = CPU
        if wanted.type != "cuda":
            named["device"] = wanted
            return func(*hosts, **named)
        device = wanted
        gpu = machine.home(device)
    if op.needs_forecast and _could_grow(op, inputs, gpu.memory):
        gpu.memory.expect(forecast(func, hosts, named))
    out = draw(func, op, hosts, named, gpu.generator) if op.random else func(*hosts, **named)
    recorder = machine.recorder
    if op.is_kernel and recorder.enabled:
        recorder.kernel(op.name, gpu.name, inputs.size_bytes + bytes_of(out))
        if op.waits is not None and op.waits(args):
            recorder.synchronise(op.name, gpu.name)
    if op.is_plain and type(out) is Tensor:
        return VirtualTensor(_resolved(out), device)
    if op.may_resize:
        for wrapper in inputs.wrappers:
            follow_host(wrapper)
    return wrap(out, inputs.wrappers, device)


def _put_with_strays(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """An assignment whose indices, or whose one value, are elsewhere than what it writes to: CUDA moves them there."""
    target, indices, value, *rest = args
    device = target.device

    def beside_target(one: Tensor) -> Any:
        return RULES[_TO_COPY](_TO_COPY, (one,), {"device": device})

    moved = [beside_target(one) if mixing.is_stray(one, device) else one for one in indices]
    if value.dim() == 0 and value.device != device:
        value = beside_target(value)
    settled = (target, moved, value, *rest)
    if any(type(one) is VirtualTensor for one in (target, value)):
        return run(func, settled, kwargs)
    if is_on():
        active().recorder.kernel(func._schema.name, "cpu", bytes_of(settled))
    return func(*settled, **kwargs)


def make(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """One operator that makes a tensor on a virtual GPU from none."""
    rule = RULES.get(func)
    if rule is not None:
        return rule(func, args, kwargs)
    op = OPERATORS.get(func) or describe(func)
    if op.composite:
        with DeviceMode():
            return func.decompose(*args, **kwargs)
    machine = active()
    gpu = machine.gpus[python_device(kwargs["device"]).index]
    named = {**kwargs, "device": CPU}
    named.pop("pin_memory", None)
    # Before the host's memory is taken, which may be smaller than the GPU's.
    if _could_fill(args, gpu.memory):
        gpu.memory.expect(forecast(func, args, named))
    out = draw(func, op, args, named, gpu.generator) if op.random else func(*args, **named)
    if op.is_kernel:
        machine.recorder.kernel(op.name, gpu.name, bytes_of(out))
    return wrap(out, [], gpu.device)


def _could_grow(op: Operator, inputs: Inputs, memory: DeviceMemory) -> bool:
    """Whether the result may not fit, by a bound that is cheap: products and broadcasts of unlike shapes multiply."""
    if op.needs_forecast == "always":
        return True
    free = memory.total - memory.allocated
    if inputs.size_bytes * 8 > free:
        return True
    wrappers = inputs.wrappers
    if len(wrappers) < 2 or (op.needs_forecast == "broadcast" and wrappers[0].size() == wrappers[1].size()):
        return False
    # The two factors of a product come last; a bias before them is no factor.
    return 8 * wrappers[-1].numel() * wrappers[-2].numel() > free


def _could_fill(args: tuple[Any, ...], memory: DeviceMemory) -> bool:
    """Whether a factory's result may be too large; a cheap bound where its first argument is a size."""
    if not args or type(args[0]) not in (list, torch.Size):
        return True
    widest = 16 * math.prod(length for length in args[0] if type(length) is int)
    return widest > memory.total - memory.allocated


def _shape_only(value: Any) -> Any:
    if isinstance(value, Tensor):
        return torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device="meta")
    return [_shape_only(one) for one in value] if type(value) in (list, tuple) else value


def forecast(func: Any, hosts: Any, named: dict[str, Any]) -> int:
    """The bytes of what `func` would make, without making it; 0 where PyTorch cannot tell."""
    on_meta = {name: _shape_only(value) for name, value in named.items() if name != "generator"}
    if "device" in on_meta:
        on_meta["device"] = torch.device("meta")
    try:
        return bytes_of(func(*[_shape_only(value) for value in hosts], **on_meta))
    except (NotImplementedError, RuntimeError, IndexError, TypeError, ValueError):
        # The operator itself will say what is wrong with its arguments, in its own words.
        return 0


def draw(func: Any, op: Operator, args: Any, kwargs: dict[str, Any], generator: torch.Generator) -> Any:
    """Run an operator that draws random numbers, with the GPU's own generator."""
    if op.takes_generator:
        return func(*args, **{**kwargs, "generator": kwargs.get("generator") or generator})
    host_state = torch.default_generator.get_state()
    torch.default_generator.set_state(generator.get_state())
    try:
        return func(*args, **kwargs)
    finally:
        generator.set_state(torch.default_generator.get_state())
        torch.default_generator.set_state(host_state)


def _resolved(host: Tensor) -> Tensor:
    """C++ would lose the conjugate and negative bits of a wrapper."""
    if host.is_conj():
        host = host.resolve_conj()
    return host.resolve_neg() if host.is_neg() else host


def wrap(out: Any, wrappers: list[VirtualTensor], device: torch.device) -> Any:
    """What the CPU gave, on `device`: an argument comes back as itself, a view shares its block."""
    if isinstance(out, Tensor):
        if type(out) is VirtualTensor:
            return out
        storage = private.storage_id(out)
        block = None
        for wrapper in wrappers:
            if wrapper._host is out:
                return wrapper
            if private.storage_id(wrapper._host) == storage:
                block = wrapper._block
        resolved = _resolved(out)
        return VirtualTensor(resolved, device, block if resolved is out else None)
    if type(out) is list or type(out) is tuple:
        return type(out)([wrap(one, wrappers, device) for one in out])
    return out


def follow_host(wrapper: VirtualTensor) -> None:
    """An operator changed the shape of the values in place: the wrapper follows, and its block grows."""
    host = wrapper._host
    wrapper._block.grow(host.untyped_storage().nbytes())
    if wrapper.size() != host.size() or wrapper.stride() != host.stride():
        private.set_data(wrapper, VirtualTensor(host, wrapper._device, wrapper._block))
