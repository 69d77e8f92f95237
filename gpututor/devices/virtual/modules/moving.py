"""Moving a module: its parameters become virtual tensors in place, so that optimisers that hold them follow."""

from __future__ import annotations

from typing import Any

import torch

from gpututor.devices.virtual import errors, private
from gpututor.devices.virtual.modules import lazy
from gpututor.devices.virtual.modules.swapping import swap_tensors
from gpututor.devices.virtual.tensors.tensor import VirtualTensor

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
        raise errors.unsupported(f"parameters of the class {kind.__name__} on a device", "Use torch.nn.Parameter.")


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
        raise errors.unsupported(
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
            lazy.move(parameter, fn)
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
        unlike = not private.can_share_a_data_slot(parameter, moved)
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
            lazy.move(buffer, fn)
        else:
            self._buffers[name] = fn(buffer)
    return self
