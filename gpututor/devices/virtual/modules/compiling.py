"""Compilers on a virtual GPU: there is none to compile for, so the code runs as it is written."""

from __future__ import annotations

import functools
import inspect
import warnings
import weakref
from typing import Any

import torch

from gpututor.devices.virtual import errors, private
from gpututor.devices.virtual.machine import VirtualMachine, active
from gpututor.devices.virtual.tensors.tensor import VirtualTensor

_SIGNATURE = inspect.signature(torch.compile)
REGION = "Torch-Compiled Region"
"""The name of a call of compiled code, in traces and profiles. Torch puts the number of what it compiled behind it."""
_real_export: Any = torch.export.export
_told: weakref.WeakSet[VirtualMachine] = weakref.WeakSet()
"""The machines whose learner knows."""


def compile(*args: Any, **kwargs: Any) -> Any:
    """Stands in for `torch.compile`: the same arguments, and what it gives runs eagerly; said once for each machine."""
    given = _SIGNATURE.bind(*args, **kwargs).arguments
    if given.get("mode") is not None and given.get("options") is not None:
        raise RuntimeError("Either mode or options can be specified, but both can't be specified at the same time.")
    model = given.get("model")
    if model is None and not args:
        return lambda decorated: compile(decorated, **kwargs)
    if getattr(model, "__name__", "") == "_flex_attention_hop_wrapper":
        return _flex_attention
    enter = _unchanged if given.get("disable") else _in_region
    if not given.get("disable"):
        _tell()
    if not isinstance(model, torch.nn.Module):
        return enter(model) if callable(model) else model
    # Imported here: it takes about a second.
    from torch._dynamo.eval_frame import OptimizedModule

    return OptimizedModule(model, enter)  # type: ignore[arg-type]


def _unchanged(function: Any) -> Any:
    return function


def _in_region(function: Any) -> Any:
    """The function, each call of which is a range of that name."""

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        with torch.profiler.record_function(REGION):
            return function(*args, **kwargs)

    return called


def _flex_attention(*args: Any, **kwargs: Any) -> Any:
    """What `flex_attention` would compile, by its eager kernel: autograd sees plain operators."""
    return private.eager_kernel(torch.ops.higher_order.flex_attention)(*args, **kwargs)


def _tell() -> None:
    machine = active()
    if machine not in _told:
        _told.add(machine)
        warnings.warn("torch.compile runs eagerly on the virtual GPU.", stacklevel=3)


def reset() -> None:
    """Stands in for `torch.compiler.reset`: nothing was compiled."""


def mark_step_begin() -> None:
    """Stands in for `torch.compiler.cudagraph_mark_step_begin`: there are no graphs of compiled code."""


def export(mod: Any, args: Any = (), kwargs: Any = None, **options: Any) -> Any:
    """Stands in for `torch.export.export`, which would look into the memory of its constants."""
    held = [*mod.parameters(), *mod.buffers()] if isinstance(mod, torch.nn.Module) else []
    given = private.tree_leaves((args, kwargs))
    if any(type(one) is VirtualTensor for one in (*held, *given)):
        raise errors.unsupported("torch.export.export on a device", "Export on the CPU.")
    return _real_export(mod, args, kwargs, **options)
