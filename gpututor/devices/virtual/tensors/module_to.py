"""`Module.to` and its like, lazy modules, and swapped parameters."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter

from gpututor.devices.virtual import cuda_errors, torch_private
from gpututor.devices.virtual.machine import meant_device
from gpututor.devices.virtual.tensors.tensor import VirtualTensor


def swap_tensors(kept: torch.Tensor, other: torch.Tensor) -> None:
    """`kept` becomes what `other` was, and the other way round.

    `torch.utils.swap_tensors` refuses when a graph still holds the tensor, such as a convolution's weight after use.
    """
    _refuse_later_backward(kept)
    kept.__class__, other.__class__ = other.__class__, kept.__class__
    kept.__dict__, other.__dict__ = other.__dict__, kept.__dict__
    torch_private.swap_tensor_impl(kept, other)


def _refuse_later_backward(tensor: torch.Tensor) -> None:
    """A graph made before would give its gradient to the tensor that is thrown away, without a word."""
    if tensor.requires_grad and tensor.is_leaf and not tensor.is_inference():
        # The node is found by a view, which has none in inference mode; sparse tensors have no views at all.
        with torch.inference_mode(False), torch.enable_grad():
            if tensor.layout is torch.strided:
                node: Any = torch.autograd.graph.get_gradient_edge(tensor).node
            else:
                node = (tensor * 1).grad_fn.next_functions[0][0]  # type: ignore[union-attr]
            node.register_prehook(_moved_in_between)


def _moved_in_between(*gradients: Any) -> None:
    raise RuntimeError(
        "A parameter was moved to another device, or its dtype was changed, between the forward pass and backward(): "
        "the gradient has nowhere to go. Call .to(), .cuda(), .half() and the like before the forward pass."
    )


_PLACE = "_virtual_device"
_real_materialize: Any = UninitializedParameter.materialize
_real_device: Any = torch_private.device_of
_real_is_cuda: Any = torch_private.is_cuda_of


def _place(tensor: Any) -> torch.device | None:
    """The GPU that it will be made on; None for the CPU."""
    found = tensor.__dict__.get(_PLACE)
    return found if isinstance(found, torch.device) else None


def _at(tensor: Any) -> torch.device:
    found = _place(tensor)
    return _real_device.__get__(tensor) if found is None else found


# How the class sees its device while the virtual GPU is on.
device = property(_at)
is_cuda = property(lambda self: _place(self) is not None or _real_is_cuda.__get__(self))


def move(tensor: Any, fn: Any) -> None:
    """What `module.to(...)` does to a tensor without a shape."""
    where = _place(tensor)
    dtype = tensor.data.dtype
    stand_in = torch.empty(0, dtype=dtype, device=_at(tensor))
    with torch.no_grad():
        moved = fn(stand_in)
    if moved.dtype is not dtype:
        tensor.data = torch.empty(
            0, dtype=moved.dtype, device="cpu" if where is not None else _real_device.__get__(tensor)
        )
    if type(moved) is VirtualTensor:
        setattr(tensor, _PLACE, moved.device)
    elif where is not None:
        delattr(tensor, _PLACE)


def materialize(self: Any, shape: Any, device: Any = None, dtype: torch.dtype | None = None) -> None:
    """Stands in for `UninitializedParameter.materialize`: it becomes an ordinary tensor, on its device."""
    where = _place(self) if device is None else meant_device(device)
    if where is None or where.type != "cuda":
        _real_materialize(self, shape, device, dtype)
        return
    made = torch.empty(shape, device=where, dtype=dtype or self.data.dtype)
    if isinstance(self, torch.nn.Parameter):
        made = torch.nn.Parameter(made, self.requires_grad)
    kept = {name: value for name, value in self.__dict__.items() if name != _PLACE}
    # First, for a class without a shape refuses every question.
    self.__class__ = self.cls_to_become
    swap_tensors(self, made)
    self.__dict__.update(kept)


def _without_shape(cls: Any, device: Any, dtype: torch.dtype | None, requires_grad: bool) -> Any:
    """An empty tensor of `cls`, on the CPU if `device` is a GPU."""
    like = torch.empty(0, device=device, dtype=dtype)
    if type(like) is not VirtualTensor:
        return torch_private.make_subclass(cls, like, requires_grad)
    made = torch_private.make_subclass(cls, torch.empty(0, device="cpu", dtype=like.dtype), requires_grad)
    setattr(made, _PLACE, like.device)
    return made


def _new_parameter(
    cls: Any, requires_grad: bool = True, device: Any = None, dtype: torch.dtype | None = None
) -> UninitializedParameter:
    made: UninitializedParameter = _without_shape(cls, device, dtype, requires_grad)
    return made


def _new_buffer(
    cls: Any,
    requires_grad: bool = False,
    device: Any = None,
    dtype: torch.dtype | None = None,
    persistent: bool = True,
) -> UninitializedBuffer:
    made = _without_shape(cls, device, dtype, requires_grad)
    made.persistent = persistent
    made._is_buffer = True
    buffer: UninitializedBuffer = made
    return buffer


def deep_copy(self: Any, memo: dict[int, Any]) -> Any:
    """Stands in for `UninitializedParameter.__deepcopy__`, which asks for the device of what is on the CPU."""
    if id(self) not in memo:
        memo[id(self)] = type(self)(self.requires_grad, _at(self), self.data.dtype)
    return memo[id(self)]


# What a class holds under `__new__`.
new_parameter = staticmethod(_new_parameter)
new_buffer = staticmethod(_new_buffer)


_HOOKS = ("_backward_hooks", "_post_accumulate_grad_hooks")
_OWN = frozenset({"_host", "_device", "_block", "_layout", "_is_param"})
"""What a virtual tensor keeps on its object; all else there is a person's."""


def _become(tensor: torch.Tensor, other: torch.Tensor) -> None:
    """`tensor` becomes what `other` was, but keeps a person's attributes and the tables of its hooks.

    Handles of hooks point at those tables.
    """
    hooks = {name: getattr(tensor, name, None) for name in _HOOKS}
    other.__dict__.update({name: value for name, value in tensor.__dict__.items() if name not in _OWN})
    swap_tensors(tensor, other)
    for name, table in hooks.items():
        if table is not None:
            # They stay with the object, and have to reach its new C++ half.
            setattr(tensor, name, None)
            setattr(tensor, name, table)


def _check_class(parameter: torch.Tensor) -> None:
    kind = type(parameter)
    if isinstance(parameter, torch.nn.Parameter) and kind not in (torch.nn.Parameter, VirtualTensor):
        raise cuda_errors.unsupported(f"parameters of the class {kind.__name__} on a device", "Use torch.nn.Parameter.")


def _move_parameter(parameter: torch.nn.Parameter, moved: torch.Tensor, fn: Any) -> None:
    _check_class(parameter)
    gradient = parameter.grad
    parameter.grad = None
    if not isinstance(moved, torch.nn.Parameter):
        moved = torch.nn.Parameter(moved, parameter.requires_grad)
    _become(parameter, moved)
    if gradient is not None:
        with torch.no_grad():
            parameter.grad = fn(gradient)


def set_data_across_devices(tensor: torch.Tensor, value: torch.Tensor) -> None:
    """`tensor.data = value` where one of them is virtual and the other is not: the object stays, what it is changes."""
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


def apply_to_tensors(self: torch.nn.Module, fn: Any, recurse: bool = True) -> torch.nn.Module:
    """Stands in for `nn.Module._apply`: the same, and for virtual tensors a swap that works with a graph alive."""
    if recurse:
        for child in self.children():
            child._apply(fn)
    for name, parameter in self._parameters.items():
        if parameter is None:
            continue
        without_shape: bool = torch.nn.parameter.is_lazy(parameter)
        if without_shape:
            move(parameter, fn)
            continue
        with torch.no_grad():
            moved = fn(parameter)
        if moved is parameter:
            continue
        overwrite = torch.__future__.get_overwrite_module_params_on_conversion()
        if VirtualTensor in (type(parameter), type(moved)) and not overwrite:
            _move_parameter(parameter, moved, fn)
            if isinstance(self, torch.jit.ScriptModule):
                # It keeps the C++ half of its parameters, which is another now.
                self._c.setattr(name, parameter)
            continue
        gradient = parameter.grad
        # From a learner's own meta device, say, to the CPU.
        unlike = not torch_private.can_share_a_data_slot(parameter, moved)
        if unlike or overwrite:
            parameter = self._parameters[name] = torch.nn.Parameter(moved, parameter.requires_grad)
        else:
            parameter.data = moved
        if gradient is not None:
            with torch.no_grad():
                parameter.grad = fn(gradient).requires_grad_(gradient.requires_grad)
    for name, buffer in self._buffers.items():
        if buffer is None:
            continue
        without_shape = torch.nn.parameter.is_lazy(buffer)
        if without_shape:
            move(buffer, fn)
        else:
            self._buffers[name] = fn(buffer)
    return self
