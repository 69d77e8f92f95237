"""Runs each operator: checks devices, computes on the CPU, wraps what comes back and records a kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from gpututor.devices.virtual import errors, private
from gpututor.devices.virtual.machine import CPU, active, is_on, python_device
from gpututor.devices.virtual.operators import mixing
from gpututor.devices.virtual.operators.forecast import could_fill, could_grow, forecast
from gpututor.devices.virtual.operators.inputs import Inputs, bytes_of
from gpututor.devices.virtual.operators.outputs import follow_host, resolved, wrap
from gpututor.devices.virtual.operators.overloads import OPERATORS, Operator, describe
from gpututor.devices.virtual.tensors.tensor import VirtualTensor

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
    if op.needs_forecast and could_grow(op, inputs, gpu.memory):
        gpu.memory.expect(forecast(func, hosts, named))
    out = draw(func, op, hosts, named, gpu.generator) if op.random else func(*hosts, **named)
    recorder = machine.recorder
    if op.is_kernel and recorder.enabled:
        recorder.kernel(op.name, gpu.name, inputs.size_bytes + bytes_of(out))
        if op.waits is not None and op.waits(args):
            recorder.synchronise(op.name, gpu.name)
    if op.is_plain and type(out) is Tensor:
        return VirtualTensor(resolved(out), device)
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
    if could_fill(args, gpu.memory):
        gpu.memory.expect(forecast(func, args, named))
    out = draw(func, op, args, named, gpu.generator) if op.random else func(*args, **named)
    if op.is_kernel:
        machine.recorder.kernel(op.name, gpu.name, bytes_of(out))
    return wrap(out, [], gpu.device)


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
