"""Dispatch: runs an operator on the virtual GPU."""

from __future__ import annotations

from time import perf_counter_ns  # bound here: inside a machine, that of `time` is its clock's
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from gpututor.devices.virtual import cuda_errors, execution, torch_private
from gpututor.devices.virtual.execution.costs import tensors_of
from gpututor.devices.virtual.execution.host_work import SHORT_NS, SLOW_NS, meter
from gpututor.devices.virtual.machine import active_machine, is_on, python_device
from gpututor.devices.virtual.memory.allocator import Allocation
from gpututor.devices.virtual.operator_registry import OPERATORS, RULES, Operator, describe, operator_of
from gpututor.devices.virtual.operators import (
    custom_operators,
    determinism,
    fallbacks,
    graph_replay,
    known_values,
    operands,
    scratch,
    shape_only,
)
from gpututor.devices.virtual.operators.draws import draw
from gpututor.devices.virtual.operators.fallbacks import check_dtype, in_cudas_name
from gpututor.devices.virtual.operators.operands import UnwrappedArguments, bytes_of, follow_host, fresh, resolved, wrap
from gpututor.devices.virtual.operators.shape_only import WIDEST, could_fill, could_grow, forecast
from gpututor.devices.virtual.operators.sparse import run_sparse
from gpututor.devices.virtual.tensors.moves import pin
from gpututor.devices.virtual.tensors.subclasses import VirtualSubclass, run_plainly
from gpututor.devices.virtual.tensors.tensor import VirtualTensor, on_device

_SCALAR_DTYPES = {bool: torch.bool, int: torch.int64, float: torch.float64}


def _numbers_as_tensors(func: Any, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """Return the arguments with CPU tensors for numbers that the operator takes as tensors; None if there are none."""
    has_numbers = False
    converted = []
    for value, argument in zip(args, func._schema.arguments, strict=False):
        if type(value) in _SCALAR_DTYPES and isinstance(argument.type, torch.TensorType):
            has_numbers = True
            value = torch.scalar_tensor(value, dtype=_SCALAR_DTYPES[type(value)])
        converted.append(value)
    return tuple(converted) if has_numbers else None


Tensor = torch.Tensor
_STRIDED = torch.strided
_TO_COPY = torch.ops.aten._to_copy.default
_READ_ON_HOST = (torch.ops.aten._local_scalar_dense.default, torch.ops.aten._is_all_true.default)
"""Operators that launch no kernel but read values on the host, unlike views and other operators without a kernel."""
_VIRTUAL_ALONE = (VirtualTensor,)
_ZERO_TENSOR = torch.ops.aten._efficientzerotensor.default


class DeviceMode(TorchDispatchMode):
    """Mode that intercepts every operator of a thread, including calls from C++, such as factories in backward."""

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._meter = meter()

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Saves a wrapper around every call; nothing here is compiled.
        return False

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        # Dynamo captures graphs while this mode is on.
        return True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        mine, now = self._meter, perf_counter_ns()
        if now - mine.last > SHORT_NS:
            mine.pause(now)
        mine.last = now
        try:
            if type(types) is list:
                # A higher-order operator, for which torch lists no types. Some compute under no mode at all.
                body = torch_private.higher_order_body(func)
                if body is None:
                    raise cuda_errors.unsupported(f"torch.ops.higher_order.{func.name()}")
                with self:
                    return body(*args, **kwargs)
            if torch_private.function_mode_is_on():
                # In a backward pass or in TorchScript.
                # Otherwise the function mode would intercept each access to a size or stride below.
                with torch_private.no_function_modes():
                    if kwargs and _is_of_real_backward(kwargs):
                        return func(*args, **kwargs)
                    return self._operator(func, types, args, kwargs or {})
            if types == _VIRTUAL_ALONE and func is not _ZERO_TENSOR:
                return run(func, args, kwargs or {})  # most calls, without another frame
            return self._operator(func, types, args, kwargs or {})
        finally:
            now = perf_counter_ns()
            length = now - mine.last
            mine.within += length if length < SLOW_NS else mine.slow(length)
            mine.last = now

    def _operator(self, func: Any, types: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        if types and types != _VIRTUAL_ALONE:
            if any(issubclass(kind, VirtualSubclass) for kind in types):
                return run_plainly(self._operator, func, types, args, kwargs)
            if _run_by_their_class(types):
                return NotImplemented
        if func is _ZERO_TENSOR:
            # A tensor of zeros without memory, on the CPU too: below a mode, its kernels would read address 0.
            func = torch.ops.aten.zeros.default
            device = kwargs.get("device")
            if is_on() and device is not None and is_virtual_device(device):
                return _zeros_without_memory(func, args, kwargs)
        if VirtualTensor in types:
            return run(func, args, kwargs)
        if not is_on():
            # This thread outlived the block, maybe in the middle of a call.
            device = kwargs.get("device")
            if device is not None and device.type == "meta" and device.index is not None:
                raise cuda_errors.switched_off()
            return func(*args, **kwargs)
        args = [_with_memory(value) for value in args]
        device = kwargs.get("device") if kwargs else None
        if device is not None and is_virtual_device(device) and not _infers_shapes(types):
            return make(func, args, kwargs)
        if kwargs and kwargs.get("pin_memory"):
            return _make_pinned(func, args, kwargs)
        op = OPERATORS.get(id(func)) or describe(func)
        if op.composite:
            return _composed(func, op, args, kwargs)
        try:
            out = op.host_call(*args, **kwargs)
        except (TypeError, RuntimeError):
            converted = _numbers_as_tensors(func, args)
            if converted is None:
                raise
            out = op.host_call(*converted, **kwargs)
        if (op.is_kernel or func in _READ_ON_HOST) and is_on() and active_machine().pending_copies:
            execution.races.record_host_access(active_machine(), tensors_of(args), op.written_among(args, kwargs))
        if op.is_kernel and is_on() and _device_of(out, args) == "cpu":
            execution.host_kernel(active_machine(), op, args, bytes_of(args) + bytes_of(out), out)
        return None if op.returns_nothing else out


def _infers_shapes(kinds: Any) -> bool:
    """Return True if fake tensors are among the arguments, or are to be made."""
    return torch_private.fake_mode_is_on() or torch_private.is_traced(kinds)


def _run_by_their_class(kinds: Any) -> bool:
    """Return True if one of the classes, such as DTensor, runs operators on parts of its tensors, in this mode."""
    others = [kind for kind in kinds if kind is not VirtualTensor]
    return torch_private.has_own_dispatch(others) and not torch_private.is_traced(others)


def _zeros_without_memory(func: Any, args: Any, kwargs: dict[str, Any]) -> VirtualTensor:
    machine = active_machine()
    device = python_device(kwargs["device"])
    zeros = func(*args, **{**kwargs, "device": machine.host_device})
    return on_device(zeros, device, Allocation(machine.gpus[device.index].memory, 0))


def _with_memory(value: Any) -> Any:
    """Give memory to a tensor, or the tensors of a list, from before the virtual GPU was entered."""
    if type(value) is Tensor:
        return torch_private.with_memory(value)
    if type(value) is list and value and isinstance(value[0], Tensor):
        return [_with_memory(tensor) for tensor in value]
    return value


def _make_pinned(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run a factory of page-locked memory that no function mode saw, such as that of `save_on_cpu`."""
    out = func(*args, **{**kwargs, "pin_memory": False})
    pin(out)
    return out


def is_virtual_device(device: torch.device) -> bool:
    """Return True for a virtual GPU: C++ calls it meta:0, and cuda only for a default device."""
    return device.type == "cuda" or (device.type == "meta" and device.index is not None)


def _is_of_real_backward(kwargs: dict[str, Any]) -> bool:
    """Return True if a call of a backward pass makes a tensor on a real GPU; C++ calls a virtual one meta:0."""
    device = kwargs.get("device")
    is_cuda = device is not None and device.type == "cuda" and is_on() and active_machine().may_have_real_tensors
    return is_cuda and torch_private.running_autograd_node() is not None


def _device_of(out: Any, args: tuple[Any, ...]) -> str:
    for value in (out, *args):
        first = value[0] if type(value) in (list, tuple) and value else value
        if isinstance(first, Tensor):
            return "" if torch_private.is_fake(first) else first.device.type
    return ""


def _composed(func: Any, op: Operator, args: Any, kwargs: dict[str, Any]) -> Any:
    """Run an operator that calls others: the calls are recorded, and this operator is not a kernel."""
    if op.custom:
        return custom_operators.run(func, tuple(args), kwargs)
    with DeviceMode():
        return torch_private.run_composite(func, *args, **kwargs)


def run(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run an operator that has at least one virtual tensor among its arguments."""
    op = OPERATORS.get(id(func)) or describe(func)
    if op.rule is not None:
        for value in args:
            if type(value) is VirtualTensor:
                active_machine().home(value._device)
        return op.rule(func, args, kwargs)
    if op.composite:
        return _composed(func, op, args, kwargs)
    if op.is_view:
        first, *rest = args
        if type(first) is VirtualTensor and first._layout is _STRIDED:
            machine = active_machine()
            gpu = machine.by_device.get(id(first._device))
            if gpu is not None:
                machine.clock.host.spend(gpu.view_ns)
                return on_device(op.call(first._host, *rest, **kwargs), first._device, first._block)
    inputs = UnwrappedArguments()
    hosts = inputs.unwrap_all(args, op)
    given = kwargs
    if kwargs:
        kwargs = {name: inputs.unwrap(value, op, name) for name, value in kwargs.items()}
    if inputs.mixed:
        return _run_mixed(func, op, inputs, args, given)
    device = inputs.device
    assert device is not None
    machine = active_machine()
    gpu = machine.by_device.get(id(device))
    if gpu is None:
        gpu = machine.home(device)  # raises the error that says why there is none
    if inputs.sparse:
        if inputs.lazy:
            hosts = [resolved(host) if isinstance(host, Tensor) else host for host in hosts]
        graph_replay.refuse_sparse(machine, gpu)
        return run_sparse(op, inputs.wrappers, hosts, kwargs, device)
    if kwargs and kwargs.get("device") is not None:
        wanted = python_device(kwargs["device"])
        kwargs["device"] = machine.host_device
        if wanted.type != "cuda":
            kwargs["device"] = wanted
            return func(*hosts, **kwargs)
        device = wanted
        gpu = machine.home(device)
    if op.cuda_kernel is not None and hosts[0].dtype in op.cuda_kernel.lacks:
        check_dtype(op, hosts, kwargs, gpu.spec.capability)
    if op.nondeterministic:
        determinism.check(func, hosts, kwargs)
    # Most inputs are small: not even a product of all their elements would fill the GPU.
    large = op.growth == "always" or (op.growth and inputs.size_bytes**2 * WIDEST > gpu.memory.room)
    large = large and could_grow(op, inputs, gpu.memory)
    if machine.values:
        if large:
            gpu.memory.check_all_fit(forecast(func, hosts, kwargs))
        if machine.capture is not None:
            graph_replay.save_before(machine, gpu, op, hosts, kwargs)
        try:
            if inputs.lazy:
                with torch_private.bits_respected():
                    out = draw(op, hosts, kwargs, gpu) if op.random else op.call(*hosts, **kwargs)
            else:
                out = draw(op, hosts, kwargs, gpu) if op.random else op.call(*hosts, **kwargs)
        except fallbacks.REFUSALS as error:
            out = fallbacks.retry(error, op, hosts, kwargs)
    else:
        out = shape_only.infer_outputs(op, hosts, kwargs)
        known_values.follow(op, hosts, kwargs, out)
        if large:
            gpu.memory.check_all_fit([bytes_of(result) for result in tensors_of(out)])
    if op.is_kernel:
        if machine.capture is not None:
            out = graph_replay.capture_operator(machine, gpu, op, inputs.wrappers, (hosts, kwargs), out)
        execution.kernel(machine, gpu, op, inputs.wrappers, inputs.size_bytes + bytes_of(out), out, (hosts, kwargs))
        if op.waits is not None and op.waits(args, kwargs):
            execution.synchronize(machine, gpu, op.name, machine.stream_of(gpu))
    else:
        # Memory that nothing writes to, or several views: costs as much as a view.
        machine.clock.host.spend(gpu.view_ns)
        gpu.memory.of_thread.writer = None
    if machine.capture is not None and op.is_kernel:
        results = _on_its_device(op, inputs, args, out, device)
        execution.races.record_captured_operator(machine, gpu, op, inputs.wrappers, (hosts, kwargs), results)
        return results
    results = fresh(out, device) if op.is_fresh else _on_its_device(op, inputs, args, out, device)
    if op.facts.scratch:
        scratch.take(gpu.memory, op.facts.scratch, (hosts, kwargs, out))
    return results


def _on_its_device(
    op: Operator, inputs: UnwrappedArguments, args: tuple[Any, ...], out: Any, device: torch.device
) -> Any:
    """Return the CPU's result as the operator returns it on `device`."""
    if op.returns_nothing:
        return None
    if op.is_fresh:
        return fresh(out, device)
    if op.returns_first:
        return args[0]
    if op.may_resize:
        for wrapper in inputs.wrappers:
            follow_host(wrapper)
    return wrap(out, inputs.wrappers, device)


def _run_mixed(
    func: Any, op: Operator, inputs: UnwrappedArguments, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Run an operator on several devices: CUDA moves indices and the values put at them, and refuses the rest."""
    for wrapper in inputs.wrappers:
        active_machine().home(wrapper._device)
    if op.puts_at_indices and operands.has_strays(args):
        return _put_with_strays(func, args, kwargs)
    error = operands.device_mismatch_error(op, args, kwargs)
    if error is not None:
        raise error
    with DeviceMode():
        return op.made_of_others(*args, **kwargs)


def _put_with_strays(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run an assignment whose indices, or whose single value, are on another device: CUDA moves them to the target."""
    target, indices, value, *rest = args
    device = target.device

    def to_target(tensor: Tensor) -> Any:
        return RULES[_TO_COPY](_TO_COPY, (tensor,), {"device": device})

    indices = [to_target(index) if operands.is_on_other_device(index, device) else index for index in indices]
    if value.dim() == 0 and value.device != device:
        value = to_target(value)
    moved = (target, indices, value, *rest)
    if VirtualTensor in (type(target), type(value)):
        return run(func, moved, kwargs)
    if is_on():
        execution.host_kernel(active_machine(), operator_of(func), moved, bytes_of(moved), target)
    return func(*moved, **kwargs)


def make(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run an operator that makes a tensor on a virtual GPU from none."""
    op = OPERATORS.get(id(func)) or describe(func)
    if op.rule is not None:
        return op.rule(func, args, kwargs)
    if op.composite:
        return _composed(func, op, args, kwargs)
    machine = active_machine()
    gpu = machine.gpus[python_device(kwargs["device"]).index]
    named = {**kwargs, "device": machine.host_device}
    named.pop("pin_memory", None)
    # Before the host's memory is taken, which may be smaller than the GPU's.
    large = could_fill(args, gpu.memory)
    if machine.values:
        if large:
            gpu.memory.check_all_fit(forecast(func, args, named))
        try:
            out = draw(op, args, named, gpu) if op.random else op.call(*args, **named)
        except NotImplementedError as error:
            raise in_cudas_name(error, op) from None
    else:
        out = shape_only.infer_outputs(op, args, named)
        known_values.follow(op, args, named, out)
        if large:
            gpu.memory.check_all_fit([bytes_of(result) for result in tensors_of(out)])
    if op.is_kernel:
        if machine.capture is not None:
            out = graph_replay.capture_operator(machine, gpu, op, (), (args, named), out)
        execution.kernel(machine, gpu, op, (), bytes_of(out), out, (args, named))
    else:
        # Memory that nothing writes to, or several views: costs as much as a view.
        machine.clock.host.spend(gpu.view_ns)
        gpu.memory.of_thread.writer = None
    made = wrap(out, [], gpu.device)
    if op.is_kernel and machine.capture is not None:
        execution.races.record_captured_operator(machine, gpu, op, (), (args, named), made)
    return made
