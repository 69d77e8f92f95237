"""Lets Dynamo and AOTAutograd see virtual tensors as tensors on `cuda`.

Dynamo makes fake tensors of its inputs. A fake tensor on `cuda` works everywhere except in C++'s autograd, which asks
for CUDA's device guard. So C++ hears `meta:0` instead of `cuda:0` while a graph is captured, as for virtual tensors.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from gpututor.devices.virtual import torch_private
from gpututor.devices.virtual.api.function_mode import DeviceFunctionMode, ThreadModes
from gpututor.devices.virtual.compiler import pt2_private as pt2
from gpututor.devices.virtual.machine import CPU, META, active_machine, is_on
from gpututor.devices.virtual.tensors.storage import VirtualStorage
from gpututor.devices.virtual.tensors.tensor import VirtualTensor

_NO_DEVICE = torch.device("meta")


class _OfThread(threading.local):
    depth = 0


_of_thread = _OfThread()


def _device_in_cpp(fake: Any) -> torch.device:
    """Return the device of a fake tensor for C++."""
    if fake.fake_mode.in_kernel_invocation:
        return _NO_DEVICE
    device: torch.device = fake.fake_device
    return META[device.index or 0] if device.type == "cuda" else device


def _is_on(kind: str) -> property:
    return property(lambda fake: fake.device.type == kind)


def _in_python(kwargs: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return keyword arguments that C++ gave, with `cuda:0` for `meta:0`."""
    device = kwargs.get("device") if kwargs else None
    if kwargs and device is not None and device.type == "meta" and device.index is not None:
        return {**kwargs, "device": torch.device("cuda", device.index)}
    return kwargs


def _tensor_dispatch(real: Any) -> Any:
    def dispatch(cls: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is pt2.PRIM_DEVICE:
            return _device_in_cpp(args[0])
        return real(cls, func, types, args, _in_python(kwargs))

    return classmethod(dispatch)


def _mode_dispatch(real: Any) -> Any:
    def dispatch(self: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is pt2.PRIM_DEVICE:
            return _device_in_cpp(args[0])
        return real(self, func, types, args, _in_python(kwargs))

    return dispatch


def _symbolic_modes(real: Any) -> Any:
    """Hide our function mode from Dynamo, which would trace it."""

    def init(self: Any, py_stack: Any, *args: Any, **kwargs: Any) -> None:
        real(self, [mode for mode in py_stack if type(mode) is not DeviceFunctionMode], *args, **kwargs)

    return init


def _storage_number(real: Any) -> Any:
    def get_storage_id(self: Any, storage: Any) -> Any:
        return real(self, storage._host if type(storage) is VirtualStorage else storage)

    return get_storage_id


def _class_of(real: Any) -> Any:
    def infer_subclass_type(value: Any) -> Any:
        return None if type(value) is VirtualTensor else real(value)

    return infer_subclass_type


def _properties(device: Any = None) -> Any:
    """Return what Inductor asks about a GPU."""
    machine = active_machine()
    index = torch.device(device).index if isinstance(device, str | torch.device) else device
    gpu = machine.gpus[index or 0]
    found = torch.cuda.get_device_properties(gpu.index)
    names = (
        "name", "major", "minor", "multi_processor_count", "max_threads_per_multi_processor", "total_memory",
        "L2_cache_size", "regs_per_multiprocessor", "warp_size", "shared_memory_per_block_optin", "max_threads_per_block",
    )  # fmt: skip
    defaults = {"regs_per_multiprocessor": 65536, "warp_size": 32, "max_threads_per_block": 1024}
    values = {name: getattr(found, name, defaults.get(name)) for name in names}
    return SimpleNamespace(gcnArchName="", **values)


def _capability(device: Any = None) -> int:
    found = _properties(device)
    return int(found.major) * 10 + int(found.minor)


def _to_cuda(self: Any, device: Any = None, non_blocking: bool = False, **kwargs: Any) -> Any:
    """Stand in for `fake.cuda()`, which would start CUDA."""
    index = active_machine().per_thread.device_index
    return self.to(device=torch.device("cuda", index) if device is None else device, non_blocking=non_blocking, **kwargs)


class _ConstantsOnHost(TorchDispatchMode):
    """Makes the compiler's own constants on the host: Inductor folds them by computing them."""

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        return True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        device = kwargs.get("device")
        if device is not None and device.type == "cuda":
            kwargs = {**kwargs, "device": CPU}
        return func(*args, **kwargs)


def _on_host(real: Any) -> Any:
    def fold(*args: Any) -> Any:
        with _ConstantsOnHost():
            return real(*args)

    return fold


def _with_devices_named(real: Any) -> Any:
    def run_passes(module: Any, *args: Any, **kwargs: Any) -> Any:
        _name_devices(module)
        return real(module, *args, **kwargs)

    return run_passes


def _name_devices(module: Any) -> None:
    """Write `cuda:0` for `meta:0` into a captured graph: C++ made some of its nodes."""

    def name(value: Any) -> Any:
        is_gpu = isinstance(value, torch.device) and value.type == "meta" and value.index is not None
        return torch.device("cuda", value.index) if is_gpu else value

    for node in module.graph.nodes:
        node.args, node.kwargs = pt2.map_aggregate(node.args, name), pt2.map_aggregate(node.kwargs, name)
    module.recompile()


def _call_optimizer(real: Any) -> Any:
    """Let an optimizer make its state on the device: Dynamo calls `_init_group` instead of tracing it."""

    def call_method(self: Any, tx: Any, name: str, args: Any, kwargs: Any) -> Any:
        optimizer = self.value
        if name != "_init_group" or not hasattr(optimizer, name):
            return real(self, tx, name, args, kwargs)
        init_group = optimizer._init_group

        def init_on_device(*given: Any, **named: Any) -> Any:
            with ThreadModes():
                return init_group(*given, **named)

        with patch.object(optimizer, "_init_group", init_on_device):
            return real(self, tx, name, args, kwargs)

    return call_method


def _patches() -> Iterator[Any]:
    fake, mode = pt2.FakeTensor, pt2.FakeTensorMode
    yield patch.object(fake, "__torch_dispatch__", _tensor_dispatch(fake.__torch_dispatch__.__func__))
    yield patch.object(mode, "__torch_dispatch__", _mode_dispatch(mode.__torch_dispatch__))
    for kind in ("cpu", "cuda", "meta"):
        yield patch.object(fake, f"is_{kind}", _is_on(kind), create=True)
    yield patch.dict(pt2.META_HANDLERS, {pt2.PRIM_DEVICE: lambda args: _device_in_cpp(args[0])})
    yield patch.object(pt2.FunctionState, "__init__", _symbolic_modes(pt2.FunctionState.__init__))
    yield patch.object(pt2.Describer, "get_storage_id", _storage_number(pt2.Describer.get_storage_id))
    yield patch.object(pt2.builder, "infer_subclass_type", _class_of(pt2.builder.infer_subclass_type))
    yield patch.dict(pt2.type_dispatch(), {VirtualTensor: pt2.wrap_tensor})
    yield patch.object(torch.autograd, "_engine_run_backward", torch_private.run_engine)
    yield patch.object(pt2.CudaInterface, "get_device_properties", staticmethod(_properties))
    yield patch.object(pt2.CudaInterface.Worker, "get_device_properties", staticmethod(_properties))
    yield patch.object(pt2.CudaInterface, "get_compute_capability", staticmethod(_capability))
    yield patch.object(pt2.scheduler, "has_triton", lambda *args: True)
    yield patch.object(fake, "cuda", _to_cuda, create=True)
    yield patch.object(pt2.OptimizerVariable, "call_method", _call_optimizer(pt2.OptimizerVariable.call_method))
    yield patch.object(pt2.ConstantFolder, "_deduce_value", _on_host(pt2.ConstantFolder._deduce_value))
    yield patch.object(pt2.compile_fx, pt2.JOINT_PASSES, _with_devices_named(getattr(pt2.compile_fx, pt2.JOINT_PASSES)))
    prepare = pt2.joint_graph.lazy_init
    yield patch.object(pt2.joint_graph, "lazy_init", lambda *args, **kwargs: prepare(torch.device("cpu")))


@contextmanager
def tracing() -> Iterator[None]:
    """Make Dynamo, AOTAutograd and Inductor work for the virtual GPU inside the block."""
    if _of_thread.depth or not is_on():
        yield
        return
    undo = []
    _of_thread.depth += 1
    try:
        for change in _patches():
            change.start()
            undo.append(change)
        pt2.forget_device_properties()
        yield
    finally:
        for change in reversed(undo):
            change.stop()
        pt2.forget_device_properties()
        _of_thread.depth -= 1


pt2.accept_tangents(VirtualTensor)
