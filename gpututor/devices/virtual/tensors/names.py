"""The function mode: it rewrites the arguments and the messages of torch's Python calls; `calls` says how."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode, resolve_name

from gpututor.devices.virtual import errors, private
from gpututor.devices.virtual.face.generators import generator_kind
from gpututor.devices.virtual.machine import is_on, meant_device
from gpututor.devices.virtual.operators.dispatch import DeviceMode

Tensor = torch.Tensor
Handler = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]
HANDLERS: dict[Any, Handler] = {}
"""Filled by `calls.fill_handlers`."""


class DeviceNames(TorchFunctionMode):
    """Only rewrites arguments and messages; the operators themselves are the dispatch mode's."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not is_on():
            return _call_switched_off(func, args, kwargs or {})
        handler = HANDLERS.get(func)
        try:
            if kwargs and kwargs.get("generator") is not None:
                _check_generator(args, kwargs)
            if handler is not None:
                return handler(func, args, kwargs or {})
            return func(*args, **kwargs) if kwargs else func(*args)
        except errors.NoValues as error:
            error.say(_call_in_words(func))
            raise
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            if error.args and isinstance(error.args[0], str):
                error.args = (errors.in_cudas_words(error.args[0]), *error.args[1:])
            raise


def _call_switched_off(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """In a thread that outlived the block."""
    try:
        return func(*args, **kwargs)
    except (RuntimeError, TypeError) as error:
        places = [private.device_of.__get__(one) for one in args if isinstance(one, Tensor)]
        if "meta tensor" in str(error) and any(one.index is not None for one in places):
            raise errors.switched_off() from None
        raise


class _OfThisThread(threading.local):
    depth = 0


_of_this_thread = _OfThisThread()


def thread_has_modes() -> bool:
    """Whether this thread sees the virtual GPU, as all do that were started while it was on."""
    return _of_this_thread.depth > 0


class ThreadModes:
    """Both modes, for one thread."""

    def __init__(self) -> None:
        self._dispatch: Any = DeviceMode()
        self._functions: Any = DeviceNames()

    def __enter__(self) -> ThreadModes:
        self._dispatch.__enter__()
        self._functions.__enter__()
        _of_this_thread.depth += 1
        return self

    def __exit__(self, *exception: Any) -> None:
        _of_this_thread.depth -= 1
        self._functions.__exit__(*exception)
        self._dispatch.__exit__(*exception)


def _check_generator(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Here, because C++ gives the dispatch mode another object, which has forgotten its device."""
    device = kwargs.get("device")
    if device is None:
        tensor = args[0] if args else None
        device = tensor.device if isinstance(tensor, Tensor) else private.default_device() or "cpu"
    expected, found = meant_device(device).type, generator_kind(kwargs["generator"])
    if expected != found:
        raise errors.wrong_generator(expected, found)


_SAID_AS = {
    "__bool__": "bool(tensor), as in `if tensor:`,",
    "__int__": "int(tensor)",
    "__float__": "float(tensor)",
    "__complex__": "complex(tensor)",
    "__index__": "A tensor as an index or a length",
    "__contains__": "`in` of a tensor",
    "__reversed__": "reversed(tensor)",
}


def _call_in_words(func: Any) -> str:
    """A call of torch as people write it: `Tensor.item()`."""
    name = getattr(func, "__name__", "")
    if name in _SAID_AS:
        return _SAID_AS[name]
    found: str = resolve_name(func)
    if not found or found.endswith(("backward", "autograd.grad")):
        # Of a backward pass, the operator says more.
        return ""
    return (found.removeprefix("torch.") if found.startswith("torch.Tensor.") else found) + "()"
