"""The function mode: device arguments of torch's functions, rewritten for the virtual GPU."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode, resolve_name

from gpututor.devices.virtual import cuda_errors, execution, torch_private
from gpututor.devices.virtual.api.compile import run_control_flow
from gpututor.devices.virtual.api.random import generator_kind
from gpututor.devices.virtual.api.tensor_types import convert_type, legacy_new, refuse_apply
from gpututor.devices.virtual.machine import active_machine, cpp_device, is_on, python_device, requested_device
from gpututor.devices.virtual.operators.attention import attention
from gpututor.devices.virtual.operators.autocast import fused_softmax
from gpututor.devices.virtual.operators.dispatch import DeviceMode
from gpututor.devices.virtual.tensors.module_to import set_data_across_devices
from gpututor.devices.virtual.tensors.moves import pin, pinned
from gpututor.devices.virtual.tensors.storage import virtual_storage
from gpututor.devices.virtual.tensors.subclasses import VirtualSubclass
from gpututor.devices.virtual.tensors.tensor import (
    VirtualTensor,
    check_gradients,
    device_attribute,
    device_from_cpp,
    get_device,
    is_cuda_attribute,
    is_meta_attribute,
)

Tensor = torch.Tensor
Handler = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]
HANDLERS: dict[Any, Handler] = {}
"""Functions that handle calls of torch, by the called function; filled by `fill_handlers`."""
_VIRTUAL_ALONE = (VirtualTensor,)


class DeviceFunctionMode(TorchFunctionMode):
    """Function mode that rewrites arguments and error messages; the dispatch mode runs the operators."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not is_on():
            return _call_switched_off(func, args, kwargs or {})
        if types and types != _VIRTUAL_ALONE and torch_private.classes_functions_are_on() and _has_own_function(types):
            return NotImplemented  # the class calls the function again
        handler = HANDLERS.get(func)
        try:
            if kwargs and kwargs.get("generator") is not None:
                _check_generator(args, kwargs)
            if handler is not None:
                return handler(func, args, kwargs or {})
            return func(*args, **kwargs) if kwargs else func(*args)
        except cuda_errors.NoValues as error:
            error.name_call(_call_in_words(func))
            raise
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            if error.args and isinstance(error.args[0], str):
                error.args = (cuda_errors.with_cuda_device_names(error.args[0]), *error.args[1:])
            raise


def _has_own_function(kinds: Any) -> bool:
    for kind in kinds:  # noqa: SIM110 - without a generator, in a third of the time
        if issubclass(kind, VirtualSubclass):
            return True
    return False


def _call_switched_off(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Call a function after the virtual GPU was switched off, in a thread that still has its modes."""
    try:
        return func(*args, **kwargs)
    except (RuntimeError, TypeError) as error:
        devices = [torch_private.device_of.__get__(value) for value in args if isinstance(value, Tensor)]
        if "meta tensor" in str(error) and any(device.index is not None for device in devices):
            raise cuda_errors.switched_off() from None
        raise


class _OfThisThread(threading.local):
    depth = 0


_of_this_thread = _OfThisThread()


def thread_has_modes() -> bool:
    """Return True if this thread sees the virtual GPU, as all threads started while it was on do."""
    return _of_this_thread.depth > 0


class ThreadModes:
    def __init__(self) -> None:
        self._dispatch: Any = DeviceMode()
        self._functions: Any = DeviceFunctionMode()

    def __enter__(self) -> ThreadModes:
        self._dispatch.__enter__()
        self._functions.__enter__()
        _of_this_thread.depth += 1
        return self

    def __exit__(self, *exception: Any) -> None:
        _of_this_thread.depth -= 1
        were_removed = self._put_back()
        self._functions.__exit__(*exception)
        self._dispatch.__exit__(*exception)
        if were_removed:
            raise cuda_errors.modes_removed()

    def _put_back(self) -> bool:
        """Put those of its modes back that code in the block has removed; return True if there are any."""
        were_removed = False
        for mode, modes, push in (
            (self._functions, torch_private.function_modes(), torch_private.push_function_mode),
            (self._dispatch, torch_private.dispatch_modes(), torch_private.push_dispatch_mode),
        ):
            if mode not in modes:
                push(mode)
                were_removed = True
        return were_removed


def _check_generator(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Check a generator's device. The dispatch mode cannot: C++ passes it another object, without the device."""
    device = kwargs.get("device")
    if device is None:
        tensor = args[0] if args else None
        # A DTensor names its device in C++'s notation.
        own = python_device(tensor.device) if isinstance(tensor, Tensor) else None
        device = own or torch_private.default_device() or "cpu"
    expected, kind = requested_device(device).type, generator_kind(kwargs["generator"])
    if expected != kind:
        raise cuda_errors.wrong_generator(expected, kind)


_CALLS_IN_WORDS = {
    "__bool__": "bool(tensor), as in `if tensor:`,",
    "__int__": "int(tensor)",
    "__float__": "float(tensor)",
    "__complex__": "complex(tensor)",
    "__index__": "A tensor as an index or a length",
    "__contains__": "`in` of a tensor",
    "__reversed__": "reversed(tensor)",
}


def _call_in_words(func: Any) -> str:
    """Return a function of torch as users call it: `Tensor.item()`."""
    name = getattr(func, "__name__", "")
    if name in _CALLS_IN_WORDS:
        return _CALLS_IN_WORDS[name]
    call: str = resolve_name(func)
    if not call or call.endswith(("backward", "autograd.grad")):
        return ""  # the operator's name says more about a backward pass
    return (call.removeprefix("torch.") if call.startswith("torch.Tensor.") else call) + "()"


def pin_memory(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    tensor = args[0]
    machine = active_machine()
    if not machine.gpus and not machine.backends & {"mps", "xpu"}:
        raise machine.why_no_gpus()
    if pinned(tensor):
        return tensor
    began = machine.clock.host.now
    with torch.no_grad():
        copy = tensor.detach().clone()
    execution.copies.spend_host_copy(machine, began, copy.nbytes)
    pin(copy)
    return copy


def make_pinned(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], device: Any) -> Any:
    """Make a tensor with `pin_memory=True` on `device` as the user wrote it; None is the CPU.

    Raises `RuntimeError` for a tensor on a GPU.
    """
    if device is not None and requested_device(device).type == "cuda":
        raise cuda_errors.cannot_pin("torch.cuda.FloatTensor")
    made = func(*args, **kwargs)
    pin(made)
    return made


def _with_cpp_device(kwargs: dict[str, Any]) -> dict[str, Any]:
    device = kwargs.get("device")
    return kwargs if device is None else {**kwargs, "device": cpp_device(device)}


def _named(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a function that takes a `device` argument, by default the device of its first tensor."""
    if kwargs.get("pin_memory"):
        named = {name: value for name, value in _with_cpp_device(kwargs).items() if name != "pin_memory"}
        device = kwargs.get("device")
        return make_pinned(func, args, named, args[0].device if device is None else device)
    return func(*args, **_with_cpp_device(kwargs))


def _new_tensor(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Make a tensor, by default on the device of the first tensor: C++ would drop the GPU's index."""
    device = kwargs.get("device")
    device = device_from_cpp(args[0].device) if device is None else device
    args = (args[0], *_with_host_storage(args[1:]))
    return func(*args, **{**kwargs, "device": cpp_device(device)})


def _with_host_storage(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Copy a storage on a GPU to the host, where C++ reads the values of a new tensor."""
    return (args[0].cpu(), *args[1:]) if args and virtual_storage(args[0]) is not None else args


def _factory(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    device = kwargs.get("device")
    follows_data = func in _FROM_DATA and bool(args) and isinstance(args[0], Tensor)
    if device is None and not follows_data:
        device = torch_private.default_device()
    kwargs = {**kwargs, "device": cpp_device(device)} if device is not None else kwargs
    if kwargs.pop("pin_memory", False):
        return make_pinned(func, args, kwargs, device)
    if func is torch.tensor and args and type(args[0]) in (list, tuple):
        args = (_without_device_scalars(args[0]), *args[1:])
    elif func in _FROM_DATA:
        args = _with_host_storage(args)
    return func(*args, **kwargs)


_FROM_DATA = (torch.as_tensor, torch.asarray, torch.tensor)


def _without_device_scalars(values: Any) -> Any:
    """Read device scalars back to the host, one at a time, as CUDA does for `torch.tensor([a, b])`."""
    if not any(type(value) in (list, tuple, VirtualTensor) for value in values):
        return values
    return [
        _without_device_scalars(value)
        if type(value) in (list, tuple)
        else (_read_scalar(value) if type(value) is VirtualTensor and value.numel() == 1 else value)
        for value in values
    ]


def _read_scalar(value: VirtualTensor) -> Tensor:
    """Read a scalar into a CPU tensor, whose dtype the new tensor takes."""
    number = value.item()
    with torch_private.host_only():
        return torch.scalar_tensor(number, dtype=value.dtype)


def _to(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if len(args) > 1 and type(args[1]) in (str, int, torch.device):
        args = (args[0], cpp_device(args[1]), *args[2:])
    return func(*args, **_with_cpp_device(kwargs))


def _cuda(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    names = ("device", "non_blocking", "memory_format")
    given = {**dict(zip(names, args[1:], strict=False)), **kwargs}
    device = given.pop("device", None)
    target = cpp_device("cuda" if device is None else device)
    if target.type == "cpu" or target.index is None:
        raise RuntimeError("Invalid device, must be cuda device")  # torch/csrc/autograd/python_variable_methods.cpp
    return args[0].to(device=target, **given)


def _device(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return `cuda:1` for `torch.device(1)`, even without such a GPU, as a CUDA build does."""
    if len(args) == 1 and type(args[0]) is int and args[0] >= 0 and "cuda" in active_machine().backends:
        return torch.device("cuda", args[0])
    return func(*args, **kwargs)


def _refuse_numpy(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if type(args[0]) is VirtualTensor:
        return args[0].numpy(**kwargs)
    return func(*args, **kwargs)


def _read_on_host(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a C++ function that reads a CPU tensor without an operator, and record the access for data races."""
    machine = active_machine()
    if machine.pending_copies and type(args[0]) is not VirtualTensor:
        execution.races.record_host_access(machine, args)
    return func(*args, **kwargs)


def _ctc_loss(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Read the lengths on the host, on whichever device they are, as CUDA does (LossCTC.cpp)."""

    def to_list(lengths: Any) -> Any:
        return lengths.reshape(-1).tolist() if isinstance(lengths, Tensor) else lengths

    lengths = {name: to_list(kwargs[name]) for name in ("input_lengths", "target_lengths") if name in kwargs}
    return func(*args[:2], *map(to_list, args[2:4]), *args[4:], **(kwargs | lengths))


def _set_gradient(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Raise the engine's error for a gradient on another device: the engine does not check wrapper subclasses."""
    tensor, gradient = args
    if isinstance(gradient, Tensor) and gradient.device != tensor.device:
        raise cuda_errors.wrong_gradient(tensor.device, gradient.device)
    return func(*args, **kwargs)


def _softmax(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    given = {**dict(zip(("input", "dim"), args, strict=False)), **kwargs}
    dtype = next((value for value in args[2:] if isinstance(value, torch.dtype)), given.get("dtype"))
    out = fused_softmax(f"aten::{func.__name__}", given.get("input"), given.get("dim"), dtype)
    return func(*args, **kwargs) if out is None else out


def _set_item(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Assign a number as a CPU tensor, as C++ does for CUDA tensors only (python_variable_indexing.cpp)."""
    if len(args) == 3 and type(args[0]) is VirtualTensor and type(args[2]) in (int, float, bool, complex):
        with torch_private.host_only():
            value = torch.scalar_tensor(args[2], dtype=args[0].dtype)
        args = (*args[:2], value)
    return func(*args, **kwargs)


def _set_data(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run `parameter.data = parameter.data.cuda()`, which C++ rejects for incompatible kinds of tensors."""
    tensor, value = args
    if isinstance(value, Tensor) and (type(tensor) is VirtualTensor) is not (type(value) is VirtualTensor):
        return set_data_across_devices(tensor, value)
    return func(*args, **kwargs)


def _new(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a legacy constructor, which C++ has for real devices only."""
    like, *rest = args
    if type(like) is not VirtualTensor:
        if like.device.type == "cpu" and kwargs.get("device") and requested_device(kwargs["device"]).type == "cuda":
            raise RuntimeError("legacy constructor expects device type: cpu but device type: cuda was passed")
        return func(*args, **_with_cpp_device(kwargs))
    if like.is_sparse:  # SparseAdam calls it
        return torch.sparse_coo_tensor(*rest, dtype=like.dtype, device=cpp_device(like.device), **kwargs)
    return legacy_new(like.dtype, like.device, tuple(_without_device_scalars([*rest])), kwargs)


def _sparse_coo_tensor(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Make a sparse tensor without elements on its GPU: C++ would drop the GPU's index."""
    size = args[0] if args else kwargs.get("size")
    device = kwargs.get("device") or torch_private.default_device()
    sizes_only = len(args) == 1 and isinstance(size, tuple | list) and all(type(length) is int for length in size)
    if device is None or not sizes_only or requested_device(device).type != "cuda":
        return _factory(func, args, kwargs)
    device = cpp_device(device)
    indices = torch.empty((len(args[0]), 0), dtype=torch.int64, device=device)
    values = torch.empty((0,), dtype=kwargs.get("dtype"), device=device)
    return func(indices, values, tuple(args[0]), **{**kwargs, "device": device})


def _backward(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    check_gradients(args[0], args[1] if len(args) > 1 else kwargs.get("gradient", kwargs.get("grad_tensors")))
    return func(*args, **kwargs)


def _gradients(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    outputs = args[0] if args else kwargs.get("outputs")
    check_gradients(outputs, args[2] if len(args) > 2 else kwargs.get("grad_outputs"))
    return func(*args, **kwargs)


_NEW = ("new_zeros", "new_ones", "new_full", "new_empty", "new_empty_strided")
_LIKE = ("empty_like", "zeros_like", "ones_like", "full_like", "rand_like", "randn_like", "randint_like")


def _attribute(name: str) -> Any:
    """Return the function that function modes see when the attribute `name` of a tensor is read."""
    return getattr(Tensor, name).__get__


# C++ functions that use their arguments unchecked: wrong arguments crash the process, on every device.
_CRASHING = ("_thnn_differentiable_gru_cell_backward", "_thnn_differentiable_lstm_cell_backward", "wait")


def _control_flow(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    with DeviceFunctionMode():  # for the functions that it calls
        return run_control_flow(func, args, kwargs)


def _refuse_crashing(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    raise cuda_errors.unsupported(f"a direct call of torch.ops.{str(func).replace('::', '.')}")


def fill_handlers() -> None:
    """Fill `HANDLERS`; torch's own list of factories is read here."""
    if HANDLERS:
        return
    handlers: dict[Any, Handler] = dict.fromkeys(torch_private.device_constructors(), _factory)
    handlers.update({getattr(Tensor, name): _named for name in _NEW})
    handlers.update({getattr(torch, name): _named for name in _LIKE})
    handlers.update(
        {
            Tensor.new_tensor: _new_tensor,
            Tensor.new: _new,
            Tensor.__setitem__: _set_item,
            **dict.fromkeys((torch.softmax, Tensor.softmax, torch.nn.functional.softmax), _softmax),
            **dict.fromkeys((torch.log_softmax, Tensor.log_softmax, torch.nn.functional.log_softmax), _softmax),
            **dict.fromkeys((Tensor.apply_, Tensor.map_, Tensor.map2_), refuse_apply),
            torch.sparse_coo_tensor: _sparse_coo_tensor,
            Tensor.to: _to,
            Tensor.cuda: _cuda,
            Tensor.type: convert_type,
            Tensor.pin_memory: pin_memory,
            Tensor.is_pinned: lambda func, args, kwargs: pinned(args[0]),
            torch.device: _device,
            Tensor.get_device: get_device,
            torch.get_device: get_device,
            _attribute("device"): device_attribute,
            _attribute("is_cuda"): is_cuda_attribute,
            _attribute("is_meta"): is_meta_attribute,
            Tensor.numpy: _refuse_numpy,
            Tensor.tolist: _read_on_host,
            Tensor.__repr__: _read_on_host,
            torch.nn.functional.scaled_dot_product_attention: attention,
            torch.ctc_loss: _ctc_loss,
            torch.nn.functional.ctc_loss: _ctc_loss,
            **dict.fromkeys((torch.ops.higher_order.cond, torch.ops.higher_order.while_loop), _control_flow),
            torch_private.set_grad: _set_gradient,
            torch_private.set_data: _set_data,
            Tensor.backward: _backward,
            torch.autograd.backward: _backward,
            torch.autograd.grad: _gradients,
        }
    )
    for name in _CRASHING:
        packet = getattr(torch.ops.aten, name)
        handlers.update(
            dict.fromkeys((packet, *(getattr(packet, overload) for overload in packet.overloads())), _refuse_crashing)
        )
    to = torch.ops.aten.to
    handlers.update(dict.fromkeys((to.prim_dtype, to.prim_Device, to.prim_other), _refuse_crashing))
    HANDLERS.update(handlers)
