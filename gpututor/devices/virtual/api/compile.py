"""Entry points of PyTorch's compiler: `torch.compile`, `torch.export` and control flow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from gpututor.devices.virtual import cuda_errors, torch_private
from gpututor.devices.virtual.execution.host_work import not_counted
from gpututor.devices.virtual.machine import active_machine
from gpututor.devices.virtual.tensors.tensor import VirtualTensor

_real_compile: Any = torch.compile
_real_export: Any = torch.export.export


def compile(model: Any = None, **kwargs: Any) -> Any:
    """Stand in for `torch.compile`: reject the backend "cudagraphs", and replace flex attention by its eager kernel."""
    if getattr(model, "__name__", "") == "_flex_attention_hop_wrapper":
        return eager_flex_attention
    if kwargs.get("backend") == "cudagraphs":
        raise cuda_errors.unsupported('torch.compile(backend="cudagraphs")', 'Use mode="reduce-overhead".')
    with not_counted():  # it imports Dynamo
        return _real_compile(model, **kwargs)


def mark_step() -> None:
    """Stand in for `torch.compiler.cudagraph_mark_step_begin`: results of earlier steps may be overwritten."""
    active_machine().marked_steps += 1


def eager_flex_attention(*args: Any, **kwargs: Any) -> Any:
    """Run the eager kernel of `flex_attention` instead of compiling it: autograd sees plain operators."""
    return torch_private.eager_kernel(torch.ops.higher_order.flex_attention)(*args, **kwargs)


def export(mod: Any, args: Any = (), kwargs: Any = None, **options: Any) -> Any:
    """Stand in for `torch.export.export`: reject device tensors, because torch would read the memory of constants."""
    held = [*mod.parameters(), *mod.buffers()] if isinstance(mod, torch.nn.Module) else []
    given = torch_private.tree_leaves((args, kwargs))
    if any(type(value) is VirtualTensor for value in (*held, *given)):
        raise cuda_errors.unsupported("torch.export.export on a device", "Export on the CPU.")
    with torch_private.no_function_modes():  # Dynamo of PyTorch 2.11 would trace into this thread's function mode
        return _real_export(mod, args, kwargs, **options)


def cond(
    pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: tuple[Any, ...] | list[Any] = ()
) -> Any:
    """Return `true_fn(*operands)` if `pred`, a bool or a tensor of one element, is true, else `false_fn(*operands)`."""
    if not callable(true_fn) or not callable(false_fn):
        raise RuntimeError("Expect both branches to be callable.")  # torch/_higher_order_ops/cond.py
    return (true_fn if bool(pred) else false_fn)(*operands)


def run_control_flow(func: Any, args: Any, kwargs: Any) -> Any:
    """Run `cond` or `while_loop` of a graph that Dynamo captured; calls with fake tensors go to torch's operator."""
    if not any(type(value) is VirtualTensor for value in torch_private.tree_leaves((args, kwargs))):
        return func(*args, **kwargs)
    return (cond if func.name() == "cond" else while_loop)(*args, **kwargs)


def while_loop(
    cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: Any, additional_inputs: Any = ()
) -> Any:
    """Run the body until the condition is false; return its last results.

    A captured graph has `additional_inputs`, which both functions read but do not change.
    """
    if not callable(cond_fn) or not callable(body_fn):
        raise RuntimeError("Expect cond_fn and body_fn to be callable.")  # torch/_higher_order_ops/while_loop.py
    carried = carried_inputs
    while bool(cond_fn(*carried, *additional_inputs)):
        results = body_fn(*carried, *additional_inputs)
        carried = results if isinstance(results, tuple | list) else (results,)
    return tuple(carried)
