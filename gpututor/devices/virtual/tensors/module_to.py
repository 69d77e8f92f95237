"""`Module.to` and related methods, lazy modules, and swapped parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from torch.nn.parameter import UninitializedParameter

from gpututor.devices.virtual import cuda_errors, torch_private
from gpututor.devices.virtual.machine import requested_device
from gpututor.devices.virtual.tensors.subclasses import VirtualSubclass, own_parameter
from gpututor.devices.virtual.tensors.tensor import VirtualTensor


def swap_tensors(tensor: torch.Tensor, other: torch.Tensor) -> None:
    """Swap two tensors.

    `torch.utils.swap_tensors` fails if an autograd graph holds the tensor, such as a convolution's weight after use.
    """
    _refuse_later_backward(tensor)
    slots = torch_private.slots_of(type(tensor))
    tensor.__class__, other.__class__ = other.__class__, tensor.__class__
    tensor.__dict__, other.__dict__ = other.__dict__, tensor.__dict__
    for name in slots:  # the inner tensors of a wrapper such as DTensor
        mine, theirs = getattr(tensor, name), getattr(other, name)
        setattr(tensor, name, theirs)
        setattr(other, name, mine)
    torch_private.swap_tensor_impl(tensor, other)


def _refuse_later_backward(tensor: torch.Tensor) -> None:
    """Make `backward()` of an earlier graph raise an error: its gradient would go to the discarded tensor."""
    if tensor.requires_grad and tensor.is_leaf and not tensor.is_inference():
        # The accumulator is found by a view, which inference mode does not record; sparse tensors have no views.
        with torch.inference_mode(False), torch.enable_grad():
            if tensor.layout is torch.strided:
                node: Any = torch.autograd.graph.get_gradient_edge(tensor).node
            else:
                node = (tensor * 1).grad_fn.next_functions[0][0]  # type: ignore[union-attr]
            node.register_prehook(_moved_in_between)


def _moved_in_between(*gradients: Any) -> None:
    raise RuntimeError(
        "A parameter was moved to another device, or its dtype was changed, between the forward pass and backward(): "
        "its gradient cannot be stored. Call .to(), .cuda(), .half() and the like before the forward pass."
    )


_PLACE = "_virtual_device"
_real_materialize: Any = UninitializedParameter.materialize
_real_device: Any = torch_private.device_of
_real_is_cuda: Any = torch_private.is_cuda_of


def _place(tensor: Any) -> torch.device | None:
    """Return the GPU of a tensor without a shape; None for the CPU."""
    place = tensor.__dict__.get(_PLACE)
    return place if isinstance(place, torch.device) else None


def _at(tensor: Any) -> torch.device:
    return _place(tensor) or _real_device.__get__(tensor)


# Attributes of the class while the virtual GPU is on.
device = property(_at)
is_cuda = property(lambda self: _place(self) is not None or _real_is_cuda.__get__(self))


def move(tensor: Any, fn: Any) -> None:
    """Apply the function of `module.to(...)` to a tensor without a shape."""
    where = _place(tensor)
    dtype = tensor.data.dtype
    with torch.no_grad():
        moved = fn(torch.empty(0, dtype=dtype, device=_at(tensor)))
    if moved.dtype is not dtype:
        device = _real_device.__get__(tensor) if where is None else "cpu"
        tensor.data = torch.empty(0, dtype=moved.dtype, device=device)
    if type(moved) is VirtualTensor:
        setattr(tensor, _PLACE, moved.device)
    elif where is not None:
        delattr(tensor, _PLACE)


def materialize(self: Any, shape: Any, device: Any = None, dtype: torch.dtype | None = None) -> None:
    """Replace `UninitializedParameter.materialize`: make it an ordinary tensor on its device."""
    where = _place(self) if device is None else requested_device(device)
    if where is None or where.type != "cuda":
        _real_materialize(self, shape, device, dtype)
        return
    made = torch.empty(shape, device=where, dtype=dtype or self.data.dtype)
    if isinstance(self, torch.nn.Parameter):
        made = torch.nn.Parameter(made, self.requires_grad)
    attributes = {name: value for name, value in self.__dict__.items() if name != _PLACE}
    # The class is set first: an uninitialized parameter rejects every query.
    self.__class__ = self.cls_to_become
    swap_tensors(self, made)
    self.__dict__.update(attributes)


def _without_shape(cls: Any, requires_grad: bool = True, device: Any = None, dtype: torch.dtype | None = None) -> Any:
    """Replace `UninitializedParameter.__new__`: an empty tensor of `cls`, on the CPU if `device` is a GPU."""
    like = torch.empty(0, device=device, dtype=dtype)
    if type(like) is not VirtualTensor:
        return torch_private.make_subclass(cls, like, requires_grad)
    made = torch_private.make_subclass(cls, torch.empty(0, device="cpu", dtype=like.dtype), requires_grad)
    setattr(made, _PLACE, like.device)
    return made


def _new_buffer(
    cls: Any, requires_grad: bool = False, device: Any = None, dtype: torch.dtype | None = None, persistent: bool = True
) -> Any:
    buffer = _without_shape(cls, requires_grad, device, dtype)
    buffer.persistent = persistent
    buffer._is_buffer = True
    return buffer


def deep_copy(self: Any, memo: dict[int, Any]) -> Any:
    """Replace `UninitializedParameter.__deepcopy__`, which uses the device of the CPU tensor."""
    if id(self) not in memo:
        memo[id(self)] = type(self)(self.requires_grad, _at(self), self.data.dtype)
    return memo[id(self)]


# Replacements of `__new__` in the two classes.
new_parameter = staticmethod(_without_shape)
new_buffer = staticmethod(_new_buffer)


_HOOKS = ("_backward_hooks", "_post_accumulate_grad_hooks")
_OWN = frozenset({"_host", "_device", "_block", "_layout", "_is_param"})
"""Attributes of every virtual tensor; all others belong to the program."""


def _become(tensor: torch.Tensor, other: torch.Tensor) -> None:
    """Turn `tensor` into `other`, but keep the program's attributes, and the tables that hook handles refer to."""
    hooks = {name: getattr(tensor, name, None) for name in _HOOKS}
    other.__dict__.update({name: value for name, value in tensor.__dict__.items() if name not in _OWN})
    swap_tensors(tensor, other)
    for name, table in hooks.items():
        if table is not None:
            # The setter passes the table to the new C++ object.
            setattr(tensor, name, None)
            setattr(tensor, name, table)


def _check_class(parameter: torch.Tensor) -> None:
    kind = type(parameter)
    own = kind not in (torch.nn.Parameter, VirtualTensor) and not torch_private.is_wrapper(parameter)
    if own and isinstance(parameter, torch.nn.Parameter):
        raise cuda_errors.unsupported(f"parameters of the class {kind.__name__} on a device", "Use torch.nn.Parameter.")


def _as_parameter(parameter: torch.nn.Parameter, moved: torch.Tensor) -> torch.nn.Parameter:
    """Return `moved` as a parameter of the same class as `parameter`."""
    kind: Any = type(parameter)
    user_class = kind.user_class if issubclass(kind, VirtualSubclass) else kind
    if user_class in (torch.nn.Parameter, VirtualTensor) or torch_private.is_wrapper(moved):
        return torch.nn.Parameter(moved, parameter.requires_grad)
    if type(moved) is VirtualTensor:
        made: torch.nn.Parameter = own_parameter(user_class, moved, parameter.requires_grad)
        return made
    return cast(torch.nn.Parameter, torch_private.make_subclass(user_class, moved, parameter.requires_grad))


def _move_parameter(parameter: torch.nn.Parameter, moved: torch.Tensor, fn: Any) -> None:
    gradient = parameter.grad
    parameter.grad = None
    if not isinstance(moved, torch.nn.Parameter):
        moved = _as_parameter(parameter, moved)
    _become(parameter, moved)
    if gradient is not None:
        with torch.no_grad():
            parameter.grad = fn(gradient)


def set_data_across_devices(tensor: torch.Tensor, value: torch.Tensor) -> None:
    """Implement `tensor.data = value` if only one of the two is virtual: `tensor` changes its class."""
    if tensor.grad is not None or tensor.grad_fn is not None:
        raise cuda_errors.unsupported(
            "setting .data from another device on a tensor that has a gradient or a graph",
            "Move modules with module.to(device), or set .grad to None first.",
        )
    _check_class(tensor)
    moved = value.detach()
    if isinstance(tensor, torch.nn.Parameter):
        moved = torch.nn.Parameter(moved, tensor.requires_grad)
    else:
        moved.requires_grad_(tensor.requires_grad)
    _become(tensor, moved)


def _is_virtual(*tensors: torch.Tensor) -> bool:
    return any(type(tensor) is VirtualTensor or issubclass(type(tensor), VirtualSubclass) for tensor in tensors)


_is_lazy: Callable[[Any], bool] = torch.nn.parameter.is_lazy  # without its type guard


def apply_to_tensors(self: torch.nn.Module, fn: Any, recurse: bool = True) -> torch.nn.Module:
    """Replace `nn.Module._apply`: swap virtual tensors even while an autograd graph holds them."""
    if recurse:
        for child in self.children():
            child._apply(fn)
    for name, parameter in self._parameters.items():
        if parameter is None:
            continue
        if _is_lazy(parameter):
            move(parameter, fn)
            continue
        with torch.no_grad():
            moved = fn(parameter)
        if moved is parameter:
            continue
        overwrite = torch.__future__.get_overwrite_module_params_on_conversion()
        if torch_private.is_wrapper(moved) or (_is_virtual(parameter, moved) and not overwrite):
            _move_parameter(parameter, moved, fn)
            if isinstance(self, torch.jit.ScriptModule):
                # A scripted module refers to the C++ object of each parameter, which has changed.
                self._c.setattr(name, parameter)
            continue
        gradient = parameter.grad
        # They cannot share, for example, after a move from the meta device to the CPU.
        if overwrite or not torch_private.can_share_a_data_slot(parameter, moved):
            parameter = self._parameters[name] = torch.nn.Parameter(moved, parameter.requires_grad)
        else:
            parameter.data = moved
        if gradient is not None:
            with torch.no_grad():
                parameter.grad = fn(gradient).requires_grad_(gradient.requires_grad)
    for name, buffer in self._buffers.items():
        if buffer is not None and _is_lazy(buffer):
            move(buffer, fn)
        elif buffer is not None:
            self._buffers[name] = fn(buffer)
    return self
