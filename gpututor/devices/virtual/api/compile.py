"""`torch.compile`, `torch.export` and control flow on the virtual GPU."""

from __future__ import annotations

import functools
import inspect
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import torch

from gpututor.devices.virtual import cuda_errors, torch_private
from gpututor.devices.virtual.machine import VirtualMachine, active_machine
from gpututor.devices.virtual.tensors.tensor import VirtualTensor

_SIGNATURE = inspect.signature(torch.compile)
REGION = "Torch-Compiled Region"
"""The name of a call of compiled code, in traces and profiles. Torch appends a number."""
_real_export: Any = torch.export.export
_warned: weakref.WeakSet[VirtualMachine] = weakref.WeakSet()
"""The machines on which the warning was shown."""


def compile(*args: Any, **kwargs: Any) -> Any:
    """Stand in for `torch.compile`: the same arguments, an eager result, and a warning once a machine."""
    given = _SIGNATURE.bind(*args, **kwargs).arguments
    if given.get("mode") is not None and given.get("options") is not None:
        raise RuntimeError("Either mode or options can be specified, but both can't be specified at the same time.")
    model = given.get("model")
    if model is None and not args:
        return lambda decorated: compile(decorated, **kwargs)
    if getattr(model, "__name__", "") == "_flex_attention_hop_wrapper":
        return _flex_attention
    is_disabled = bool(given.get("disable"))
    machine = active_machine()
    if not is_disabled and machine not in _warned:
        _warned.add(machine)
        warnings.warn("torch.compile runs eagerly on the virtual GPU.", stacklevel=2)
    enter: Callable[[Any], Any] = (lambda function: function) if is_disabled else _in_region
    if not isinstance(model, torch.nn.Module):
        return enter(model) if callable(model) else model
    # Imported here: it takes about a second.
    from torch._dynamo.eval_frame import OptimizedModule

    return OptimizedModule(model, enter)  # type: ignore[arg-type]


def _in_region(function: Any) -> Any:
    """Wrap a function so that each call is a range."""

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        with torch.profiler.record_function(REGION):
            return function(*args, **kwargs)

    return called


def _flex_attention(*args: Any, **kwargs: Any) -> Any:
    """Run the eager kernel of `flex_attention` instead of compiling it: autograd sees plain operators."""
    return torch_private.eager_kernel(torch.ops.higher_order.flex_attention)(*args, **kwargs)


def export(mod: Any, args: Any = (), kwargs: Any = None, **options: Any) -> Any:
    """Refuse tensors on a device: torch would look into the memory of its constants."""
    held = [*mod.parameters(), *mod.buffers()] if isinstance(mod, torch.nn.Module) else []
    given = torch_private.tree_leaves((args, kwargs))
    if any(type(value) is VirtualTensor for value in (*held, *given)):
        raise cuda_errors.unsupported("torch.export.export on a device", "Export on the CPU.")
    return _real_export(mod, args, kwargs, **options)


def cond(
    pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: tuple[Any, ...] | list[Any] = ()
) -> Any:
    """Return the result of one of both functions of the operands, as `pred`, a bool or one element, decides."""
    if not callable(true_fn) or not callable(false_fn):
        raise RuntimeError("Expect both branches to be callable.")  # torch/_higher_order_ops/cond.py
    return (true_fn if bool(pred) else false_fn)(*operands)


def while_loop(cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: Any) -> Any:
    """Run the body until the condition is false; return its last results."""
    if not callable(cond_fn) or not callable(body_fn):
        raise RuntimeError("Expect cond_fn and body_fn to be callable.")  # torch/_higher_order_ops/while_loop.py
    carried = carried_inputs
    while bool(cond_fn(*carried)):
        results = body_fn(*carried)
        carried = results if isinstance(results, tuple | list) else (results,)
    return tuple(carried)
