"""Operators on tensors without values: PyTorch works out what shapes come back, and nothing is computed.

Behind each virtual tensor stands one on PyTorch's meta device, so that an operator's meta kernel says what it gives.
Where an operator has none, what PyTorch writes for compilers in its place is run there. What neither knows is refused
by name, and so is what cannot be said without values, such as how many elements are not zero.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

from gpututor.devices.virtual import errors, private
from gpututor.devices.virtual.machine import CPU, NOWHERE, active
from gpututor.devices.virtual.operators.as_on_cpu import WAYS, Way
from gpututor.devices.virtual.operators.inputs import bytes_of
from gpututor.devices.virtual.operators.overloads import Operator, Rule

Tensor = torch.Tensor
aten = torch.ops.aten
_REFUSALS = (NotImplementedError, RuntimeError, TypeError)
_NUMBER = "To print it, print the tensor: shape and device are shown. Else leave it out, or run with values."
_KNOWN = "_known_number"
_SMALL = 16 << 20
"""Bytes of arguments that the CPU is asked about, after an error."""
_BY_VALUES = (torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape)


def outlines(op: Operator, hosts: Any, kwargs: dict[str, Any]) -> Any:
    """What `op` gives for tensors without values; CPU tensors among its arguments count by their shapes.

    Raises `NoValues` where values decide it, `NotImplementedError` for an operator of which no shapes are known.
    """
    args = [_outline(one) for one in hosts]
    named = {name: _outline(one) for name, one in kwargs.items() if name != "generator"}
    own = _OWN_WAYS.get(op.func)
    if own is not None:
        return own(op, args, named)
    try:
        return op.call(*args, **named)
    except _REFUSALS as error:
        return _after_refusal(error, op, args, named)


def _after_refusal(error: Exception, op: Operator, args: list[Any], named: dict[str, Any]) -> Any:
    if any(tag in op.func.tags for tag in _BY_VALUES):
        raise errors.NoValues(op.name) from error
    if not isinstance(error, NotImplementedError):
        raise _of_cpu(op, args, named) or error
    composed = private.decomposition(op.func)
    if composed is not None:
        return composed(*args, **named)
    instead = "Its shapes are known with values only: run with values, on smaller sizes."
    raise errors.unsupported(f"{op.name} without values", instead) from error


def _of_cpu(op: Operator, args: list[Any], named: dict[str, Any]) -> Exception | None:
    """What the CPU says to arguments of these shapes, where they are small; meta kernels often say it otherwise."""
    if bytes_of([*args, *named.values()]) > _SMALL:
        return None
    try:
        op.call(*map(_zeros, args), **{name: _zeros(one) for name, one in named.items()})
    except _REFUSALS as error:
        return error
    return None


def _zeros(value: Any) -> Any:
    if isinstance(value, Tensor):
        return torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device=CPU).zero_()
    return [_zeros(one) for one in value] if type(value) is list else value


def _outline(value: Any) -> Any:
    """`value` with tensors without values in the place of those on the CPU."""
    if isinstance(value, Tensor):
        return value if value.is_meta else _to_nowhere(value)
    if type(value) is list or type(value) is tuple:
        return type(value)(_outline(one) for one in value)
    return value


def _to_nowhere(host: Tensor) -> Tensor:
    return torch.empty_strided(host.size(), host.stride(), dtype=host.dtype, device=NOWHERE)


def _none_infinite(op: Operator, args: list[Any], named: dict[str, Any]) -> None:
    """GradScaler looks for infinite gradients: there are none, so that its step is done, as most are."""
    setattr(args[1], _KNOWN, 0.0)


_OWN_WAYS: dict[Any, Way] = {
    **WAYS,
    aten._amp_foreach_non_finite_check_and_unscale_.default: _none_infinite,
}


def known_number(tensor: Any) -> Any:
    """The one value that is known: that of GradScaler's flag, which never finds an infinite gradient."""
    found = getattr(tensor._host, _KNOWN, None)
    if found is None:
        raise errors.NoValues("Tensor.item()", _NUMBER)
    return found


@cache
def _refusing(rule: Rule) -> Rule:
    def guarded(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not active().values:
            raise errors.unsupported(f"{func._schema.name} without values", "Size one process by itself.")
        return rule(func, args, kwargs)

    return guarded


def guarded(rules: dict[Any, Rule]) -> dict[Any, Rule]:
    """The rules of operators that carry values from process to process: they refuse where there are none."""
    return {operator: _refusing(rule) for operator, rule in rules.items()}
