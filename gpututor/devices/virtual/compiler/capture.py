"""Lets Dynamo, AOTAutograd and Inductor see virtual tensors as tensors on `cuda`.

Dynamo turns its inputs into fake tensors. In a build without CUDA, a fake tensor on `cuda` works almost everywhere. It
fails only in C++ code that needs CUDA's device guard: autograd and indexing. So C++ sees `meta:0` instead of `cuda:0`,
as for virtual tensors.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from gpututor.devices.virtual import torch_private
from gpututor.devices.virtual.api.function_mode import DeviceFunctionMode, ThreadModes
from gpututor.devices.virtual.compiler import pt2_private as pt2
from gpututor.devices.virtual.machine import CPU, META, NOWHERE, active_machine
from gpututor.devices.virtual.tensors.storage import VirtualStorage
from gpututor.devices.virtual.tensors.tensor import VirtualTensor


class _OfThread(threading.local):
    depth = 0


_of_thread = _OfThread()


@contextmanager
def seeing_virtual_tensors() -> Iterator[None]:
    """Patch PyTorch's compiler inside the block; a nested block changes nothing."""
    if _of_thread.depth:
        yield
        return
    _of_thread.depth += 1
    pt2.forget_device_properties()
    try:
        with ExitStack() as stack:
            for change in _changes():
                stack.enter_context(change)
            yield
    finally:
        pt2.forget_device_properties()
        _of_thread.depth -= 1


def _changes() -> Iterator[Any]:
    fake, mode, interface = pt2.FakeTensor, pt2.FakeTensorMode, pt2.CudaInterface
    # Fake tensors.
    yield patch.object(fake, "__torch_dispatch__", classmethod(_dispatch(fake.__torch_dispatch__.__func__)))
    yield patch.object(mode, "__torch_dispatch__", _dispatch(mode.__torch_dispatch__))
    yield patch.dict(pt2.META_HANDLERS, {pt2.PRIM_DEVICE: lambda args: _device_in_cpp(args[0])})
    # A build with CUDA would look for a driver.
    yield patch.object(pt2.fake_tensor, "init_gpu_context", lambda device: None)
    for kind in ("cpu", "cuda", "meta"):
        is_on = property(lambda fake, kind=kind: fake.device.type == kind)  # type: ignore[misc]
        yield patch.object(fake, f"is_{kind}", is_on, create=True)
    yield patch.object(fake, "cuda", _to_cuda, create=True)
    yield patch.object(fake, "to", _to, create=True)
    yield patch.object(pt2.CPP, "_conv_determine_backend_memory_format", _layout_of_convolution)
    # Dynamo.
    yield patch.object(pt2.FunctionState, "__init__", _without_our_mode(pt2.FunctionState.__init__))
    yield patch.object(pt2.Describer, "get_storage_id", _storage_id(pt2.Describer.get_storage_id))
    yield patch.object(pt2.builder, "infer_subclass_type", _plain_class(pt2.builder.infer_subclass_type))
    yield patch.dict(pt2.type_dispatch(), {VirtualTensor: pt2.wrap_tensor})
    yield patch.object(pt2.OptimizerVariable, "call_method", _call_optimizer(pt2.OptimizerVariable.call_method))
    yield patch.object(pt2.utils, "run_node", _with_gpu_of_number(pt2.utils.run_node))
    yield patch.object(pt2.UserClass, "call_function", _device_of_number(pt2.UserClass.call_function))
    # AOTAutograd: the machine's own function enters a function mode for hooks.
    yield patch.object(torch.autograd, "_engine_run_backward", torch_private.run_engine)
    # Inductor.
    for owner in (interface, interface.Worker):
        yield patch.object(owner, "get_device_properties", staticmethod(_properties))
    yield patch.object(interface, "get_compute_capability", staticmethod(_capability))
    yield patch.object(pt2.scheduler, "has_triton", lambda *args: True)
    # Its key is a hash of Triton's files, 0.4 s, for caches of compiled code that are not used here.
    yield patch.object(pt2.CacheBase, "get_system", lambda: {"hash": ""})
    for name in ("_deduce_value", "_add_peephole_patterns"):
        yield patch.object(pt2.ConstantFolder, name, _on_host(getattr(pt2.ConstantFolder, name)))
    yield patch.object(pt2.joint_graph, "lazy_init", _prepared_on_the_cpu(pt2.joint_graph.lazy_init))
    passes = getattr(pt2.compile_fx, pt2.JOINT_PASSES)
    yield patch.object(pt2.compile_fx, pt2.JOINT_PASSES, _with_devices_named(passes))


def _layout_of_convolution(image: torch.Tensor, weight: torch.Tensor, backend: Any) -> torch.memory_format:
    """Return the layout of a convolution's output, as cudnn_conv_suggest_memory_format (native/ConvUtils.h)."""
    layouts = {pt2.suggest_memory_format(tensor) for tensor in (image, weight)}
    adjacent = {4: torch.channels_last, 5: torch.channels_last_3d}.get(weight.dim())
    if adjacent in layouts and torch.float64 not in (image.dtype, weight.dtype):
        return adjacent
    return torch.contiguous_format


def _prepared_on_the_cpu(prepare: Callable[..., None]) -> Callable[..., None]:
    """Make Inductor trace its patterns with CPU tensors; torch 2.10 has no argument for the device."""

    def call(*devices: torch.device) -> None:
        with patch.object(torch.cuda, "is_available", lambda: False):
            prepare(*[CPU] * len(devices))

    return call


def _device_in_cpp(fake: Any) -> torch.device:
    """Return the device of a fake tensor for C++."""
    if fake.fake_mode.in_kernel_invocation:
        return NOWHERE
    device: torch.device = fake.fake_device
    return META[device.index or 0] if device.type == "cuda" else device


def _device_in_python(value: Any) -> Any:
    """Return `cuda:0` for `meta:0`, and any other value as it is."""
    is_gpu = isinstance(value, torch.device) and value.type == "meta" and value.index is not None
    return torch.device("cuda", value.index) if is_gpu else value


def _dispatch(real: Any) -> Any:
    """Wrap `__torch_dispatch__` of fake tensors, or of their mode."""

    def dispatch(owner: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is pt2.PRIM_DEVICE:
            return _device_in_cpp(args[0])
        if kwargs and "device" in kwargs:
            kwargs = {**kwargs, "device": _device_in_python(kwargs["device"])}
        return real(owner, func, types, args, kwargs)

    return dispatch


def _to_cuda(self: Any, device: Any = None, non_blocking: bool = False, **kwargs: Any) -> Any:
    """Stand in for `fake.cuda()`, which would start CUDA."""
    index = active_machine().current_index
    return self.to(
        device=torch.device("cuda", index) if device is None else device, non_blocking=non_blocking, **kwargs
    )


def _to(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Stand in for `fake.to()`: for `cuda` without an index, C++ would start CUDA."""
    args, kwargs = torch_private.tree_map(_with_index, (args, kwargs))
    return torch.Tensor.to(self, *args, **kwargs)


def _with_index(value: Any) -> Any:
    """Return the current GPU for `cuda`, a GPU for its number, and any other value as it is."""
    if type(value) is int:
        return torch.device("cuda", value)
    is_current = value == "cuda" if isinstance(value, str) else value == torch.device("cuda")
    return torch.device("cuda", active_machine().current_index) if is_current else value


def _with_gpu_of_number(real: Any) -> Any:
    """Pass a GPU that an operator gets by number as a device: C++ would look for a driver."""

    def run_node(tracer: Any, node: Any, args: Any, kwargs: Any, module: Any) -> Any:
        if type(kwargs.get("device")) is int:
            kwargs = {**kwargs, "device": _with_index(kwargs["device"])}
        return real(tracer, node, args, kwargs, module)

    return run_node


def _device_of_number(real: Any) -> Any:
    """Return the GPU for `torch.device(0)`, which Dynamo evaluates during the capture."""

    def call_function(self: Any, tx: Any, args: Any, kwargs: Any) -> Any:
        if self.value is torch.device and len(args) == 1 and not kwargs and args[0].is_python_constant():
            number = args[0].as_python_constant()
            args = [pt2.constant(str(_with_index(number)))] if type(number) is int else args
        return real(self, tx, args, kwargs)

    return call_function


def _without_our_mode(real: Any) -> Any:
    """Hide the machine's function mode, which Dynamo would trace."""

    def init(self: Any, py_stack: Any, *args: Any, **kwargs: Any) -> None:
        real(self, [mode for mode in py_stack if type(mode) is not DeviceFunctionMode], *args, **kwargs)

    return init


def _storage_id(real: Any) -> Any:
    def get_storage_id(self: Any, storage: Any) -> Any:
        return real(self, storage._host if type(storage) is VirtualStorage else storage)

    return get_storage_id


def _plain_class(real: Any) -> Any:
    def infer_subclass_type(value: Any) -> Any:
        return None if type(value) is VirtualTensor else real(value)

    return infer_subclass_type


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


def _properties(device: Any = None) -> Any:
    """Return the properties of a GPU that Inductor reads."""
    index = torch.device(device).index if isinstance(device, str | torch.device) else device
    known = torch.cuda.get_device_properties(index or 0)
    names = (
        "name", "major", "minor", "multi_processor_count", "max_threads_per_multi_processor", "total_memory",
        "L2_cache_size", "regs_per_multiprocessor", "warp_size", "shared_memory_per_block_optin",
    )  # fmt: skip
    defaults = {"regs_per_multiprocessor": 65536, "warp_size": 32, "shared_memory_per_block_optin": 49152}
    values = {name: getattr(known, name, defaults.get(name)) for name in names}
    return SimpleNamespace(gcnArchName="", max_threads_per_block=1024, **values)


def _capability(device: Any = None) -> int:
    known = _properties(device)
    return int(known.major) * 10 + int(known.minor)


class _ConstantsOnHost(TorchDispatchMode):
    """Dispatch mode that creates the compiler's constants on the host, where Inductor folds them."""

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        return True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if kwargs.get("device") is not None and _device_in_python(kwargs["device"]).type == "cuda":
            kwargs = {**kwargs, "device": CPU}
        return func(*args, **kwargs)


def _on_host(real: Any) -> Any:
    def fold(*args: Any) -> Any:
        with _ConstantsOnHost():  # type: ignore[no-untyped-call]
            return real(*args)

    return fold


def _with_devices_named(real: Any) -> Any:
    """Replace `meta:0` by `cuda:0` in a graph before Inductor's passes: some nodes come from C++."""

    def run_passes(module: Any, *args: Any, **kwargs: Any) -> Any:
        for node in module.graph.nodes:
            node.args = pt2.map_aggregate(node.args, _device_in_python)
            node.kwargs = pt2.map_aggregate(node.kwargs, _device_in_python)
        module.recompile()
        return real(module, *args, **kwargs)

    return run_passes


pt2.accept_tangents(VirtualTensor)
