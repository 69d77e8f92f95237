"""Shape-only mode: results without values.

Behind each virtual tensor stands one on PyTorch's meta device, so that an operator's meta kernel says what it gives.
Where an operator has none, what PyTorch writes for compilers in its place is run there. What neither knows is refused
by name, and so is what cannot be said without values, such as how many elements are not zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import torch

from gpututor.devices.virtual import cuda_errors, torch_private
from gpututor.devices.virtual.machine import CPU, NOWHERE, active_machine
from gpututor.devices.virtual.memory.allocator import CachingAllocator
from gpututor.devices.virtual.operator_registry import Operator, Rule
from gpututor.devices.virtual.operators.fallbacks import CPU_SHAPE_RULES, Way
from gpututor.devices.virtual.operators.operands import UnwrappedArguments, bytes_of

Tensor = torch.Tensor
aten = torch.ops.aten
_REFUSALS = (NotImplementedError, RuntimeError, TypeError)
_NUMBER = "To print it, print the tensor: shape and device are shown. Else leave it out, or run with values."
_KNOWN = "_known_number"
_SMALL = 16 << 20
"""Bytes of arguments that the CPU is asked about, after an error."""
_BY_VALUES = (torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape)


def infer_outputs(op: Operator, hosts: Any, kwargs: dict[str, Any]) -> Any:
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
        raise cuda_errors.NoValues(op.name) from error
    if not isinstance(error, NotImplementedError):
        raise _of_cpu(op, args, named) or error
    composed = torch_private.decomposition(op.func)
    if composed is not None:
        return composed(*args, **named)
    instead = "Its shapes are known with values only: run with values, on smaller sizes."
    raise cuda_errors.unsupported(f"{op.name} without values", instead) from error


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
    **CPU_SHAPE_RULES,
    aten._amp_foreach_non_finite_check_and_unscale_.default: _none_infinite,
}


def known_number(tensor: Any) -> Any:
    """The one value that is known: that of GradScaler's flag, which never finds an infinite gradient."""
    found = getattr(tensor._host, _KNOWN, None)
    if found is None:
        raise cuda_errors.NoValues("Tensor.item()", _NUMBER)
    return found


@cache
def _refusing(rule: Rule) -> Rule:
    def guarded(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not active_machine().values:
            raise cuda_errors.unsupported(f"{func._schema.name} without values", "Size one process by itself.")
        return rule(func, args, kwargs)

    return guarded


def guarded(rules: dict[Any, Rule]) -> dict[Any, Rule]:
    """The rules of operators that carry values from process to process: they refuse where there are none."""
    return {operator: _refusing(rule) for operator, rule in rules.items()}


WIDEST = 16
"""Bytes of the widest element, complex128: a result of as many elements as the inputs can be that much larger."""


def could_grow(op: Operator, inputs: UnwrappedArguments, memory: CachingAllocator) -> bool:
    """Whether the results may not fit, by bounds that are cheap: else it is worth working out what they are.

    A result has at most as many elements as its two largest inputs multiplied, but for operators whose sizes come from
    numbers ("always"); those that work element by element on equal shapes give no more than they get.
    """
    if op.growth == "always":
        return True
    room = memory.room
    if inputs.size_bytes * WIDEST > room:
        return True
    wrappers = inputs.wrappers
    if op.growth == "same" or len(wrappers) < 2:
        return False
    hosts = [wrapper._host for wrapper in wrappers]
    if op.growth == "pointwise" and all(host.shape == hosts[0].shape for host in hosts):
        return False
    *_, second, first = sorted(host.numel() for host in hosts)
    return WIDEST * first * second > room


def could_fill(args: tuple[Any, ...], memory: CachingAllocator) -> bool:
    """Whether a factory's result may be too large; a cheap bound where its first argument is a size."""
    if not args or type(args[0]) not in (list, torch.Size):
        return True
    widest = WIDEST * math.prod(length for length in args[0] if type(length) is int)
    return widest > memory.room


def _shape_only(value: Any) -> Any:
    if isinstance(value, Tensor):
        return torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device="meta")
    return [_shape_only(one) for one in value] if type(value) in (list, tuple) else value


def _counts(values: Tensor, weights: Tensor | None = None, minlength: int = 0) -> list[int]:
    return [8 * max(minlength, int(values.max()) + 1 if values.numel() else 0)]


# What the values decide, which PyTorch cannot tell from shapes; CUDA reads them back to the host too.
_NEEDS_VALUES: dict[Any, Callable[..., list[int]]] = {
    torch.ops.aten.bincount.default: _counts,
    torch.ops.aten.repeat_interleave.Tensor: lambda repeats, **options: [8 * int(repeats.sum())],
}
_known: dict[Any, list[int]] = {}
_KNOWN_AT_MOST = 4096


def _predicted_outline(value: Any) -> Any:
    """What of an argument the size of a result can depend on."""
    if isinstance(value, Tensor):
        return value.shape, value.dtype
    return tuple(_predicted_outline(one) for one in value) if type(value) in (list, tuple) else (type(value), value)


def forecast(func: Any, hosts: Any, named: dict[str, Any]) -> list[int]:
    """The bytes of each tensor that `func` would make, without making it; none where PyTorch cannot tell.

    PyTorch works shapes out in Python, which takes as long as ten small operators: what was asked once is remembered.
    """
    options = {name: value for name, value in named.items() if name != "generator"}
    if func in _NEEDS_VALUES:
        return _NEEDS_VALUES[func](*hosts, **options)
    outline = (
        id(func),
        _predicted_outline(hosts),
        tuple((name, _predicted_outline(value)) for name, value in options.items()),
    )
    found = _known.get(outline)
    if found is None:
        if len(_known) >= _KNOWN_AT_MOST:
            _known.clear()
        found = _known[outline] = _work_out(func, hosts, options)
    return found


def _work_out(func: Any, hosts: Any, options: dict[str, Any]) -> list[int]:
    on_meta = {name: _shape_only(value) for name, value in options.items()}
    if "device" in on_meta:
        on_meta["device"] = torch.device("meta")
    try:
        made = func(*[_shape_only(value) for value in hosts], **on_meta)
    except (NotImplementedError, RuntimeError, IndexError, TypeError, ValueError):
        # The operator itself will say what is wrong with its arguments, in its own words.
        return []
    return [bytes_of(one) for one in (made if type(made) in (list, tuple) else [made]) if isinstance(one, Tensor)]
