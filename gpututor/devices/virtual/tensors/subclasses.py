"""Subclasses of `torch.Tensor` with a `__torch_function__`, and of `torch.nn.Parameter`, on a virtual GPU.

On a device, a tensor of the user's class `Tagged` has another class of the same name. This class inherits from `Tagged`
and from the virtual tensor. Below autograd, operators see plain virtual tensors on the same memory, as on CUDA, where
C++ ignores Python classes. Above autograd, `__torch_function__` gives results their class.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import torch

from gpututor.devices.virtual import cuda_errors, torch_private
from gpututor.devices.virtual.tensors.tensor import VirtualTensor, on_device

aten = torch.ops.aten
_classes: WeakKeyDictionary[type, type] = WeakKeyDictionary()
"""Classes of tensors on a device, by the user's class."""


class _Wanted(threading.local):
    kind: type | None = None


_wanted = _Wanted()


class VirtualSubclass(VirtualTensor):  # type: ignore[metaclass]
    """Base of the classes that represent users' tensor classes on a device."""

    user_class: type = torch.Tensor
    """The user's class."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Give the results of torch's functions this class, as `torch.Tensor.__torch_function__` does."""
        if not all(issubclass(cls, kind) for kind in types):
            return NotImplemented
        with torch_private.no_subclass_functions():
            result = func(*args, **(kwargs or {}))
            return result if func in torch_private.functions_without_class() else cls._convert(result)

    @classmethod
    def _convert(cls, result: Any) -> Any:
        if isinstance(result, torch.Tensor) and not isinstance(result, cls.user_class):
            return result.as_subclass(cls.user_class)
        if isinstance(result, tuple | list):
            return type(result)(cls._convert(part) for part in result)
        return result

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        # Reached only without a mode, as in `VirtualTensor`.
        return run_plainly(VirtualTensor.__torch_dispatch__, func, types, args, kwargs or {})

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        with torch_private.no_subclass_functions():
            return VirtualTensor.__repr__(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            copy = VirtualTensor.__deepcopy__(plain(self), memo)
            memo[id(self)] = new_leaf(type(self).user_class, copy, self.requires_grad)
            own = {name: value for name, value in self.__dict__.items() if name not in _OWN}
            memo[id(self)].__dict__.update(own)
        return memo[id(self)]

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise cuda_errors.unsupported(
            f"pickling a tensor of the class {type(self).__name__} on a device", "Save a plain tensor."
        )


_OWN = frozenset({"_host", "_device", "_block", "_layout"})


def on_device_class(user_class: type) -> type:
    """Return the class on a device for a user's class; it is created at its first use."""
    if issubclass(user_class, VirtualSubclass):
        return user_class
    if "__torch_dispatch__" in vars(user_class):
        raise cuda_errors.unsupported(f"the class {user_class.__name__} with a __torch_dispatch__ by .as_subclass()")
    made = _classes.get(user_class)
    if made is None:
        kind: Any = type(VirtualSubclass)
        if not issubclass(kind, type(user_class)):
            kind = type(kind.__name__, (kind, type(user_class)), {})
        body = {"user_class": user_class, "__module__": user_class.__module__, "__qualname__": user_class.__qualname__}
        made = _classes[user_class] = kind(user_class.__name__, (user_class, VirtualSubclass), body)
    return made


@contextmanager
def _want(kind: type) -> Iterator[None]:
    _wanted.kind = kind
    try:
        yield
    finally:
        _wanted.kind = None


def as_subclass(tensor: Any, user_class: type) -> Any:
    """Return a view of a virtual tensor that has the user's class, recorded by autograd."""
    with torch_private.no_subclass_functions(), _want(on_device_class(user_class)):
        return aten.alias.default(tensor)


def new_leaf(user_class: type, data: Any, requires_grad: bool) -> Any:
    """Return a new leaf of the user's class that shares the memory of `data`."""
    with torch.no_grad(), torch_private.no_subclass_functions():
        return as_subclass(data, user_class).requires_grad_(requires_grad)


def alias(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> VirtualTensor:
    """Run `aten::alias`; the view has the class that `as_subclass` selects, by default a plain virtual tensor."""
    (tensor,) = args
    kind, _wanted.kind = _wanted.kind, None
    return on_device(func(tensor._host), tensor._device, tensor._block, VirtualTensor if kind is None else kind)


def plain(tensor: Any) -> VirtualTensor:
    """Return a plain virtual tensor of the same memory, not recorded by autograd."""
    return on_device(tensor._host, tensor._device, tensor._block)


def _form(tensor: VirtualTensor) -> Any:
    """Return the properties, besides values, that an in-place operator can change."""
    return id(tensor._block), tensor.size(), tensor.stride()


def run_plainly(run: Any, func: Any, types: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Run an operator with plain virtual tensors in place of user-class tensors; return the original tensors."""
    originals: dict[int, tuple[Any, VirtualTensor, Any]] = {}

    def enter(value: Any) -> Any:
        if not issubclass(type(value), VirtualSubclass):
            return value
        made = plain(value)
        originals[id(made)] = (value, made, _form(made))
        return made

    def leave(value: Any) -> Any:
        return originals[id(value)][0] if id(value) in originals else value

    args, kwargs = torch_private.tree_map(enter, (tuple(args), kwargs))
    kinds = tuple(VirtualTensor if issubclass(kind, VirtualSubclass) else kind for kind in types)
    result = run(func, tuple(dict.fromkeys(kinds)), args, kwargs)
    for original, made, before in originals.values():
        if _form(made) != before:
            torch_private.set_data(original, plain(made))
            original._host, original._block = made._host, made._block
    return torch_private.tree_map(leave, result)


_real_new: Any = torch.nn.Parameter.__new__


def own_parameter(cls: Any, data: Any = None, requires_grad: bool = True, *args: Any, **options: Any) -> Any:
    """Replace `torch.nn.Parameter.__new__`: parameters of the user's classes keep their class on a device."""
    if type(data) is VirtualTensor and cls is not torch.nn.Parameter and issubclass(cls, torch.nn.Parameter):
        made = new_leaf(cls, data.detach(), requires_grad)
        made._is_param = True
        return made
    return _real_new(cls, data, requires_grad, *args, **options)
