"""`torch.cond` and `while_loop`, which choose and repeat: in plain Python, where torch would trace them to compile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def cond(
    pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: tuple[Any, ...] | list[Any] = ()
) -> Any:
    """Stands in for `torch.cond`: one of both functions of the operands, as `pred`, a bool or one element, says."""
    if not callable(true_fn) or not callable(false_fn):
        raise RuntimeError("Expect both branches to be callable.")  # torch/_higher_order_ops/cond.py
    return (true_fn if bool(pred) else false_fn)(*operands)


def while_loop(cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: Any) -> Any:
    """Stands in for `while_loop`: the last results of the body, which each turn gets from the one before."""
    if not callable(cond_fn) or not callable(body_fn):
        raise RuntimeError("Expect cond_fn and body_fn to be callable.")  # torch/_higher_order_ops/while_loop.py
    carried = carried_inputs
    while bool(cond_fn(*carried)):
        found = body_fn(*carried)
        carried = found if isinstance(found, tuple | list) else (found,)
    return tuple(carried)
